"""From sampling parameters to a request of the core: the one place where the two meet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from infer_lab.core.request import Request
from infer_lab.sampling_params import SamplingParams


def make_request(
    request_id: str,
    prompt_token_ids: Sequence[int],
    params: SamplingParams,
    *,
    vocab_size: int,
    eos_token_ids: Iterable[int] = (),
    **options: Any,
) -> Request:
    """options: the other keywords of Request (priority, tenant, cache_keys). UserError for parameters that this model cannot honour.

    For n > 1 this is called with `params.for_child(i)` for each of the n."""
    assert params.n == 1, "each of n sequences has parameters of its own: params.for_child(i)"
    params.check_against(vocab_size, eos_token_ids)
    return Request(
        request_id,
        prompt_token_ids,
        params.max_tokens,
        min_tokens=params.min_tokens,
        eos_token_ids=eos_token_ids,
        stop_token_ids=params.stop_token_ids,
        ignore_eos=params.ignore_eos,
        params=params,
        skip_reading_prefix_cache=params.prompt_logprobs is not None,
        **options,
    )
