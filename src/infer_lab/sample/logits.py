"""Masks, bias and penalties: what options do to logits before the temperature. Pure functions over a mixed batch, each row by its own
parameters, in vLLM's order (see SamplingParams). Rows without such options are not touched and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from infer_lab.sample.row_state import RowState, SampleRows


def process_logits(logits: Tensor, rows: SampleRows) -> Tensor:
    """logits float32 [rows, vocab] → the same after every option but temperature, min_p, top_k and top_p. The input is left as it was."""
    if all(state.is_plain for state in rows.states):
        return logits
    logits = logits.clone()
    _keep_allowed(logits, rows)
    _fill(logits, rows, lambda state, _: state.banned)
    _fill(logits, rows, lambda state, num_output: state.stops if num_output < state.params.min_tokens else None)
    _add_bias(logits, rows)
    _penalize(logits, rows)
    return logits


def _pairs(rows: SampleRows, ids_of: Callable[[RowState, int], Tensor | None], device: torch.device) -> tuple[Tensor, Tensor] | None:
    """(row, token id) for every token of `ids_of(state, number of output tokens)`; None if there is none."""
    found = []
    for i, (state, drafts) in enumerate(zip(rows.states, rows.drafts, strict=True)):
        ids = ids_of(state, state.num_output + len(drafts))
        if ids is not None:
            found.append((i, ids))
    if not found:
        return None
    indices = torch.tensor([i for i, _ in found], device=device)
    counts = torch.tensor([len(ids) for _, ids in found], device=device)
    return indices.repeat_interleave(counts), torch.cat([ids for _, ids in found])


def _keep_allowed(logits: Tensor, rows: SampleRows) -> None:
    pairs = _pairs(rows, lambda state, _: state.allowed, logits.device)
    if pairs is not None:
        kept = logits[pairs]
        logits[pairs[0].unique()] = float("-inf")
        logits[pairs] = kept


def _fill(logits: Tensor, rows: SampleRows, ids_of: Callable[[RowState, int], Tensor | None]) -> None:
    pairs = _pairs(rows, ids_of, logits.device)
    if pairs is not None:
        logits[pairs] = float("-inf")


def _add_bias(logits: Tensor, rows: SampleRows) -> None:
    pairs = _pairs(rows, lambda state, _: state.bias_ids, logits.device)
    if pairs is not None:
        values = [state.bias_values for state in rows.states if state.bias_ids is not None]
        logits[pairs] += torch.cat([v for v in values if v is not None])  # each (row, token) stands there once


def _penalize(logits: Tensor, rows: SampleRows) -> None:
    """Repetition looks at prompt and output, frequency and presence at the output alone; drafts before a row are output for it."""
    penalized = [i for i, state in enumerate(rows.states) if state.slot >= 0]
    if not penalized:
        return
    device = logits.device
    params = [rows.states[i].params for i in penalized]
    slots = torch.tensor([rows.states[i].slot for i in penalized], device=device)
    counts, known = rows.counts.output[slots], rows.counts.known[slots]
    drafts = [(row, token) for row, i in enumerate(penalized) for token in rows.drafts[i]]
    if drafts:
        at = torch.tensor(drafts, device=device).unbind(1)
        counts.index_put_(at, torch.ones(len(drafts), dtype=torch.int32, device=device), accumulate=True)
        known[at] = True
    row, token = known.nonzero(as_tuple=True)  # penalties change these alone, a small part of the vocabulary
    table = torch.tensor([(p.repetition_penalty, p.frequency_penalty, p.presence_penalty) for p in params], device=device)
    repetition, frequency, presence = table[row].unbind(1)
    at = (torch.tensor(penalized, device=device)[row], token)
    x, n = logits[at], counts[row, token]
    x = torch.where(x > 0, x / repetition, x * repetition) - frequency * n - presence * (n > 0)
    logits[at] = x.clamp_(max=torch.finfo(x.dtype).max)  # an infinite logit would be NaN in the softmax
