"""The one timer and the one writer of measurement records. Every published figure of the course goes through both."""

from __future__ import annotations

from infer_lab.bench.environment import Environment, capture, repository_root
from infer_lab.bench.record import Record, RecordError, measurements_dir
from infer_lab.bench.rounds import against, in_rounds, one_of_many, sampler, told_apart
from infer_lab.bench.timer import Timing, graphed, measure

__all__ = [
    "Environment", "Record", "RecordError", "Timing", "against", "capture", "graphed", "in_rounds", "measure", "measurements_dir",
    "one_of_many", "repository_root", "sampler", "told_apart",
]  # fmt: skip
