"""How many drafts are worth it: one estimate of acceptance for each request, and the length with the best expected speed-up for it.

Why by request: one quotes its prompt and takes everything, its neighbour writes freely and takes nothing; what is drafted in vain costs
everybody's step. The model behind it is the closed form of Leviathan et al. (2023), `calculator.speculative_speedup`.
"""

from __future__ import annotations

from infer_lab.calculator import speculative_speedup

_RESOLUTION = 100
_DECAY = 0.9  # of older evidence, at each step that verified drafts: about ten steps of memory
_PRIOR = (1.8, 0.2)  # accepted, rejected: before anything is known, drafts are given a chance
_PROBE_EVERY = 16  # steps without drafts after which a request may have one draft, to see whether its text has changed


class DraftLengths:
    """The best number of drafts, 0 to `most`, for an acceptance rate. Computed once for all rates in steps of a hundredth.

    draft_cost: time of one draft; verify_token_cost: what a step takes longer for each token to verify; both as shares of a plain step."""

    def __init__(self, most: int, draft_cost: float, verify_token_cost: float) -> None:
        def best(acceptance: float) -> int:
            return max(range(most + 1), key=lambda k: (speculative_speedup(acceptance, k, draft_cost, 1 + k * verify_token_cost).base, -k))

        self._best = [best(i / _RESOLUTION) for i in range(_RESOLUTION + 1)]

    def best(self, acceptance: float) -> int:
        return self._best[round(acceptance * _RESOLUTION)]


class DraftLength:
    """One request's. `observe` after each verifying step, `next` before each step."""

    def __init__(self, lengths: DraftLengths) -> None:
        self._lengths = lengths
        self._accepted, self._rejected = _PRIOR
        self._idle = 0

    @property
    def acceptance(self) -> float:
        """Estimated chance that a draft is accepted, given that those before it were."""
        return self._accepted / (self._accepted + self._rejected)

    def observe(self, num_drafted: int, num_accepted: int) -> None:
        """Drafts after the first rejected one say nothing: they continue another text."""
        self._accepted = self._accepted * _DECAY + num_accepted
        self._rejected = self._rejected * _DECAY + (num_accepted < num_drafted)
        self._idle = 0

    def next(self) -> int:
        """A probe that came to nothing, since there was nothing to draft or no room for it, is tried again at the next step."""
        length = self._lengths.best(self.acceptance)
        self._idle = 0 if length else self._idle + 1
        return 1 if self._idle >= _PROBE_EVERY else length
