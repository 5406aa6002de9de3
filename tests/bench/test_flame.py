from __future__ import annotations

import time

import matplotlib
import pytest
from hypothesis import given
from hypothesis import strategies as st

matplotlib.use("agg")

from infer_lab.bench import flame
from infer_lab.bench.flame import OTHER, Frame, merged, own_times, shares, without
from infer_lab.bench.plot import figure

GROUPS = {"model": "infer_lab/models/", "ours": "infer_lab/", "in C": "<built-in>"}


def leaf(name: str, seconds: float, file: str = "infer_lab/core/a.py") -> Frame:
    return Frame(name, file, seconds)


def tree_of(children) -> st.SearchStrategy[Frame]:
    def frame(parts: tuple[str, str, float, list[Frame]]) -> Frame:
        name, file, own, below = parts
        return Frame(name, file, own + sum(one.seconds for one in below), tuple(below))

    files = st.sampled_from(["infer_lab/models/m.py", "infer_lab/llm.py", "<built-in>", "torch/x.py"])
    return st.tuples(st.sampled_from("abc"), files, st.integers(0, 9).map(float), children).map(frame)


trees = st.recursive(tree_of(st.just([])), lambda below: tree_of(st.lists(below, max_size=3)), max_leaves=12)


def test_calls_of_one_function_become_one_box() -> None:
    loop = Frame("f", "a.py", 6.0, (Frame("layer", "a.py", 2.0, (leaf("norm", 1.0),)), Frame("layer", "a.py", 3.0, (leaf("norm", 2.0),))))
    assert merged(loop) == Frame("f", "a.py", 6.0, (Frame("layer", "a.py", 5.0, (leaf("norm", 3.0),)),))


@given(trees)
def test_merging_and_leaving_out_keep_the_time(tree: Frame) -> None:
    assert sum(own for _, _, own in own_times(tree)) == tree.seconds
    assert sorted(own_times(merged(tree))) == sorted(own_times(tree)) and merged(merged(tree)) == merged(tree)
    assert sum(own for _, _, own in own_times(without(tree, ["torch/x.py"]))) == tree.seconds


@given(trees)
def test_shares_add_up_to_one(tree: Frame) -> None:
    found = shares(tree, GROUPS)
    assert list(found) == [*GROUPS, OTHER]
    assert sum(found.values()) == pytest.approx(1.0 if tree.seconds else 0.0)


def test_a_function_belongs_to_the_first_group_that_fits() -> None:
    tree = Frame("f", "x.py", 10.0, (leaf("g", 4.0, "infer_lab/models/m.py"), leaf("h", 3.0), leaf("mm", 2.0, "<built-in>")))
    assert shares(tree, GROUPS) == {"model": 0.4, "ours": 0.3, "in C": 0.2, OTHER: 0.1}


def test_left_out_functions_hand_their_calls_to_their_caller() -> None:
    wrapped = Frame("f", "a.py", 9.0, (Frame("_call_impl", "module.py", 8.0, (leaf("forward", 7.0),)),))
    assert without(wrapped, ["module.py"]) == Frame("f", "a.py", 9.0, (leaf("forward", 7.0),))


def inner() -> None:
    end = time.perf_counter() + 0.002
    while time.perf_counter() < end:
        pass


def outer() -> None:
    inner()
    sum(range(200_000))


def test_a_sampled_call_shows_its_functions_and_those_in_c() -> None:
    pytest.importorskip("pyinstrument")
    root = flame.sampled(outer, repeats=10)
    assert root.name.endswith(".outer")
    below = {child.name: child for child in root.children}
    assert "sum" in below and below["sum"].file == "<built-in>"
    assert any(name.endswith(".inner") for name in below)
    assert root.seconds == pytest.approx(root.own + sum(child.seconds for child in root.children))


def test_no_label_leaves_its_box_and_slivers_are_left_out() -> None:
    from matplotlib import pyplot as plt

    names = [(1000, "a"), (300, "LlamaModel.forward"), (40, "a_name_that_is_much_too_long"), (3, "sliver")]
    root = Frame("root", "x.py", 1400.0, tuple(leaf(name, float(width)) for width, name in names))
    fig, ax = figure("share (%)", "", "Where the host is")
    flame.flame(ax, root, GROUPS)
    fig.canvas.draw()
    assert len(ax.patches) == 4, "the root and three children"
    for text in ax.texts:
        box = text.get_window_extent()
        inside = [patch.get_window_extent() for patch in ax.patches]
        assert any(b.x0 - 1 <= box.x0 and box.x1 <= b.x1 + 1 and b.y0 <= (box.y0 + box.y1) / 2 <= b.y1 for b in inside), text.get_text()
    assert {text.get_text() for text in ax.texts} == {"root", "a", "LlamaModel.forward"}
    plt.close(fig)
