from __future__ import annotations

import matplotlib
import pytest

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
