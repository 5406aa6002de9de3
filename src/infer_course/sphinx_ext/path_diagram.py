"""The path of a request as a drawing whose stages are links: wide for desks, tall for phones, from the same glyphs.

Drawn by hand in two weights of line. Tokens are small rounded boxes, memory is rows of squares, filled means "touched in this step".
Text is text, so it is found, read aloud and translated.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from infer_course.stages import STAGES, Stage


def _box(x: float, y: float, w: float, h: float, cls: str, r: float = 3) -> str:
    return f'<rect class="{cls}" x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="{r:g}"/>'


def _text(x: float, y: float, words: str, cls: str = "p-in", anchor: str = "middle") -> str:
    return f'<text class="{cls}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


# Glyphs are drawn around (0, 0), at most 96 wide and 72 high.


def _arrive() -> str:
    bubble = '<path class="p-thin" d="M-44-28h88v44h-62l-10 12v-12h-16z"/>'
    return bubble + _text(0, -10, "Why is the") + _text(0, 6, "sky blue?")


def _tokenize() -> str:
    rows = ((("Why", -45, 34), ("is", -8, 22), ("the", 17, 29)), (("sky", -33, 30), ("blue", 0, 34), ("?", 37, 15)))
    parts = []
    for row, words in enumerate(rows):
        for word, x, width in words:
            y = -23 + row * 27
            parts += [_box(x, y, width, 20, "p-thin", 6), _text(x + width / 2, y + 14, word)]
    return "".join(parts)


def _schedule() -> str:
    parts = []
    for row, (filled, total) in enumerate(((6, 6), (1, 1), (1, 1))):
        y = -28 + row * 20
        parts += [_box(-36 + 13 * i, y, 11, 13, "p-full" if row == 0 and i < filled else "p-thin", 3) for i in range(total)]
        parts.append(f'<path class="p-hair" d="M-46 {y + 6.5}h7"/>')
    return "".join(parts) + '<path class="p-dash" d="M43-34v64"/>' + _text(10, 14, "budget")


def _prefill() -> str:
    return (
        "".join(_box(-44 + 15 * i, -9, 12.5, 18, "p-full", 4) for i in range(6))
        + '<path class="p-hair" d="M-44-18v-5h88v5M-44 18v5h88v-5"/>'
    )


def _attention() -> str:
    parts = [_text(-45, -1, "K", anchor="start"), _text(-45, 20, "V", anchor="start")]
    for row in range(2):
        for i in range(7):
            cls = "p-tint" if i < 6 else "p-full"
            parts.append(_box(-31 + 11.5 * i, -11 + 21 * row, 9.5, 14, cls, 1))
    fan = "".join(f"M42-31L{-26 + 11.5 * i:g}-14" for i in range(7))
    return f'<path class="p-hair" d="{fan}"/><circle class="p-full" cx="42" cy="-31" r="3"/>' + "".join(parts)


def _ffn() -> str:
    chosen = {1, 6}
    return "".join(_box(-43 + 22 * (i % 4), -22 + 24 * (i // 4), 18, 18, "p-full" if i in chosen else "p-thin", 2) for i in range(8))


def _decode() -> str:
    return "".join(_box(-44 + 13 * i, -9, 10.5, 18, "p-ghost", 4) for i in range(6)) + _box(34, -9, 12.5, 18, "p-full", 4)


def _sample() -> str:
    heights = (12, 20, 46, 26, 15, 8)
    bars = "".join(_box(-40 + 14 * i, 22 - h, 10, h, "p-full" if i == 2 else "p-thin", 1) for i, h in enumerate(heights))
    return bars + '<path class="p-hair" d="M-45 22.5h90"/>'


def _stream() -> str:
    bubble = '<path class="p-thin" d="M-44-28h88v44h-16v12l-10-12h-62z"/>'
    return (
        bubble + _text(-36, -10, "Because the", anchor="start") + _text(-36, 6, "air", anchor="start") + _box(-13, -5, 7, 13, "p-full", 1)
    )


GLYPHS: dict[str, Callable[[], str]] = {
    "arrive": _arrive,
    "tokenize": _tokenize,
    "schedule": _schedule,
    "prefill": _prefill,
    "attention-kv": _attention,
    "ffn-moe": _ffn,
    "decode": _decode,
    "sample": _sample,
    "stream": _stream,
}

ARROW = '<path class="p-arrow" d="M0 0l-6-3.6v7.2z" transform="translate({x:g} {y:g}) rotate({turn})"/>'


def _stage(stage: Stage, href: str, hit: str, glyph_at: tuple[float, float], words: str) -> str:
    x, y = glyph_at
    return (
        f'<a href="{escape(href)}" class="il-stage" data-stage="{stage.id}">{hit}'
        f'<g transform="translate({x:g} {y:g})" aria-hidden="true">{GLYPHS[stage.id]()}</g>{words}</a> '
    )


def _wide(href: Callable[[str], str]) -> str:
    step, first, middle = 124.0, 62.0, 96.0
    parts = []
    for left, right, words in ((0, 1, "once per request"), (2, 7, "every step, for every request in the batch"), (8, 8, "as it comes")):
        x1, x2 = first + step * left - 52, first + step * right + 52
        parts.append(f'<path class="p-hair" d="M{x1:g} 38v-8H{x2:g}v8"/>' + _text((x1 + x2) / 2, 20, words, "p-note"))
    for index, stage in enumerate(STAGES):
        x = first + step * index
        words = _text(x, 172, stage.name, "p-name") + _text(x, 192, stage.does, "p-does")
        parts.append(_stage(stage, href(stage.id), _box(x - 60, 46, 120, 160, "p-hit", 8), (x, middle), words))
        if index + 1 < len(STAGES):
            parts.append(f'<path class="p-hair" d="M{x + 51:g} {middle}h20"/>' + ARROW.format(x=x + 74, y=middle, turn=0))
    back, to = first + step * 7, first + step * 2
    parts.append(
        f'<path class="p-loop" d="M{back:g} 210v14q0 12-12 12H{to + 12:g}q-12 0-12-12v-10"/>' + ARROW.format(x=to, y=211, turn=-90)
    )
    parts.append(_text((back + to) / 2, 256, "one turn per token, until the request stops", "p-note"))
    return (
        f'<svg class="il-path il-path--wide" viewBox="0 0 1116 264" role="group" aria-label="The path of a request">{"".join(parts)}</svg>'
    )


def _tall(href: Callable[[str], str]) -> str:
    step, first = 92.0, 48.0
    parts = []
    for index, stage in enumerate(STAGES):
        y = first + step * index
        words = _text(124, y - 3, stage.name, "p-name", "start") + _text(124, y + 18, stage.does, "p-does", "start")
        parts.append(_stage(stage, href(stage.id), _box(2, y - 42, 318, 84, "p-hit", 8), (56, y), words))
        if index + 1 < len(STAGES):
            parts.append(f'<path class="p-hair" d="M56 {y + 36:g}v12"/>' + ARROW.format(x=56, y=y + 53, turn=90))
    low, high = first + step * 7, first + step * 2
    parts.append(f'<path class="p-loop" d="M322 {low:g}h8q8 0 8-8V{high + 8:g}q0-8-8-8h-4"/>' + ARROW.format(x=321, y=high, turn=180))
    middle = (low + high) / 2
    parts.append(f'<text class="p-note" text-anchor="middle" transform="translate(352 {middle:g}) rotate(-90)">one turn per token</text>')
    height = first + step * 8 + 44
    opening = f'<svg class="il-path il-path--tall" viewBox="0 0 358 {height:g}" role="group" aria-label="The path of a request">'
    return f"{opening}{''.join(parts)}</svg>"


def path_diagram(href: Callable[[str], str]) -> str:
    """Both drawings; the style sheet shows the one that fits. `href` gives a stage's address."""
    return _wide(href) + _tall(href)
