"""Rows for the sampler without an engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from infer_lab.core.plan import AdmittedRequest
from infer_lab.sample.row_state import RowState, SampleRows, TokenCounts
from infer_lab.sampling_params import SamplingParams


def make_rows(
    params: Sequence[SamplingParams],
    positions: Iterable[int],
    *,
    vocab_size: int,
    prompts: Sequence[Sequence[int]] | None = None,
    outputs: Sequence[Sequence[int]] | None = None,
    drafts: Sequence[Sequence[int]] | None = None,
    stops: Iterable[int] = (),
) -> SampleRows:
    """One request a row; prompts, outputs and drafts are its tokens, one list a row."""
    counts = TokenCounts(vocab_size, torch.device("cpu"))
    none = [()] * len(params)
    states = [
        RowState.of(AdmittedRequest(str(i), (*prompt, *output), len(prompt), p, frozenset(stops) | frozenset(p.stop_token_ids)), counts)
        for i, (p, prompt, output) in enumerate(zip(params, prompts or none, outputs or none, strict=True))
    ]
    return SampleRows(states, [tuple(d) for d in drafts or none], list(positions), counts)
