"""Finds a Chromium for the page tests, or installs one.

python -m tests.site.browser      prints its path; installs one first where there is none
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from infer_course import chromium

HOW = "install Chromium (Debian, Ubuntu: apt install chromium), or run `make browser`, or set CHROMIUM=/path/to/chromium"
FLAGS = list(chromium.FLAGS)


def find() -> str | None:
    """What the library finds, or the browser that Playwright downloaded."""
    return chromium.find() or (None if os.environ.get("CHROMIUM") else _of_playwright())


def _of_playwright() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).is_file() else None


def install() -> None:
    """The distribution's package where we may install one, else the browser tool's own download."""
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        print("No Chromium found; installing Debian's package …", flush=True)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        fonts = ["fonts-liberation", "fonts-wqy-microhei"]
        for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium", *fonts]):
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
        if find():
            return
    print("No Chromium found; fetching the browser tool's own …", flush=True)
    subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False)


def main() -> int:
    if os.environ.get("CHROMIUM") and not find():
        print(f"error: CHROMIUM is {os.environ['CHROMIUM']}, which is no file", file=sys.stderr)
        return 2
    if not find():
        install()
    path = find()
    if path is None:
        print(f"error: there is no Chromium and none could be installed: {HOW}", file=sys.stderr)
        return 2
    print(f"Chromium for the page tests: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
