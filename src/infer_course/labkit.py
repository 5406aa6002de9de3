"""What notebooks import: predict, compare, check, record, and plots in the course's colours.

Why: a lab is an argument. `predict()` puts a number down before anything runs, `compare()` holds the measurement against it, `check()`
states what must be true on every machine (and fails, with a lesson, when it is not), `record()` keeps what was measured. Output that
depends on the machine comes from predict and compare; what check prints never does, so notebooks can be compared between machines.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from infer_lab.bench import Environment, Record, repository_root
from infer_lab.bench.counters import TRAFFIC, Counted, Metrics, cases_of, count, find_ncu
from infer_lab.bench.plot import COLOURS, caption, figure, line
from infer_lab.bench.timer import Timing
from infer_lab.errors import UnsupportedHardwareError
from infer_lab.units import Number, Quantity, quantity

__all__ = [
    "CheckFailed", "Comparison", "Counts", "Prediction", "caption", "check", "choose", "compare", "counters", "device", "figure",
    "line", "predict", "record",
]  # fmt: skip

T = TypeVar("T")


class CheckFailed(AssertionError):
    """A statement of the lab does not hold here. The message says which idea is at stake."""


@dataclass(frozen=True, slots=True, repr=False)
class Prediction:
    """A number put down before the measurement, with its reason."""

    name: str
    quantity: Quantity
    why: str

    def __str__(self) -> str:
        return f"predict  {self.name}: {self.quantity}" + (f"  because {self.why}" if self.why else "")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _shown("predicted", self.name, self.quantity, f"because {self.why}" if self.why else "")


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Prediction and measurement of one thing, in the prediction's unit."""

    prediction: Prediction
    measured: Quantity
    timing: Timing | None = None

    @property
    def ratio(self) -> float:
        """measured / predicted"""
        return float(self.measured / self.prediction.quantity)

    def __str__(self) -> str:
        return f"measured {self.prediction.name}: {self.measured}  ({self._verdict()})"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _shown("measured", self.prediction.name, self.measured, self._verdict())

    def _verdict(self) -> str:
        predicted = self.prediction.quantity
        if self.measured == predicted:
            return f"predicted {predicted}: exact"
        return f"predicted {predicted}: measured is {self.ratio:.2f}× that"


def predict(name: str, value: Number | Quantity, unit: str = "1", why: str = "") -> Prediction:
    """Puts a prediction down. Change `value` to your own before you run the next cell; the given one keeps the lab running unattended."""
    return Prediction(name, _in(value, unit), why)


def compare(prediction: Prediction, measured: Number | Quantity | Timing) -> Comparison:
    """Holds a measurement against its prediction. A bare number is taken to be in the prediction's unit."""
    unit = prediction.quantity.unit
    if isinstance(measured, Timing):
        return Comparison(prediction, measured.quantity.to(unit), measured)
    return Comparison(prediction, _in(measured, unit))


def check(condition: object, says: str) -> None:
    """Asserts what must hold on every machine. Prints the statement; raises CheckFailed with it when it does not hold."""
    if not condition:
        raise CheckFailed(f"does not hold here: {says}")
    print(f"✓ {says}")


def device() -> str:
    """ "cuda" where there is a GPU, else "cpu"; INFER_LAB_DEVICE overrides."""
    wanted = os.environ.get("INFER_LAB_DEVICE", "")
    if wanted:
        return wanted
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def choose(cpu: T, gpu: T, quick: T | None = None) -> T:
    """A size that fits the machine. INFER_LAB_QUICK=1 takes `quick`: the tests use it, its figures mean nothing."""
    if quick is not None and os.environ.get("INFER_LAB_QUICK") == "1":
        return quick
    return gpu if device().startswith("cuda") else cpu


def record(
    name: str, title: str, *, workload: Mapping[str, Any] | None = None, sources: Iterable[str] = (), environment: Environment | None = None
) -> Record:
    """Opens a record at the start of a lab (clocks and versions are read now). Fill it, then write()."""
    return Record(name, title, device(), workload=workload, sources=sources, environment=environment)


@dataclass(frozen=True, slots=True)
class Counts:
    """What hardware counters said, by the name of the case. here: counted on this machine, else ours."""

    cases: Mapping[str, Counted]
    here: bool
    who: str

    def __getitem__(self, name: str) -> Counted:
        return self.cases[name]


def counters(topic: str, metrics: Metrics = TRAFFIC) -> Counts:
    """Of the cases of `infer_lab.teaching.counted:<topic>`, by Nsight Compute; where it cannot look, our record of an H200.

    Free what the notebook holds on the GPU before: another process runs the cases there.
    """
    named = f"infer_lab.teaching.counted:{topic}"
    why = "no GPU here" if not device().startswith("cuda") else "no `ncu` here" if find_ncu() is None else ""
    if not why and os.environ.get("INFER_LAB_QUICK") != "1":
        import torch

        torch.cuda.empty_cache()
        try:
            found = count(named, metrics)
            return Counts({one.name: one for one in found}, True, "counted here by Nsight Compute")
        except UnsupportedHardwareError as error:
            why = str(error)
    ours = json.loads((repository_root() / "measurements" / "h200" / "counters.json").read_text(encoding="utf-8"))
    values = {name: entry["value"] for name, entry in ours["values"].items()}
    cases = {
        case.name: Counted(
            case.name,
            int(values[f"{case.name}-kernels"]),
            case.nbytes,
            {key: values[f"{case.name}-{key.replace('_', '-')}"] for key in metrics},
        )
        for case in cases_of(named)
        if f"{case.name}-kernels" in values
    }
    return Counts(cases, False, f"not counted here ({why or 'quick'}); these are ours: {ours['device']['name']}, {ours['date'][:10]}")


def _in(value: Number | Quantity, unit: str) -> Quantity:
    return value.to(unit) if isinstance(value, Quantity) else quantity(value, unit)


def _shown(meaning: str, name: str, value: Quantity, note: str) -> str:
    """The meaning is in the border (dashed orange, solid green); the text keeps the page's own colour and contrast."""
    border = f"4px {'dashed' if meaning == 'predicted' else 'solid'} {COLOURS[meaning]}"
    text = f"{meaning} {html.escape(name)}: <b>{html.escape(str(value))}</b>" + (f" ({html.escape(note)})" if note else "")
    return f'<div style="border-left:{border};padding-left:.6em">{text}</div>'
