"""The one thread in which an engine runs, and the desk in front of it: requests are handed in there, and news is announced.

Why one thread: scheduler, model and KV cache belong to whoever steps them. Everybody else only leaves commands, which are carried out
between two steps, and looks at what a request's state holds; nobody waits for anybody but on this desk's lock, which is held for moments.

    callers   submit, abort, drain, stop ──► commands ──► thread: commands → step → news ──► callers' `announce`
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import torch

from infer_lab.engine.llm_engine import LLMEngine
from infer_lab.engine.output_processor import RequestState
from infer_lab.errors import (
    DuplicateRequestError,
    EngineDeadError,
    EngineDrainingError,
    InferLabError,
    QueueFullError,
    RequestTooLargeError,
)

Announce = Callable[[], None]
_MAX_FAILURES = 3  # steps in a row; then the device is broken, and not a request


class _Entry(NamedTuple):
    state: RequestState
    announce: Announce


class EngineThread:
    """max_waiting: sequences that may wait beside those that fit into a batch; 0 = no limit. announce is called in the thread when a
    request has news or is over; it must not block."""

    def __init__(self, engine: LLMEngine, max_waiting: int, device: torch.device) -> None:
        self._engine = engine
        # "cuda" is whatever device the caller has chosen, and a new thread would start on the first one
        self._gpu = None if device.type != "cuda" else torch.cuda.current_device() if device.index is None else device.index
        self._max_waiting = max_waiting
        self._max_sequences = engine.core.scheduler.config.max_num_seqs + max_waiting
        self._desk = threading.Condition()  # guards what follows
        self._commands: deque[tuple[Callable[[RequestState], None], RequestState]] = deque()
        self._alive: dict[str, _Entry] = {}
        self._num_sequences = 0
        self._draining = self._stopping = False
        self._when_empty: list[Announce] = []
        self.dead: EngineDeadError | None = None
        self._num_threads = torch.get_num_threads()  # a new thread would take the default, whatever the caller has set
        self._thread = threading.Thread(target=self._run, name="infer-lab-engine", daemon=True)
        self._thread.start()

    # -- for callers, in any thread ------------------------------------------------------------------------------------------

    @property
    def num_unfinished(self) -> int:
        """Requests that are not over."""
        return len(self._alive)

    def check_room(self, count: int = 1) -> None:
        """EngineDeadError, EngineDrainingError, QueueFullError, or RequestTooLargeError for what can never enter."""
        with self._desk:
            if self.dead is not None:
                raise copy_of(self.dead)
            if self._draining:
                raise EngineDrainingError(f"the engine is draining: {len(self._alive)} requests are left, and no new one is taken")
            if not self._max_waiting:
                return
            if count > self._max_sequences:
                raise RequestTooLargeError(f"{count} sequences at once can never enter an engine that takes {self._max_sequences}")
            if self._num_sequences + count > self._max_sequences:
                raise QueueFullError(
                    f"{self._num_sequences} sequences run or wait, and {count} more would pass max_num_seqs + max_waiting_requests ="
                    f" {self._max_sequences}; try again later"
                )

    def submit(self, state: RequestState, announce: Announce) -> None:
        """As check_room, and DuplicateRequestError: then nothing has changed."""
        with self._desk:
            self.check_room(len(state.sequences))
            if state.request_id in self._alive:
                raise DuplicateRequestError(f"request {state.request_id!r} is alive already; wait until it has finished or take another id")
            self._alive[state.request_id] = _Entry(state, announce)
            self._num_sequences += len(state.sequences)
            self._leave(self._engine.add, state)

    def abort(self, request_id: str, state: RequestState | None = None) -> None:
        """End a request after the running step. state: only if the id still means this one. No error if it is over."""
        with self._desk:
            entry = self._alive.get(request_id)
            if entry is not None and (state is None or entry.state is state):
                self._leave(self._engine.abort, entry.state)

    def drain(self, announce: Announce) -> None:
        """Take nothing new; announce when nothing is left."""
        with self._desk:
            self._draining = True
            self._when_empty.append(announce)
            self._desk.notify()

    def stop(self) -> None:
        """End after the running step; whoever waits gets EngineDeadError."""
        with self._desk:
            self._stopping = True
            self._desk.notify()

    def join(self) -> None:
        self._thread.join()

    def _leave(self, command: Callable[[RequestState], None], state: RequestState) -> None:
        self._commands.append((command, state))
        self._desk.notify()

    # -- in the thread -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            torch.set_num_threads(self._num_threads)
            if self._gpu is not None:
                torch.cuda.set_device(self._gpu)
            while not self._wait():
                news = self._carry_out_commands()
                if self._engine.core.scheduler.has_unfinished():
                    news += self._engine.step()
                self._announce(news)
                if self._engine.num_failures >= _MAX_FAILURES:
                    raise EngineDeadError(f"{_MAX_FAILURES} steps in a row failed, the last with: {self._engine.last_failure}")
            error: BaseException = EngineDeadError("the engine was shut down")
        except BaseException as broken:
            error = broken
        self._die(error)

    def _wait(self) -> bool:
        """Until there is something to do; True when that is to stop."""
        with self._desk:
            while not (self._commands or self._stopping or self._engine.core.scheduler.has_unfinished()):
                self._tell_if_empty()
                self._desk.wait()
            return self._stopping

    def _carry_out_commands(self) -> list[RequestState]:
        news = []
        while True:
            with self._desk:
                if not self._commands:
                    return news
                command, state = self._commands.popleft()
            try:
                command(state)
            except InferLabError as error:
                state.error = error
            if state.is_finished:
                news.append(state)

    def _announce(self, news: list[RequestState]) -> None:
        with self._desk:
            entries = [self._alive[state.request_id] for state in news if state.request_id in self._alive]
            for state, _ in entries:
                if state.is_finished and self._alive.pop(state.request_id, None):
                    self._num_sequences -= len(state.sequences)
            self._tell_if_empty()
        for _, announce in entries:
            announce()

    def _tell_if_empty(self) -> None:
        if not self._alive:
            for announce in self._when_empty:
                announce()
            self._when_empty.clear()

    def _die(self, error: BaseException) -> None:
        dead = error if isinstance(error, EngineDeadError) else EngineDeadError(f"the engine died: {error!r}")
        dead.__cause__ = dead.__cause__ or (None if dead is error else error)
        with self._desk:
            self.dead = dead
            entries = list(self._alive.values())
            with suppress(Exception), self._engine.lock:
                self._engine.lose_all(dead)
            for state, _ in entries:
                state.error = state.error or dead
            self._alive.clear()
            self._commands.clear()
            self._num_sequences = 0
            self._tell_if_empty()
        for _, announce in entries:
            announce()


def copy_of(error: InferLabError) -> InferLabError:
    """One for each who raises it: an exception collects the tracebacks of all that do."""
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy
