"""When two greedy continuations count as the same, and when a difference is a bug.

Two programs that add the same numbers in another order differ in the last bits of a logit (about 1e-5 here). That changes a token
only where the two largest logits all but tie. So: tokens must be equal up to the first position where the *reference's own* margin
is below NEAR_TIE; a difference there is a near-tie, counted, and ends the comparison of that prompt (what follows has another
prefix). A difference anywhere else is a bug.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

NEAR_TIE = 1e-3


def near_ties(outputs: Iterable[tuple[str, Sequence[int]]], reference: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Names of the prompts that differ at a near-tie. AssertionError for any other difference, with both continuations."""
    ties = []
    for name, tokens in outputs:
        expected = reference[name]["tokens"][: len(tokens)]
        at = next((i for i, (ours, theirs) in enumerate(zip(tokens, expected, strict=True)) if ours != theirs), None)
        if at is None:
            continue
        margin = reference[name]["margins"][at]
        assert margin < NEAR_TIE, f"{name}: token {at} is {tokens[at]}, the reference has {expected[at]} with a margin of {margin}"
        ties.append(name)
    return ties
