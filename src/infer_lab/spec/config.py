"""How to speculate: frozen, checked once. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from infer_lab.errors import UnsupportedOptionError, UserError

_NGRAM = (2, 4)


@dataclass(frozen=True, slots=True)
class SpeculativeConfig:
    """Where drafts come from, and how many.

    method: "ngram" copies what followed the last tokens the last time that they stood in the text (prompt lookup); "draft" asks a model.
    num_draft_tokens: the most drafts of a request in a step.
    adaptive: fewer where they are rejected, by each request's own history (infer_lab.spec.adaptive).
    verify_token_cost: time that a step takes longer for each token to verify, as a share of a step without; for `adaptive`. None: 0.3 on a
        CPU, where a few rows more are so much more arithmetic; 0 on a GPU, where a small batch waits for the weights anyway.
    ngram_min, ngram_max: how many last tokens must, and may, be found again (2 and 4 if not given).
    draft_layers: the first so many layers of the model itself, with its own final norm and head; or
    draft_model: another model with the same vocabulary: a name or path as in EngineConfig.model.
    acceptance: what becomes of a draft model's tokens at a temperature above 0. "standard": the rejection rule of Leviathan et al. and
        Chen et al. (2023), which accepts the most; the distribution is the model's own, but a seeded request may come out differently
        when batch mates or preemption change its drafts. "exact": draft and model draw with the same random numbers, and a draft is kept
        if they agree; accepts less, and the tokens are those that come without speculation. (n-gram drafts are always exact.)
    """

    method: Literal["ngram", "draft"] = "ngram"
    num_draft_tokens: int = 4
    adaptive: bool = True
    verify_token_cost: float | None = None
    ngram_min: int | None = None
    ngram_max: int | None = None
    draft_layers: int | None = None
    draft_model: str | None = None
    acceptance: Literal["standard", "exact"] = "standard"

    def __post_init__(self) -> None:
        def require(ok: bool, message: str) -> None:
            if not ok:
                raise UserError(message)

        require(self.method in ("ngram", "draft"), f"speculative method must be 'ngram' or 'draft', got {self.method!r}")
        require(self.acceptance in ("standard", "exact"), f"acceptance must be 'standard' or 'exact', got {self.acceptance!r}")
        require(isinstance(self.adaptive, bool), f"adaptive must be True or False, got {self.adaptive!r}")
        ok = self.verify_token_cost is None or (isinstance(self.verify_token_cost, (int, float)) and 0 <= self.verify_token_cost <= 10)
        require(ok, f"verify_token_cost is a share of a step, in [0, 10]; got {self.verify_token_cost!r}")
        for name, low, high in (("num_draft_tokens", 1, 64), ("ngram_min", 1, 64), ("ngram_max", 1, 64), ("draft_layers", 1, 2**31)):
            value = getattr(self, name)
            ok = value is None or (isinstance(value, int) and not isinstance(value, bool) and low <= value <= high)
            require(
                ok and (value is not None or name != "num_draft_tokens"), f"{name} must be a whole number in [{low}, {high}], got {value!r}"
            )
        others = {"ngram": ("draft_layers", "draft_model"), "draft": ("ngram_min", "ngram_max")}[self.method]
        if given := [name for name in others if getattr(self, name) is not None]:
            raise UnsupportedOptionError(f"{' and '.join(given)} has no meaning for speculative method {self.method!r}; leave it out")
        if self.method == "ngram":
            low = self.ngram_min or min(_NGRAM[0], self.ngram_max or _NGRAM[0])
            high = self.ngram_max or max(_NGRAM[1], low)
            require(low <= high, f"ngram_min = {low} is larger than ngram_max = {high}")
            object.__setattr__(self, "ngram_min", low)
            object.__setattr__(self, "ngram_max", high)
        else:
            ok = (self.draft_layers is None) != (self.draft_model is None)
            require(ok, "speculative method 'draft' wants draft_layers (of the model itself) or draft_model (a name or path), one of them")
            ok = self.draft_model is None or (isinstance(self.draft_model, str) and self.draft_model != "")
            require(ok, f"draft_model must be a name or path, got {self.draft_model!r}")

    @classmethod
    def parse(cls, text: str) -> SpeculativeConfig:
        """From one word: "ngram", "draft:8" (the model's own first 8 layers), "draft:path/to/model"."""
        method, _, draft = text.partition(":")
        if text == "ngram":
            return cls()
        if method == "draft" and draft:
            return cls("draft", draft_layers=int(draft)) if draft.isdecimal() else cls("draft", draft_model=draft)
        raise UserError(f"speculative is 'ngram', 'draft:<number of the model's own first layers>' or 'draft:<model>'; got {text!r}")
