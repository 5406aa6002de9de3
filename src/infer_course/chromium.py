"""Finds a browser of the Chromium family on this machine: it prints the PDFs and drives the page tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
ELSEWHERE = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
)
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync")


def find() -> str | None:
    """$CHROMIUM, a usual name on PATH, or a usual place; None where there is none."""
    if named := os.environ.get("CHROMIUM"):
        return named if Path(named).is_file() else None
    on_path = next((found for name in NAMES if (found := shutil.which(name))), None)
    return on_path or next((place for place in ELSEWHERE if Path(place).is_file()), None)
