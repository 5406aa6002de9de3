"""One sequence as its caller sees it: text that grows, and what of it the caller has not taken yet.

Why not in the core: tokens decide there, and text is nobody's business. Why news is kept here instead of sent: a caller who reads slowly
gets several steps' news in one update; the engine waits for nobody, and memory is bounded by the answer itself. Nor is text decoded before
somebody reads it, unless stop strings must be looked for: between two steps the device waits, and a batch of 256 has 256 tokens a step.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from infer_lab.core.plan import TokenLogprobs
from infer_lab.core.record import DraftCounts
from infer_lab.core.request import Request, RequestUpdate
from infer_lab.engine.detokenizer import detokenizer_for
from infer_lab.engine.stop_strings import StopStrings
from infer_lab.outputs import CompletionOutput, Logprob, Logprobs, RequestMetrics, StreamUpdate
from infer_lab.sampling_params import SamplingParams
from infer_lab.tokenizer import Tokenizer


class SequenceState:
    """request: the core's side of it. token_ids: what the caller gets; the core may know more, when drafts were accepted beyond a stop
    string. finish_reason, stop_reason: see CompletionOutput."""

    def __init__(self, index: int, request: Request, params: SamplingParams, tokenizer: Tokenizer | None) -> None:
        self.index = index
        self.request = request
        self.token_ids: list[int] = []
        self.finish_reason: str | None = None
        self.stop_reason: str | int | None = None
        self.num_observed = 0  # tokens whose times the metrics have seen
        self._params = params
        self._tokenizer = tokenizer
        self._detokenizer = detokenizer_for(tokenizer) if tokenizer else None
        self._stops = StopStrings(params.stop, params.include_stop_str_in_output) if params.stop else None
        self._pieces: list[str] = []  # of the text
        self._num_decoded = 0  # tokens whose text is there, or held back
        self._logprobs: list[Logprobs] = []
        self._taken = (0, 0, False)  # pieces, tokens and whether the end was told

    @property
    def text(self) -> str:
        self._decode_news()
        return "".join(self._pieces)

    @property
    def token_times(self) -> list[float]:
        """When each token was known, seconds of the scheduler's clock."""
        return self.request.timeline.token_times[: len(self.token_ids)]

    def add(self, update: RequestUpdate) -> int:
        """New tokens, or the end, or both. How many of the tokens count: those after a stop string do not."""
        new, reason, kept = update.new_token_ids, update.finish_reason, 0
        # a stop token ends the text, and is no part of it
        hides_last = reason == "stop" and bool(new) and not self._params.include_stop_str_in_output
        if self._stops is None:
            kept = len(new)
            self.token_ids += new
        else:
            for token in new:
                kept += 1
                self.token_ids.append(token)
                self._decode_news(hides_last and kept == len(new))
                if self._stops.found is not None:
                    break
        if update.logprobs:
            self._logprobs += (logprobs_of(entry, self._tokenizer) for entry in update.logprobs[:kept])
        if self._stops is not None and self._stops.found is not None:
            self.finish_reason, self.stop_reason = "stop", self._stops.found
        elif reason is not None:
            self._decode_news(hides_last)
            self._finish(reason)
        return kept

    def _decode_news(self, hides_last: bool = False) -> None:
        """Text of the tokens that were not decoded yet. With stop strings there is one such token at most."""
        if self._num_decoded == len(self.token_ids):
            return
        news = self.token_ids[self._num_decoded : len(self.token_ids) - hides_last]
        self._num_decoded = len(self.token_ids)
        text = self._detokenizer.add(*news) if self._detokenizer else ""
        if self._stops is not None:
            text = self._stops.feed(text, armed=len(self.token_ids) >= self._params.min_tokens)
        self._append(text)

    def _append(self, piece: str) -> None:
        if piece:
            self._pieces.append(piece)

    def _finish(self, reason: str) -> None:
        self.finish_reason = reason
        if reason == "stop" and self.token_ids[-1] in self._params.stop_token_ids:
            self.stop_reason = self.token_ids[-1]
        rest = self._detokenizer.flush() if self._detokenizer else ""
        if self._stops is not None:
            rest = self._stops.feed(rest, armed=len(self.token_ids) >= self._params.min_tokens)
            if self._stops.found is None:
                rest += self._stops.flush()
            else:
                self.finish_reason, self.stop_reason = "stop", self._stops.found
        self._append(rest)

    def take(self) -> StreamUpdate | None:
        """Everything new since the last call; None if there is nothing."""
        self._decode_news()
        pieces, tokens, end_told = self._taken
        now = (len(self._pieces), len(self.token_ids), self.finish_reason is not None)
        if now == self._taken:
            return None
        self._taken = now
        return StreamUpdate(
            text="".join(self._pieces[pieces:]),
            token_ids=tuple(self.token_ids[tokens:]),
            index=self.index,
            finish_reason=None if end_told else self.finish_reason,
            logprobs=tuple(self._logprobs[tokens:]),
        )

    def completion(self) -> CompletionOutput:
        return CompletionOutput(
            index=self.index,
            text=self.text,
            token_ids=tuple(self.token_ids),
            finish_reason=self.finish_reason or "abort",
            metrics=self._metrics(),
            stop_reason=self.stop_reason,
            logprobs=None if self._params.logprobs is None else tuple(self._logprobs),
        )

    def prompt_logprobs(self) -> tuple[Logprobs | None, ...] | None:
        if self._params.prompt_logprobs is None:
            return None
        return None, *(logprobs_of(entry, self._tokenizer) for entry in self.request.prompt_logprobs)

    def _metrics(self) -> RequestMetrics:
        timeline, times = self.request.timeline, self.token_times
        arrival = timeline.arrival_time or 0.0
        return RequestMetrics(
            queue_s=timeline.queue_time or 0.0,
            ttft_s=timeline.ttft or 0.0,
            tpot_s=(times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None,
            e2e_s=(timeline.finish_time or arrival) - arrival,
            itl_s=tuple(after - before for before, after in pairwise(times)),
            num_preemptions=self.request.num_preemptions,
            drafts=self.request.draft_counts + DraftCounts() if self.request.draft_counts.num_drafts else None,
        )


def logprobs_of(entry: TokenLogprobs, tokenizer: Tokenizer | None) -> Logprobs:
    """The token that stands there first, then the likeliest, best first."""

    def items() -> Iterable[tuple[int, float, int]]:
        yield entry.token_id, entry.logprob, entry.rank
        for rank, (token, logprob) in enumerate(entry.top, 1):
            if token != entry.token_id:
                yield token, logprob, rank

    def text(token: int) -> str:
        return tokenizer.decode([token], skip_special_tokens=False) if tokenizer else ""

    return {token: Logprob(logprob, rank, text(token)) for token, logprob, rank in items()}
