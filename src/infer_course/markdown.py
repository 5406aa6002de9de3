"""Reads the structure of MyST markdown that the rules need: headings, fenced blocks, roles, and where the prose is.

Not a renderer (Sphinx is): a line scanner that keeps line numbers, so that every problem can point at its line. It knows that a
directive such as `{note}` holds prose while `{code-block}` does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

_FENCE = re.compile(r"^(\s*)(`{3,}|~{3,}|:{3,})\s*(.*?)\s*$")
_DIRECTIVE = re.compile(r"^\{([\w:+.-]+)\}\s*(.*)$")
_OPTION = re.compile(r"^\s*:([\w-]+):\s*(.*?)\s*$")
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
_OPAQUE = frozenset(
    [
        "code",
        "code-block",
        "code-cell",
        "literalinclude",
        "include",
        "math",
        "mermaid",
        "raw",
        "toctree",
        "eval-rst",
        "embed",
        "path-diagram",
    ]
)

# Inline code, or with a name before it a role: one pattern, so that a role quoted inside code is code.
_INLINE = re.compile(r"(?:\{([a-z][\w-]*)\})?(?<!`)(`+)(?!`)((?:(?!\n[ \t]*\n).)+?)(?<!`)\2(?!`)", re.DOTALL)
_COMMENTS = (re.compile(r"<!--.*?-->", re.DOTALL), re.compile(r"^%.*$|^\([\w-]+\)=\s*$", re.MULTILINE))
_ATOMS = (
    _INLINE,
    re.compile(r"\$\$.+?\$\$", re.DOTALL),
    re.compile(r"(?<![\\$])\$(?![\s$])[^$\n]+?(?<![\s\\])\$(?!\d)"),
)
_ADDRESSES = (re.compile(r"\]\([^)\n]*\)|<https?://[^>\s]*>|https?://\S+"), re.compile(r"</?[a-zA-Z][^>\n]*>"))
_LINK = re.compile(r"!?\[(?:[^\]\n]|\n(?!\s*\n))*\]\(\s*<?([^)\s>]+)>?(?:\s+[\"'][^)\n]*)?\)")


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block: code (`language` set) or a directive (`directive` set). Line numbers are indices into the text, from 0."""

    line: int
    language: str
    directive: str
    argument: str
    options: dict[str, str]
    body: str


@dataclass(frozen=True, slots=True)
class Role:
    """An inline role, `{name}` followed by its text in backticks. `line` is an index into the text, from 0.

    splits_table: the role stands in a table row and holds a bare `|`, at which the table would cut it in two.
    """

    name: str
    text: str
    line: int
    splits_table: bool = False


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    title: str
    line: int


@dataclass(frozen=True, slots=True)
class Scan:
    """The text by lines, which of them are prose, and what stands between."""

    lines: tuple[str, ...]
    prose: tuple[bool, ...]
    fences: tuple[Fence, ...]
    headings: tuple[Heading, ...]

    def prose_text(self) -> str:
        """The text with every line that is not prose emptied: line numbers stay."""
        return "\n".join(line if keep else "" for line, keep in zip(self.lines, self.prose, strict=True))


@dataclass(slots=True)
class _Open:
    mark: str
    opaque: bool
    line: int
    language: str
    directive: str
    argument: str
    options: dict[str, str] = field(default_factory=dict)
    body: list[str] = field(default_factory=list)
    in_options: bool = True

    def closed(self) -> Fence:
        return Fence(self.line, self.language, self.directive, self.argument, dict(self.options), "\n".join(self.body))


def _opened(mark: str, info: str, line: int) -> _Open:
    found = _DIRECTIVE.match(info)
    if found:
        return _Open(mark, found[1] in _OPAQUE, line, "", found[1], found[2])
    return _Open(mark, mark[0] != ":", line, info.split()[0] if info.split() else "", "", "")


def scan(text: str) -> Scan:
    """Splits `text` into prose and blocks. A fence left open runs to the end, as in CommonMark."""
    lines = text.split("\n")
    prose, fences, headings = [False] * len(lines), [], []
    stack: list[_Open] = []
    for number, line in enumerate(lines):
        found = _FENCE.match(line)
        top = stack[-1] if stack else None
        if found and top and found[2][0] == top.mark[0] and len(found[2]) >= len(top.mark) and not found[3]:
            fences.append(stack.pop().closed())
        elif found and (top is None or not top.opaque) and not (found[2][0] == "`" and "`" in found[3]):
            stack.append(_opened(found[2], found[3], number))
            continue
        elif top is None or not top.opaque:
            option = _OPTION.match(line) if top and top.in_options else None
            if top and option:
                top.options[option[1]] = option[2]
            else:
                prose[number] = True
                heading = _HEADING.match(line) if top is None else None
                if heading:
                    headings.append(Heading(len(heading[1]), heading[2], number))
                if top and line.strip():
                    top.in_options = False
        elif top.in_options and (option := _OPTION.match(line)):
            top.options[option[1]] = option[2]
        else:
            top.in_options = False
        for block in stack:
            if block.line != number:
                block.body.append(line)
    fences.extend(block.closed() for block in stack)
    return Scan(tuple(lines), tuple(prose), tuple(sorted(fences, key=lambda f: f.line)), tuple(headings))


def roles(text: str) -> tuple[Role, ...]:
    """Every role that stands in prose, with the line on which it begins. `\\|` (a bar inside a table) is read as a bar."""
    prose = _without(scan(text).prose_text(), _COMMENTS)
    found = []
    for match in _INLINE.finditer(prose):
        if not match[1]:
            continue
        row = prose[prose.rfind("\n", 0, match.start()) + 1 :].lstrip().startswith("|")
        splits = row and re.search(r"(?<!\\)\|", match[3]) is not None
        found.append(Role(match[1], " ".join(match[3].replace("\\|", "|").split()), prose.count("\n", 0, match.start()), splits))
    return tuple(found)


def replace_roles(text: str, shown: Callable[[str, str], str]) -> str:
    """`text` with each role replaced by `shown(name, text of the role)`; code stays."""
    return _INLINE.sub(lambda match: shown(match[1], match[3].replace("\\|", "|")) if match[1] else match[0], text)


def links(text: str) -> tuple[tuple[str, int], ...]:
    """(target, line) of every inline link and image in prose."""
    prose = _without(scan(text).prose_text(), _COMMENTS)
    return tuple((m[1], prose.count("\n", 0, m.start())) for m in _LINK.finditer(prose))


def words_only(text: str, atom: str = " ") -> str:
    """The prose without code, maths, roles, comments and addresses; lines stay.

    `atom` stands for each role, formula or inline code, so that a word count can take each for one word.
    """
    prose = _without(scan(text).prose_text(), _COMMENTS)
    return _without(_without(prose, _ATOMS, atom), _ADDRESSES)


def count_words(text: str) -> int:
    """Words of the prose; a role, a formula and inline code count as one each."""
    return sum(1 for word in words_only(text, "x").split() if any(c.isalnum() for c in word))


def _without(text: str, patterns: tuple[re.Pattern[str], ...], atom: str = " ") -> str:
    for pattern in patterns:
        text = pattern.sub(lambda match: f" {atom} " + "\n" * match[0].count("\n"), text)
    return text
