"""Memory that nobody has written is NaN in the tests, so whoever reads it is found at once, and every time.

`from tests.poison import unwritten_kv_is_nan` in a conftest is enough.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infer_lab.worker.kv_cache import KVCache


@pytest.fixture(scope="session", autouse=True)
def unwritten_kv_is_nan() -> Iterator[None]:
    sound = KVCache.__init__

    def poisoned(self, *args, **kwargs):
        sound(self, *args, **kwargs)
        for memory in (self.device, self.host, self.scales, self.host_scales):
            if memory is not None and memory.is_floating_point():  # INT8 has no NaN: its scales have
                memory.fill_(float("nan"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KVCache, "__init__", poisoned)
        yield
