"""Plots that speak the course's colour language, which never changes:

predicted: orange, dashed · measured: bluish green, solid · limit (roofline, floor): ink hairline · peer: reddish purple ·
mistake: vermillion.
(Okabe–Ito colours, which colour-blind readers tell apart.) matplotlib is imported when the first figure is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal

from infer_lab.bench.environment import Environment

Meaning = Literal["predicted", "measured", "limit", "peer", "mistake"]

COLOURS: Mapping[str, str] = MappingProxyType(
    {"predicted": "#E69F00", "measured": "#009E73", "limit": "#808080", "peer": "#CC79A7", "mistake": "#D55E00", "link": "#0072B2"}
)
_LINES: dict[str, dict[str, Any]] = {
    "predicted": {"linestyle": (0, (5, 3)), "linewidth": 2.0},
    "measured": {"linestyle": "-", "marker": "o", "linewidth": 2.0},
    "limit": {"linestyle": "-", "linewidth": 0.9},
    "peer": {"linestyle": "-", "marker": "s", "linewidth": 1.6},
    "mistake": {"linestyle": "-", "marker": "x", "linewidth": 1.6},
}


def figure(x: str, y: str, title: str = "", *, log_x: int = 0, log_y: int = 0) -> tuple[Any, Any]:
    """(figure, axes) in the course's style. Axis texts carry the unit: "context (tokens)". log_x, log_y: base, or 0 for linear."""
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    plt.style.use(str(resources.files("infer_lab.bench") / "infer_lab.mplstyle"))
    fig, axes = plt.subplots()
    axes.set(xlabel=x, ylabel=y, title=title)
    for base, axis, set_scale in ((log_x, axes.xaxis, axes.set_xscale), (log_y, axes.yaxis, axes.set_yscale)):
        if base:
            set_scale("log", base=base)
            axis.set_major_locator(LogLocator(base, subs=(1, 2, 5) if base == 10 else (1,)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())
    return fig, axes


def line(axes: Any, meaning: Meaning, x: Sequence[float], y: Sequence[float], label: str, *, band: tuple[Any, Any] | None = None) -> None:
    """One curve, labelled at its right end instead of in a legend. band: (low, high), drawn as a shade."""
    colour = COLOURS[meaning]
    axes.plot(x, y, color=colour, label=label, **_LINES[meaning])
    if band is not None:
        axes.fill_between(x, band[0], band[1], color=colour, alpha=0.18, linewidth=0)
    axes.annotate(
        label, (x[-1], y[-1]), xytext=(6, 0), textcoords="offset points", color=colour, va="center", fontsize=10, fontweight="bold",
        annotation_clip=False,
    )  # fmt: skip


def caption(fig: Any, environment: Environment, see: str) -> None:
    """Below the plot: what to see, then the device and the day."""
    device = environment.device["name"]
    fig.text(0.01, -0.06, f"{see}\n{device} · {environment.date[:10]}", fontsize=9, va="top", wrap=True)
