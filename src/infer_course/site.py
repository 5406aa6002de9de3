"""Builds the site into `_build/html` and serves it on this machine.

    python -m infer_course.site build [--force] [--output DIR] [--base-url URL]
    python -m infer_course.site serve [--port 8000] [--output DIR]

A build takes what it can from the last one: nothing changed is instant, changed text rewrites the pages concerned, and a change of the
tooling, the styles, the configuration or a link rewrites everything. Warnings are errors.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from infer_course import pdf, web_build
from infer_course.errors import CourseError, NotACheckoutError
from infer_course.web_server import serve

TEXTS = (
    "index.md",
    "book/**/*.md",
    "book/**/*.svg",
    "questions/**/*.md",
    "questions/sets/*.yaml",
    "labs/part*/*.ipynb",
    "measurements/*/*.json",
)
TOOLS = ("_config.yml", "_toc.yml", "pyproject.toml", "src/infer_course/**/*", "src/infer_lab/**/*.py", "book/_static/**/*")


class SiteBuildError(CourseError):
    """The pages could not be built; what the builder said was printed before."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the last build was made from. `tools` covers everything that any page may depend on."""

    texts: str
    tools: str

    @classmethod
    def of(cls, root: Path) -> Stamp:
        return cls(_digest(root, TEXTS), _digest(root, TOOLS, os.environ.get("SITE_URL", "")))


def build(root: Path, output: Path, force: bool = False) -> bool:
    """Brings `output`/html up to date; True if there was anything to do."""
    if not (root / "_toc.yml").is_file():
        raise NotACheckoutError(f"{root.resolve()} is not a checkout of the course: it has no _toc.yml. Run this where README.md is.")
    web_build.build(root)
    now, mark = Stamp.of(root), output / ".stamp.json"
    before = _read_stamp(mark)
    html = output / "html"
    if before == now and (html / "index.html").is_file() and not force:
        return False
    mark.unlink(missing_ok=True)
    if force or before is None or before.tools != now.tools:
        shutil.rmtree(html, ignore_errors=True)
        shutil.rmtree(output / ".doctrees", ignore_errors=True)
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", ".", "-W", "-n", "--keep-going", "-q"]
    if output.resolve() != (root / "_build").resolve():
        command += ["--path-output", str(output.resolve().parent)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SiteBuildError(_what_went_wrong(done.stdout + done.stderr))
    mark.write_text(json.dumps({"texts": now.texts, "tools": now.tools}))
    return True


def fingerprint(root: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of every file that a build depends on: cheap to take, different after every save."""
    found = []
    for path in _files(root, (*TEXTS, *TOOLS, "web/src/**/*", "web/css/**/*")):
        with contextlib.suppress(FileNotFoundError):  # gone since it was listed
            state = path.stat()
            found.append((path.relative_to(root).as_posix(), state.st_mtime_ns, state.st_size))
    return tuple(found)


def _read_stamp(path: Path) -> Stamp | None:
    try:
        kept = json.loads(path.read_text())
        return Stamp(kept["texts"], kept["tools"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _digest(root: Path, patterns: tuple[str, ...], more: str = "") -> str:
    found = hashlib.sha256(more.encode())
    for path in _files(root, patterns):
        found.update(path.relative_to(root).as_posix().encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _files(root: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    for pattern in patterns:
        yield from sorted(path for path in root.glob(pattern) if path.is_file() and path.suffix != ".pyc" and ".ipynb_" not in str(path))


def _what_went_wrong(said: str) -> str:
    """The builder's own complaints without its progress and its Python traceback."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", said).splitlines()
    telling = [line for line in lines if any(word in line for word in ("WARNING", "ERROR", "error:"))]
    return "the site was not built:\n" + "\n".join(dict.fromkeys(telling) if telling else lines[-30:])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m infer_course.site", description="Build and serve the site.")
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("build", help="build into _build/html")
    making.add_argument("--force", action="store_true", help="build everything again")
    making.add_argument("--base-url", help="the address that the site will be published at, for social metadata and the sitemap")
    serving = commands.add_parser("serve", help="serve what was built")
    serving.add_argument("--port", type=int, default=8000, help="the first port to try (default: 8000)")
    serving.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: this machine only)")
    for command in (making, serving):
        command.add_argument("--root", type=Path, default=Path.cwd(), help="the checkout (default: here)")
        command.add_argument("--output", type=Path, help="the build folder, named _build (default: ROOT/_build)")
    options = parser.parse_args(arguments)
    output: Path = options.output or options.root / "_build"
    try:
        if options.command == "serve":
            serve(output / "html", options.port, options.host, pdf.on_demand(options.root, output / "html"))
            return 0
        if options.base_url:
            os.environ["SITE_URL"] = options.base_url
        print("Building the site …", flush=True)
        began = time.monotonic()
        done = build(options.root, output, options.force)
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"Built {output / 'html'} in {time.monotonic() - began:.0f} s." if done else "The site is up to date.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
