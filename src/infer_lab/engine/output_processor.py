"""From what a step changed to what callers read: the one place for it, behind `LLM` and `AsyncEngine` alike.

Why one place: that streaming equals not streaming, that usage and finish reasons agree with the text, and that metrics count what was
delivered, is then true by construction. (The name and the idea are vLLM V1's.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from infer_lab.core.request import RequestUpdate
from infer_lab.engine.metrics import EngineMetrics
from infer_lab.engine.sequence import SequenceState
from infer_lab.errors import EngineError, InferLabError
from infer_lab.outputs import CompletionOutput, RequestMetrics, RequestOutput, StreamUpdate


class RequestState:
    """A caller's request: n sequences of one prompt. error: why it has failed, if it has."""

    def __init__(self, request_id: str, prompt: str | None, sequences: Sequence[SequenceState]) -> None:
        self.request_id = request_id
        self.prompt = prompt
        self.sequences = tuple(sequences)
        self.error: InferLabError | None = None
        self.prompt_counted = False  # by the metrics
        self._end_told = False

    @classmethod
    def refused(cls, request_id: str, prompt: str | None, error: InferLabError) -> RequestState:
        """A request that never was one."""
        state = cls(request_id, prompt, ())
        state.error = error
        return state

    @property
    def num_output_tokens(self) -> int:
        return sum(len(sequence.token_ids) for sequence in self.sequences)

    @property
    def is_finished(self) -> bool:
        if self.error is None:
            for sequence in self.sequences:  # asked for every sequence in every step, so without a generator
                if sequence.finish_reason is None:
                    return False
        return True

    def take(self) -> list[StreamUpdate]:
        """What is new, at most one update a sequence; the very last one carries the output. None tells of an error: that is raised."""
        updates = [update for sequence in self.sequences if (update := sequence.take()) is not None]
        if self.error is not None:
            return [replace(update, finish_reason=None) for update in updates if update.token_ids]
        if self.is_finished and not self._end_told:
            self._end_told = True
            last = updates.pop()  # the end itself is news of at least one sequence
            updates.append(replace(last, output=self.output()))
        return updates

    def output(self) -> RequestOutput:
        if not self.sequences:
            nothing = CompletionOutput(0, "", (), "error", RequestMetrics(0.0, 0.0, None, 0.0, (), 0))
            return RequestOutput(self.request_id, self.prompt, (), (nothing,), error=str(self.error))
        first = self.sequences[0]
        return RequestOutput(
            request_id=self.request_id,
            prompt=self.prompt,
            prompt_token_ids=tuple(first.request.prompt_token_ids),
            outputs=tuple(sequence.completion() for sequence in self.sequences),
            num_cached_tokens=first.request.num_cached_tokens,
            prompt_logprobs=first.prompt_logprobs(),
            error=None if self.error is None else str(self.error),
        )


class OutputProcessor:
    """Knows the sequences that are alive, by the core's request ids. end_in_core: tells the core that a stop string ended one."""

    def __init__(self, metrics: EngineMetrics, end_in_core: Callable[[str], object]) -> None:
        self._metrics = metrics
        self._end_in_core = end_in_core
        self._alive: dict[str, tuple[RequestState, SequenceState]] = {}

    def add(self, state: RequestState) -> None:
        for sequence in state.sequences:
            self._alive[sequence.request.request_id] = (state, sequence)

    def is_alive(self, sequence: SequenceState) -> bool:
        entry = self._alive.get(sequence.request.request_id)
        return entry is not None and entry[1] is sequence

    def sequences(self) -> list[SequenceState]:
        return [sequence for _, sequence in self._alive.values()]

    def process(self, updates: Iterable[RequestUpdate], cause: BaseException | None = None) -> list[RequestState]:
        """The requests that have news. cause: what broke the step, for sequences that end in "error"."""
        touched: dict[RequestState, None] = {}
        for update in updates:
            entry = self._alive.get(update.request_id)
            if entry is None:
                continue  # given to the core by somebody else
            state, sequence = entry
            kept = sequence.add(update)
            touched[state] = None
            self._metrics.count_tokens(state, sequence, kept)
            if sequence.finish_reason is None:
                continue
            del self._alive[update.request_id]
            if update.finish_reason is None:
                self._end_in_core(update.request_id)
            self._metrics.count_finished(sequence)
            if sequence.finish_reason == "error":
                state.error = EngineError(f"request {state.request_id!r} was lost: a step failed: {cause}")
        return list(touched)

    def fail_all(self, error: InferLabError) -> list[RequestState]:
        """Nothing that is alive will go on. The requests, each with the error."""
        touched: dict[RequestState, None] = {}
        for state, sequence in self._alive.values():
            sequence.finish_reason = "error"
            state.error = error
            touched[state] = None
            self._metrics.count_finished(sequence)
        self._alive.clear()
        return list(touched)
