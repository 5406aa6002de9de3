"""What a caller may ask of one request. An option that is not here is an error, never ignored."""

from __future__ import annotations

from dataclasses import dataclass

from infer_lab.errors import UserError

_LARGEST = 1e30  # temperatures are float32 where they are used


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
        def require(ok: bool, message: str) -> None:
            if not ok:
                raise UserError(message)

        try:
            object.__setattr__(self, "stop_token_ids", tuple(self.stop_token_ids))
        except TypeError:
            raise UserError(f"stop_token_ids must be token ids such as (2, 7), got {self.stop_token_ids!r}") from None
        for token in self.stop_token_ids:
            require(isinstance(token, int) and 0 <= token < 2**63, f"stop_token_ids must be token ids, got {token!r}")
        require(
            isinstance(self.max_tokens, int) and self.max_tokens >= 1, f"max_tokens must be a whole number >= 1, got {self.max_tokens!r}"
        )
        ok = isinstance(self.temperature, (int, float)) and 0 <= self.temperature <= _LARGEST
        require(ok, f"temperature must be a number in [0, {_LARGEST:g}], got {self.temperature!r}")
        require(isinstance(self.top_k, int) and 0 <= self.top_k < 2**63, f"top_k must be 0 (off) or a positive number, got {self.top_k!r}")
        require(isinstance(self.top_p, (int, float)) and 0 < self.top_p <= 1, f"top_p must lie in (0, 1], got {self.top_p!r}")
        ok = self.seed is None or (isinstance(self.seed, int) and 0 <= self.seed < 2**63)
        require(ok, f"seed must be a whole number in [0, 2**63), got {self.seed!r}")
        require(isinstance(self.ignore_eos, bool), f"ignore_eos must be True or False, got {self.ignore_eos!r}")
