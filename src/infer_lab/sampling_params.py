"""What a caller may ask of one request. An option that is not here is an error, never ignored."""

from __future__ import annotations

from dataclasses import dataclass

from infer_lab.errors import UserError


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """temperature 0 is greedy. top_k 0 and top_p 1 switch those filters off.

    seed fixes the request's own random stream (drawn by position, so batch mates, chunking and preemption do not change it);
    None takes a fresh one. ignore_eos goes on past the model's end token.
    """

    max_tokens: int = 128
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    ignore_eos: bool = False
    stop_token_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop_token_ids", tuple(self.stop_token_ids))
        if not isinstance(self.max_tokens, int) or self.max_tokens < 1:
            raise UserError(f"max_tokens must be a whole number of at least 1, got {self.max_tokens!r}")
        if not 0 <= self.temperature < float("inf"):
            raise UserError(f"temperature must be a finite number of at least 0, got {self.temperature!r}")
        if not isinstance(self.top_k, int) or self.top_k < 0:
            raise UserError(f"top_k must be 0 (off) or a positive whole number, got {self.top_k!r}")
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p must lie in (0, 1], got {self.top_p!r}")
        if self.seed is not None and not 0 <= self.seed < 2**63:
            raise UserError(f"seed must lie in [0, 2**63), got {self.seed!r}")
