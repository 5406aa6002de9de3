"""Who may import whom: the library knows nothing of the course, the course uses only what the library shows, the core runs anywhere."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"


def imports(path: Path) -> Iterator[tuple[str, str, int]]:
    """(module, name, line) of every import of the file; name is "" for `import module`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "", node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(SRC).with_suffix("").parts[: -node.level] if node.level else ()
            module = ".".join([*package, *([node.module] if node.module else [])])
            yield from ((module, alias.name, node.lineno) for alias in node.names)


def files(package: str) -> list[Path]:
    found = sorted((SRC / package).rglob("*.py"))
    assert found, f"{package} has no files"
    return found


def test_the_library_never_imports_the_course() -> None:
    wrong = [
        f"{p.relative_to(SRC)}:{line}"
        for p in files("infer_lab")
        for module, _, line in imports(p)
        if module.partition(".")[0] == "infer_course"
    ]
    assert wrong == []


def test_the_course_uses_only_public_names_of_the_library() -> None:
    wrong = [
        f"{path.relative_to(SRC)}:{line} {module} {name}"
        for path in files("infer_course")
        for module, name, line in imports(path)
        if module.partition(".")[0] == "infer_lab" and any(part.startswith("_") for part in [*module.split("."), name] if part)
    ]
    assert wrong == []


# Modules that must run in a browser and while the book is built: no torch, no numpy, in them or in anything that they import.
LIGHT = [
    "infer_lab.config",
    "infer_lab.presets",
    "infer_lab.units",
    "infer_lab.calculator",
    "infer_lab.hardware",
    "infer_lab.sampling_params",
    "infer_lab.sim.playground",
    "infer_lab.engine_config",
    "infer_lab.spec.config",
    "infer_lab.spec.speculator",
]
CORE = sorted(f"infer_lab.core.{path.stem}" for path in (SRC / "infer_lab" / "core").glob("*.py") if path.stem != "__init__")
COURSE = ["infer_course.check", "infer_course.stats", "infer_course.calc", "infer_course.cli"]


@pytest.mark.parametrize("modules", [LIGHT, CORE, COURSE], ids=["calculator", "core", "course"])
def test_importing_it_loads_neither_torch_nor_numpy(modules: list[str]) -> None:
    found = "[m for m in ('torch', 'numpy', 'triton') if m in sys.modules]"
    program = f"import sys, importlib\nfor m in {modules!r}: importlib.import_module(m)\nprint({found})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_the_tooling_does_not_need_sphinx() -> None:
    program = "import sys, infer_course.cli\nprint([m for m in ('sphinx', 'docutils', 'myst_parser') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_test_files_of_folders_without_a_package_have_names_of_their_own() -> None:
    """pytest imports them by their bare names: of two alike it collects one and stops at the other, minutes into the suite."""
    tests, seen, twice = Path(__file__).parent, {}, []
    for path in sorted(tests.rglob("test_*.py")):
        if not (path.parent / "__init__.py").exists() and seen.setdefault(path.name, path) is not path:
            twice.append(f"{seen[path.name].relative_to(tests)} and {path.relative_to(tests)}")
    assert twice == []
