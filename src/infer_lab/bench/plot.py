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
_END = "name at the end of a line"
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
            axis.set_major_locator(LogLocator(base, subs=(1, 2, 5) if base == 10 else (1,)))  # of many decades `caption` keeps the tens
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
        annotation_clip=False, gid=_END,
    )  # fmt: skip


def caption(fig: Any, environment: Environment, see: str) -> None:
    """Below the plot: what to see, then the device and the day. Call it last: names and ticks that would overlap are moved apart."""
    for axes in fig.axes:
        _thin_ticks(axes)
        _spread_names(fig, axes)
    device = environment.device["name"]
    fig.text(0.01, -0.06, f"{see}\n{device} · {environment.date[:10]}", fontsize=9, va="top", wrap=True)


def _thin_ticks(axes: Any) -> None:
    """On a decimal axis of more than three decades, tens only."""
    from matplotlib.ticker import LogLocator

    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        if axis.get_scale() == "log" and axis.get_transform().base == 10 and high > 1000 * low > 0:
            axis.set_major_locator(LogLocator(10, subs=(1,)))


def _spread_names(fig: Any, axes: Any) -> None:
    """Moves names at the ends of lines up or down until no two overlap, in the order in which the lines end."""
    fig.canvas.draw()
    names = [text for text in axes.texts if text.get_gid() == _END and text.get_text()]
    boxes = {text: text.get_window_extent() for text in names}
    names.sort(key=lambda text: boxes[text].y0)
    moved = dict.fromkeys(names, 0.0)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if boxes[a].x0 < boxes[b].x1 and boxes[b].x0 < boxes[a].x1]
    for _ in range(100):
        overlaps = [(a, b, boxes[a].y1 + moved[a] - boxes[b].y0 - moved[b]) for a, b in pairs]
        if all(overlap <= 0.01 for _, _, overlap in overlaps):
            break
        for a, b, overlap in overlaps:
            if overlap > 0:
                moved[a] -= overlap / 2
                moved[b] += overlap / 2
    for text in names:
        text.set_position((text.get_position()[0], text.get_position()[1] + moved[text] * 72 / fig.dpi))
