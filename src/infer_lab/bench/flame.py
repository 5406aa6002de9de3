"""Where the host spends its time: stacks of Python sampled while a call repeats, as a tree of functions, as shares, and as a picture.

Why: once a GPU is fast, what is left of a short step is Python, and a profiler of kernels sees only that nothing happens. The sampler is
pyinstrument. It looks at the stack when functions are called and return, functions in C among them: an operator of torch is one box, from
its call in Python to its return, with all that it does inside. Being watched makes calls dearer, those in Python more than those in C;
so shares are read here, and times elsewhere.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infer_lab.bench.plot import COLOURS
from infer_lab.errors import UserError

_PACKAGE = re.compile(r"(?:^|/)((?:infer_lab|torch|triton)/.*)")
_LABEL_POINTS = 8
_GROUP_COLOURS = ("#009E73", "#E69F00", "#CC79A7", "#0072B2", "#56B4E9", "#F0E442")  # Okabe and Ito's, without that of mistakes
_NO_CLASSES = ("_VariableFunctionsClass",)  # where torch keeps its functions
BUILT_IN = "<built-in>"
OTHER = "other"

Groups = Mapping[str, str]
"""Name → pattern of "file:name", from its beginning, as "infer_lab/core/"; a function belongs to the first group that fits."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A function as called from one stack of functions. seconds: with all that it called.

    name: "Class.function", or "module.function". file: from its package on, as "torch/nn/functional.py"; BUILT_IN for a function in C.
    """

    name: str
    file: str
    seconds: float
    children: tuple[Frame, ...] = ()

    @property
    def own(self) -> float:
        """Seconds in the function itself."""
        return max(self.seconds - sum(child.seconds for child in self.children), 0.0)


def sampled(fn: Callable[[], object], repeats: int, *, interval: float = 1e-4, warmup: int = 2) -> Frame:
    """One tree of `repeats` calls, from `fn` downwards; seconds are of all calls together."""
    from pyinstrument import Profiler

    for _ in range(warmup):
        fn()
    profiler = Profiler(interval=interval, async_mode="disabled")
    profiler.start()
    try:
        for _ in range(repeats):
            fn()
    finally:
        session = profiler.stop()
    root = session.root_frame()
    if root is None:
        raise UserError(f"no stack was seen: {repeats} calls take less than the interval of {interval} s")
    tree = merged(_frame(root))
    return tree.children[0] if tree.file == "infer_lab/bench/flame.py" and tree.children else tree


def merged(frame: Frame) -> Frame:
    """Calls of one function from one place become one child, the longest first: a loop over layers is one box."""
    by_function: dict[tuple[str, str], list[Frame]] = defaultdict(list)
    for child in frame.children:
        by_function[child.name, child.file].append(child)
    children = (
        merged(Frame(*key, sum(one.seconds for one in same), tuple(grandchild for one in same for grandchild in one.children)))
        for key, same in by_function.items()
    )
    return Frame(frame.name, frame.file, frame.seconds, tuple(sorted(children, key=lambda child: (-child.seconds, child.name, child.file))))


def without(frame: Frame, files: Iterable[str]) -> Frame:
    """Without the functions of these files, for a picture: what they called moves up to their caller, and so does their own time."""
    left_out = frozenset(files)

    def kept(child: Frame) -> Iterator[Frame]:
        below = tuple(one for grandchild in child.children for one in kept(grandchild))
        if child.file in left_out:
            yield from below
        else:
            yield Frame(child.name, child.file, child.seconds, below)

    return merged(Frame(frame.name, frame.file, frame.seconds, tuple(one for child in frame.children for one in kept(child))))


def own_times(root: Frame) -> list[tuple[str, str, float]]:
    """(name, file, seconds in the function itself) over the whole tree, the longest first."""
    seconds: dict[tuple[str, str], float] = defaultdict(float)
    for frame in _walk(root):
        seconds[frame.name, frame.file] += frame.own
    return sorted(((*key, own) for key, own in seconds.items()), key=lambda row: (-row[2], row[:2]))


def shares(root: Frame, groups: Groups) -> dict[str, float]:
    """Share of each group, by own time; OTHER is what fits none. They add up to 1."""
    seconds = dict.fromkeys((*groups, OTHER), 0.0)
    for frame in _walk(root):
        seconds[group_of(frame, groups)] += frame.own
    total = sum(seconds.values()) or 1.0
    return {name: own / total for name, own in seconds.items()}


def group_of(frame: Frame, groups: Groups) -> str:
    return next((name for name, pattern in groups.items() if re.match(pattern, f"{frame.file}:{frame.name}")), OTHER)


def flame(axes: Any, root: Frame, groups: Groups, *, least: float = 0.005) -> None:
    """The root above, what it called below it; width is time. Boxes narrower than `least` of the whole are left out."""
    from matplotlib.patches import Patch, Rectangle

    colours = dict(zip(groups, _GROUP_COLOURS, strict=False)) | {OTHER: COLOURS["limit"]}
    boxes = list(_boxes(root, 0.0, 0, least * root.seconds))
    depth = 1 + max(row for _, _, row in boxes)
    axes.figure.set_size_inches(axes.figure.get_size_inches()[0], max(2.5, 0.22 * depth + 1.2))
    axes.set(xlim=(0, 100), ylim=(depth, 0), yticks=[])
    axes.grid(False)
    scale = 100 / root.seconds if root.seconds else 0.0
    for frame, left, row in boxes:
        colour = colours.get(group_of(frame, groups), colours[OTHER])
        corner, width = (left * scale, row + 0.04), frame.seconds * scale
        axes.add_patch(Rectangle(corner, width, 0.92, facecolor=colour, alpha=0.35, edgecolor=colour, linewidth=0.5))
    axes.figure.canvas.draw()
    for frame, left, row in boxes:
        _label(axes, frame.name, left * scale, frame.seconds * scale, row)
    present = {group_of(frame, groups) for frame, _, _ in boxes}
    handles = [Patch(facecolor=colour, alpha=0.5, label=name) for name, colour in colours.items() if name in present]
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, fontsize=8, borderaxespad=0.2)
    axes.title.set_y(1.0)
    axes.set_title(axes.get_title(loc="left"), loc="left", pad=14 + 12 * -(-len(handles) // 2))


def _label(axes: Any, name: str, left: float, width: float, row: int) -> None:
    """The name in its box, without its class if it is too long so, or not at all."""
    _, _, across, _ = axes.get_window_extent().bounds
    room = width / 100 * across - 4
    for text in dict.fromkeys((name, name.rsplit(".", 1)[-1])):
        label = axes.text(left, row + 0.5, text, fontsize=_LABEL_POINTS, va="center")
        label.set_position((left + 2 * 100 / across, row + 0.5))
        if label.get_window_extent().width <= room:
            return
        label.remove()


def _boxes(frame: Frame, left: float, row: int, least: float) -> Iterator[tuple[Frame, float, int]]:
    """(frame, where it begins, its row); children side by side from their parent's left."""
    yield frame, left, row
    for child in frame.children:
        if child.seconds >= least:
            yield from _boxes(child, left, row + 1, least)
        left += child.seconds


def _walk(frame: Frame) -> Iterator[Frame]:
    yield frame
    for child in frame.children:
        yield from _walk(child)


def _frame(seen: Any) -> Frame:
    """pyinstrument's tree as ours; its entries for a function's own time are no functions."""
    short = (seen.file_path_short or "").replace("\\", "/")
    found = _PACKAGE.search(short)
    file = found[1] if found else short.rsplit("/", 1)[-1]
    module = file.rsplit("/", 1)[-1].removesuffix(".py")
    module = module if module.isidentifier() else ""  # a function in C, or a cell of a notebook, whose file has a number for a name
    owner = module if seen.class_name in (None, *_NO_CLASSES) else seen.class_name
    children = tuple(_frame(child) for child in seen.children if not child.is_synthetic)
    return Frame(f"{owner}.{seen.function}" if owner else seen.function, file, seen.time, children)
