from __future__ import annotations

import matplotlib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

matplotlib.use("agg")

from infer_lab.bench import capture
from infer_lab.bench.plot import COLOURS, caption, figure, line


@pytest.fixture
def axes():
    from matplotlib import pyplot as plt

    with matplotlib.rc_context():
        fig, ax = figure("context (tokens)", "time per token (ms)", "With and without", log_x=2)
        yield fig, ax
        plt.close(fig)


def test_prediction_and_measurement_are_told_apart_by_colour_and_by_dash(axes) -> None:
    _, ax = axes
    line(ax, "predicted", [64, 128], [1, 2], "predicted")
    line(ax, "measured", [64, 128], [1.2, 2.1], "measured", band=([1, 2], [1.4, 2.2]))
    predicted, measured = ax.get_lines()
    assert predicted.get_color() == COLOURS["predicted"] and predicted.get_linestyle() == "--"
    assert measured.get_color() == COLOURS["measured"] and measured.get_linestyle() == "-"
    assert {t.get_text() for t in ax.texts} == {"predicted", "measured"}, "labels stand at the lines"


def test_background_is_transparent_so_that_dark_pages_show_through(axes) -> None:
    fig, ax = axes
    assert fig.get_facecolor()[3] == 0 and ax.get_facecolor()[3] == 0


def test_caption_names_device_and_day(axes) -> None:
    fig, _ = axes
    here = capture("cpu")
    caption(fig, here, "The gap is the cache.")
    text = fig.texts[0].get_text()
    assert here.device["name"] in text and here.date[:10] in text and text.startswith("The gap is the cache.")


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.floats(1, 1000), st.floats(1, 1000)), min_size=2, max_size=6))
def test_names_at_line_ends_never_overlap(ends: list[tuple[float, float]]) -> None:
    from matplotlib import pyplot as plt

    fig, ax = figure("x", "y", log_x=10, log_y=10)
    for i, (x, y) in enumerate(ends):
        line(ax, "measured", [1, x], [1, y], f"name {i}")
    caption(fig, capture("cpu"), "see")
    boxes = [text.get_window_extent() for text in ax.texts]
    plt.close(fig)
    for i, a in enumerate(boxes):
        for b in boxes[i + 1 :]:
            apart = a.x1 <= b.x0 + 1 or b.x1 <= a.x0 + 1 or a.y1 <= b.y0 + 1 or b.y1 <= a.y0 + 1
            assert apart, f"{a} and {b}"


def test_ticks_of_many_decades_are_tens() -> None:
    from matplotlib import pyplot as plt

    fig, ax = figure("x", "y", log_x=10, log_y=10)
    line(ax, "limit", [0.1, 10_000], [1, 100], "roof")
    caption(fig, capture("cpu"), "see")
    shown = [value for value in ax.xaxis.get_majorticklocs() if 0.1 <= value <= 10_000]
    plt.close(fig)
    assert shown == pytest.approx([0.1, 1, 10, 100, 1000, 10_000])
