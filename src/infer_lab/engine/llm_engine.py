"""Requests in, text out: an EngineCore with the processing before and after it. `LLM` steps it itself, `AsyncEngine` from a thread.

Why a layer of its own: what happens when a step fails, when a stop string ends a sequence, and what is counted, must not depend on who
waits for the answer. (The name is vLLM's.)
"""

from __future__ import annotations

from infer_lab.core.request import RequestUpdate
from infer_lab.core.scheduler import Scheduler
from infer_lab.engine.build import LoadedModel, build_engine
from infer_lab.engine.input_processor import InputProcessor
from infer_lab.engine.metrics import EngineMetrics
from infer_lab.engine.output_processor import OutputProcessor, RequestState
from infer_lab.engine_config import EngineConfig
from infer_lab.errors import EngineError, InferLabError


class LLMEngine:
    """inputs makes the requests, in any thread; add, abort and step belong to one. Another thread may read a request's state under `lock`.

    num_failures: steps that failed since one went well. last_failure: why."""

    def __init__(self, config: EngineConfig, loaded: LoadedModel) -> None:
        built = build_engine(config, loaded)
        self.core = built.core
        self.kv_cache = built.cache
        self.max_model_len = built.max_model_len
        self.num_failures = 0
        self.last_failure: Exception | None = None
        self.metrics = EngineMetrics(config.model, built.max_model_len)
        self.inputs = InputProcessor(loaded, self.core.scheduler.config, config.seed)
        self._outputs = OutputProcessor(self.metrics, lambda request_id: self.core.scheduler.finish(request_id, "stop"))
        self.metrics.watch(self.core.scheduler, self._outputs.sequences)
        self.lock = self.metrics.lock

    def add(self, state: RequestState) -> None:
        """Queue a request; DuplicateRequestError, QueueFullError: nothing has changed then."""
        requests = [sequence.request for sequence in state.sequences]
        with self.lock:
            if len(requests) == 1:
                self.core.scheduler.add(requests[0])
            else:
                self.core.scheduler.add_group(state.request_id, requests)
            self._outputs.add(state)

    def is_alive(self, state: RequestState) -> bool:
        return any(self._outputs.is_alive(sequence) for sequence in state.sequences)

    def abort(self, state: RequestState) -> None:
        """End what is left of a request, and free its blocks. No error if nothing is."""
        with self.lock:
            for sequence in reversed(state.sequences):  # the leader of a group last, so that nobody takes over
                if self._outputs.is_alive(sequence):
                    self._outputs.process(self.core.scheduler.abort(sequence.request.request_id))
        self._settle()

    def step(self) -> list[RequestState]:
        """One step for everybody. The requests that have news. A step that fails ends the requests that were in it, and no others."""
        try:
            updates = self.core.step()
        except Exception as error:
            self.num_failures += 1
            self.last_failure = error
            return self._after_failure(error)
        self.num_failures = 0
        with self.lock:
            if self.core.last_record is not None:
                self.metrics.count_step(self.core.last_record)
            touched = self._outputs.process(updates)
        self._settle()
        return touched

    def _settle(self) -> None:
        """Nobody waits for a step that outlived its requests, but it is taken in."""
        try:
            self.core.settle()
        except Exception as error:
            self.num_failures += 1
            self.last_failure = error
            self._after_failure(error)

    def _after_failure(self, error: Exception) -> list[RequestState]:
        with self.lock:
            scheduler = self.core.scheduler
            # a plan in flight: the executor failed. None: the core itself did, half way, and nothing that it knows can be trusted
            lost: list[RequestUpdate] = scheduler.drop_in_flight("error") if scheduler.num_in_flight else []
            if not lost:
                return self.lose_all(EngineError(f"every request was lost: a step failed: {error}"))
            touched = self._outputs.process(lost, error)
            for state in touched:
                self.abort(state)  # what is left of a group
            return touched

    def lose_all(self, error: InferLabError) -> list[RequestState]:
        """Start over with an empty engine. The requests that were alive, each with the error."""
        with self.lock:
            self.core.reset(Scheduler(self.core.scheduler.config))
            self.metrics.watch(self.core.scheduler, self._outputs.sequences)
            return self._outputs.fail_all(error)
