"""What a faster part is worth to the whole (Amdahl 1967)."""

from __future__ import annotations

from infer_lab.calculator.arguments import Count, positive, share
from infer_lab.formulas import Worked, formula
from infer_lab.units import Quantity


@formula("1 / ((1 − {part}) + {part} / {factor})")
def amdahl_speedup(part: Count, factor: Count) -> Worked:
    """part: share of the time, nothing of which overlaps the rest. factor: how many times faster it gets. An upper limit of the gain."""
    f, s = share(part, "part"), float(positive(factor, "factor"))
    return Worked(Quantity(1 / ((1 - f) + f / s), "x"), {"part": f, "factor": s})
