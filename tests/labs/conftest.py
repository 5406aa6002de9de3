from __future__ import annotations

from tests.poison import unwritten_kv_is_nan  # noqa: F401
