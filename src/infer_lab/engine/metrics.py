"""What an engine counts, for Prometheus and for people, under the names that vLLM's users and dashboards know.

Why vLLM's own prefix: a dashboard, an alert, or a load generator's scraper that reads `vllm:…` reads this engine too, unchanged. What
differs in meaning is said below; what this engine does not have (LoRA, multimodal, remote KV) is left out.

Why it costs next to nothing: a step adds a handful of integers, a token nothing at all. The gaps between tokens are read from the timeline
that the core keeps anyway, when a sequence ends or somebody looks. Prometheus' own objects are built only when somebody looks.

prompt_tokens, prefix_cache_queries and prefix_cache_hits count a prompt once, when its request gets its first token, whatever is computed
again after a preemption, and once for all of n sequences. Sequences are counted and timed each. inter_token_latency_seconds is the gap
between the steps that brought tokens; tokens of one step (accepted drafts) come together and are one arrival.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from infer_lab.core.record import DraftCounts, StepRecord

if TYPE_CHECKING:
    from infer_lab.core.scheduler import Scheduler
    from infer_lab.engine.output_processor import RequestState
    from infer_lab.engine.sequence import SequenceState

PREFIX = "vllm:"
FINISH_REASONS = ("stop", "length", "abort", "error")
_TTFT_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560)
_TOKEN_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_REQUEST_S = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
_STEP_TOKENS = tuple(2**power for power in (0, *range(3, 15)))

_COUNTERS = {
    "prompt_tokens": "Prompt tokens of requests that got their first token.",
    "generation_tokens": "Tokens delivered.",
    "prefix_cache_queries": "Prompt tokens that were looked up in the prefix cache.",
    "prefix_cache_hits": "Prompt tokens whose KV was found there.",
    "num_preemptions": "Times that a running request had to give way.",
}
_DRAFT_COUNTERS = {
    "spec_decode_num_drafts": "Steps of a request that verified drafts.",
    "spec_decode_num_draft_tokens": "Draft tokens that were verified.",
    "spec_decode_num_accepted_tokens": "Draft tokens that were accepted.",
}
_HISTOGRAMS = {
    "iteration_tokens_total": "Tokens computed in a step.",
    "time_to_first_token_seconds": "Arrival to first token.",
    "inter_token_latency_seconds": "Between successive arrivals of tokens.",
    "request_time_per_output_token_seconds": "Mean time per token after the first, of a finished sequence.",
    "e2e_request_latency_seconds": "Arrival to finish.",
    "request_queue_time_seconds": "Arrival to first admission.",
    "request_inference_time_seconds": "First admission to last token.",
    "request_prefill_time_seconds": "First admission to first token.",
    "request_decode_time_seconds": "First token to last token.",
    "request_prompt_tokens": "Prompt tokens of a finished sequence.",
    "request_generation_tokens": "Tokens delivered of a finished sequence.",
}


class Histogram:
    """bounds: upper bounds, inclusive; one more bucket takes what lies beyond."""

    def __init__(self, bounds: Iterable[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def observe_all(self, values: np.ndarray) -> None:
        buckets, counts = np.unique(np.searchsorted(self.bounds, values), return_counts=True)
        for bucket, count in zip(buckets.tolist(), counts.tolist(), strict=True):
            self.counts[bucket] += count
        self.total += float(values.sum())

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> Iterator[tuple[str, int]]:
        """(upper bound, how many are not above it)."""
        below = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            below += count
            yield ("+Inf" if bound == float("inf") else str(float(bound))), below


class EngineMetrics:
    """registry: for a server's /metrics. lock: held by the engine while it counts, and here while somebody looks (from any thread)."""

    def __init__(self, model_name: str, max_model_len: int) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)  # type: ignore[arg-type]
        self.lock = threading.RLock()
        self._labels = {"model_name": model_name, "engine": "0"}
        self._scheduler: Scheduler | None = None
        self._sequences: Callable[[], Iterable[SequenceState]] = tuple
        self._counts = dict.fromkeys(_COUNTERS, 0)
        self._finished = dict.fromkeys(FINISH_REASONS, 0)
        self._earlier_drafts = DraftCounts()  # of schedulers that were replaced
        lengths = [digit * 10**power for power in range(8) for digit in (1, 2, 5) if digit * 10**power <= max_model_len]
        bounds = {"iteration_tokens_total": _STEP_TOKENS, "time_to_first_token_seconds": _TTFT_S}
        bounds |= {"inter_token_latency_seconds": _TOKEN_S, "request_time_per_output_token_seconds": _TOKEN_S}
        bounds |= {"request_prompt_tokens": lengths, "request_generation_tokens": lengths}
        self._histograms = {name: Histogram(bounds.get(name, _REQUEST_S)) for name in _HISTOGRAMS}

    # -- what the engine tells ---------------------------------------------------------------------------------------------

    def watch(self, scheduler: Scheduler, sequences: Callable[[], Iterable[SequenceState]]) -> None:
        """Whose state the gauges show, and the sequences that are alive. Called again when an engine has started over."""
        if self._scheduler is not None:
            self._earlier_drafts = self._drafts()
        self._scheduler, self._sequences = scheduler, sequences

    def count_step(self, record: StepRecord) -> None:
        if record.num_tokens:
            self._histograms["iteration_tokens_total"].observe(record.num_tokens)
        self._counts["num_preemptions"] += record.num_preempted

    def count_tokens(self, state: RequestState, sequence: SequenceState, count: int) -> None:
        """`count` more tokens were delivered, the first ones perhaps."""
        self._counts["generation_tokens"] += count
        if not count or len(sequence.token_ids) != count:
            return
        request, timeline = sequence.request, sequence.request.timeline
        self._histograms["time_to_first_token_seconds"].observe(timeline.ttft or 0.0)
        if not state.prompt_counted:
            state.prompt_counted = True
            self._counts["prompt_tokens"] += request.num_prompt_tokens
            if self._scheduler is not None and self._scheduler.config.enable_prefix_caching and not request.skip_reading_prefix_cache:
                self._counts["prefix_cache_queries"] += request.num_prompt_tokens
                self._counts["prefix_cache_hits"] += request.num_cached_tokens

    def count_finished(self, sequence: SequenceState) -> None:
        self._observe_gaps(sequence)
        histograms, request, times = self._histograms, sequence.request, sequence.token_times
        reason = sequence.finish_reason if sequence.finish_reason in FINISH_REASONS else "error"
        self._finished[reason] += 1
        arrived = request.timeline.arrival_time or 0.0
        admitted = request.timeline.time_of("admitted")
        finished = request.timeline.finish_time or (times or [arrived])[-1]
        histograms["e2e_request_latency_seconds"].observe(finished - arrived)
        histograms["request_prompt_tokens"].observe(request.num_prompt_tokens)
        histograms["request_generation_tokens"].observe(len(times))
        if admitted is not None:
            histograms["request_queue_time_seconds"].observe(admitted - arrived)
        if admitted is not None and times:
            histograms["request_inference_time_seconds"].observe(times[-1] - admitted)
            histograms["request_prefill_time_seconds"].observe(times[0] - admitted)
            histograms["request_decode_time_seconds"].observe(times[-1] - times[0])
        if len(times) > 1:
            histograms["request_time_per_output_token_seconds"].observe((times[-1] - times[0]) / (len(times) - 1))

    def _observe_gaps(self, sequence: SequenceState) -> None:
        """The times of tokens that were not looked at yet."""
        start, end = max(0, sequence.num_observed - 1), len(sequence.token_ids)
        gaps = np.diff(np.array(sequence.request.timeline.token_times[start:end]))
        self._histograms["inter_token_latency_seconds"].observe_all(gaps[gaps > 0])
        sequence.num_observed = end

    # -- who looks -----------------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """In Prometheus' text format."""
        return generate_latest(self.registry).decode()

    def to_dict(self) -> dict[str, Any]:
        """By name: a number; for `request_success_total` numbers by reason; for histograms count, sum and cumulative buckets."""
        found: dict[str, Any] = {}
        for family in self.collect():
            for sample in family.samples:
                if family.type == "histogram":
                    values = found.setdefault(family.name, {"buckets": {}})
                    part = sample.name.removeprefix(family.name + "_")
                    if part == "bucket":
                        values["buckets"][sample.labels["le"]] = int(sample.value)
                    else:
                        values[part] = sample.value
                elif part := sample.labels.get("finished_reason") or sample.labels.get("position"):
                    found.setdefault(sample.name, {})[part] = sample.value
                else:
                    found[sample.name] = sample.value
        return found

    def collect(self) -> Iterator[Metric]:
        """Called by `registry`."""
        with self.lock:
            for sequence in self._sequences():
                self._observe_gaps(sequence)
            yield from list(self._families())

    def _families(self) -> Iterator[Metric]:
        names, values = list(self._labels), list(self._labels.values())
        for name, (text, value) in self._gauges().items():
            gauge = GaugeMetricFamily(PREFIX + name, text, labels=names)
            gauge.add_metric(values, value)
            yield gauge
        drafts = self._drafts()
        counts = self._counts | {name: getattr(drafts, name.removeprefix("spec_decode_")) for name in _DRAFT_COUNTERS}
        for name, text in (_COUNTERS | _DRAFT_COUNTERS).items():
            counter = CounterMetricFamily(PREFIX + name, text, labels=names)
            counter.add_metric(values, counts[name])
            yield counter
        name = "spec_decode_num_accepted_tokens_per_pos"
        accepted = CounterMetricFamily(PREFIX + name, "Steps that accepted the draft at this position.", labels=[*names, "position"])
        for position, count in enumerate(drafts.num_accepted_tokens_per_pos):
            accepted.add_metric([*values, str(position)], count)
        yield accepted
        ended = CounterMetricFamily(PREFIX + "request_success", "Finished sequences by reason.", labels=[*names, "finished_reason"])
        for reason, count in self._finished.items():
            ended.add_metric([*values, reason], count)
        yield ended
        for name, text in _HISTOGRAMS.items():
            histogram = HistogramMetricFamily(PREFIX + name, text, labels=names)
            histogram.add_metric(values, list(self._histograms[name].cumulative()), self._histograms[name].total)
            yield histogram

    def _gauges(self) -> dict[str, tuple[str, float]]:
        scheduler = self._scheduler
        if scheduler is None:
            return {}
        pool = scheduler.kv.pool
        return {
            "num_requests_running": ("Sequences in the batch.", scheduler.num_running),
            "num_requests_waiting": ("Sequences that wait for a place in it.", scheduler.num_waiting),
            "kv_cache_usage_perc": ("Share of the KV blocks that is held; 1 is all.", pool.num_used / pool.num_usable),
        }

    def _drafts(self) -> DraftCounts:
        return self._earlier_drafts if self._scheduler is None else self._earlier_drafts + self._scheduler.draft_counts
