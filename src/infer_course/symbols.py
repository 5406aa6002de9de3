"""Code of the library that a text includes by name, `infer_lab.core.block_pool:BlockPool.allocate`: where it stands."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, NamedTuple

from infer_course.errors import CourseError


class CodeNotFoundError(CourseError):
    """A text includes code that is not there (any more)."""


class FoundCode(NamedTuple):
    """path: relative to the checkout. lines: first and last, and those of the docstring."""

    path: Path
    symbol: str
    text: str
    lines: tuple[int, int, range]


def find_code(root: Path, name: str) -> FoundCode:
    """The symbol of `module:Symbol`; CodeNotFoundError says whether the file or the symbol is missing."""
    module, _, symbol = name.partition(":")
    path = Path("src", *module.split(".")).with_suffix(".py")
    if not (root / path).is_file():
        raise CodeNotFoundError(f"there is no file {path}")
    text = (root / path).read_text(encoding="utf-8")
    try:
        return FoundCode(path, symbol, text, find_symbol(text, symbol))
    except KeyError:
        raise CodeNotFoundError(f"{path} has nothing called `{symbol}`") from None


def find_symbol(text: str, symbol: str) -> tuple[int, int, range]:
    """First and last line of `Class.method`, decorators included, and the lines of its docstring. KeyError if there is none."""
    scope: Any = ast.parse(text)
    for name in symbol.split("."):
        scope = next((n for n in ast.iter_child_nodes(scope) if name in _names_of(n)), None)
        if scope is None:
            raise KeyError(symbol)
    start = min([scope.lineno, *(decorator.lineno for decorator in getattr(scope, "decorator_list", []))])
    gap = range(0)
    body = getattr(scope, "body", [])
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and isinstance(body[0].value.value, str):
        gap = range(body[0].lineno, (body[0].end_lineno or 0) + 1)
    return start, scope.end_lineno, gap


def _names_of(node: ast.AST) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [target.id for target in targets if isinstance(target, ast.Name)]
    return []
