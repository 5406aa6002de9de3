"""A plot as a page shows it: the picture for wide and narrow places, and the same figures as a table."""

from __future__ import annotations

from html import escape

from infer_course.axes import plain
from infer_course.plot import Plot, draw


def html_of(plot: Plot, key: str) -> str:
    """The picture for wide and for narrow places; the style sheet shows the one that fits."""
    return f'<div class="il-plot-box">{draw(plot, f"{key}-w")}{draw(plot, f"{key}-n", narrow=True)}</div>'


def data_table(plot: Plot) -> str:
    """The same figures for whoever cannot see the picture, or wants them."""
    xs = sorted({value for line in plot.lines for value in line.x})
    found = [dict(zip(line.x, line.y, strict=True)) for line in plot.lines]
    head = "".join(f'<th scope="col" class="il-num">{escape(line.name)}</th> ' for line in plot.lines)
    rows = "".join(
        f'<tr><th scope="row" class="il-num">{plain(x)}</th> '
        + "".join(f'<td class="il-num">{_figures(values[x]) if x in values else "–"}</td> ' for values in found)
        + "</tr>\n"
        for x in xs
    )
    return (
        '<details class="il-data"><summary>Show the numbers</summary>'
        f'<div class="il-scroll" role="group" aria-label="{escape(plot.title)}">'
        f'<table><caption>{escape(plot.y_label)}</caption><thead><tr><th scope="col" class="il-num">{escape(plot.x_label)}</th> {head}</tr>'
        f"</thead><tbody>{rows}</tbody></table></div></details>"
    )


def _figures(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 or float(value).is_integer() else f"{value:.4g}"
