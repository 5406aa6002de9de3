"""The page about the engine core tells the truth: its example prints what is shown, its drawings have every state and every case."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import groupby
from pathlib import Path

import pytest

from infer_course.markdown import scan
from infer_lab.core.request import RequestStatus

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "book" / "engine.md").read_text(encoding="utf-8")
FIGURES = ROOT / "book" / "figures"
SVG = "{http://www.w3.org/2000/svg}"


def drawing(name: str) -> ET.Element:
    return ET.parse(FIGURES / name).getroot()


def test_the_example_prints_what_the_page_shows(tmp_path: Path) -> None:
    (program,) = (fence.body for fence in scan(PAGE).fences if fence.language == "python")
    (shown,) = (fence.body for fence in scan(PAGE).fences if fence.language == "text")
    done = subprocess.run([sys.executable, "-I", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == shown.strip()


def test_every_state_of_a_request_is_drawn_once() -> None:
    names = [text.text for text in drawing("request-states.svg").iter(f"{SVG}text") if text.get("class") == "rst-name"]
    assert sorted(map(str, names)) == sorted(status.name for status in RequestStatus)


def test_the_regions_of_the_table_have_as_many_slots_as_they_say() -> None:
    figure = drawing("block-pool-and-table.svg")
    words = " ".join("".join(text.itertext()) for text in figure.iter(f"{SVG}text"))
    regions = [tuple(map(int, found)) for found in re.findall(r"\[(\d+), (\d+)\)", words)]
    slots = [
        max(len(group.findall(f"{SVG}rect")) for group in figure.iter(f"{SVG}g") if group.get("class") == f"blk-{name}")
        for name in ("filed", "written", "room")
    ]
    assert [end - start for start, end in regions] == slots
    assert [start for start, _ in regions] == [0, *(end for _, end in regions[:-1])]


def test_the_page_has_a_row_for_each_case_of_the_casebook() -> None:
    cases = re.findall(r"def test_case_(\d+)", (ROOT / "tests" / "core" / "test_casebook.py").read_text(encoding="utf-8"))
    table = PAGE.partition("| kind of failure |")[2].partition("\n\n")[0].strip().split("\n")
    assert len(table) - 2 == len([number for number, _ in groupby(cases)]) == int(cases[-1])


@pytest.mark.parametrize("name", ["request-states.svg", "block-pool-and-table.svg"])
def test_drawings_name_themselves_and_take_the_colours_of_the_page(name: str) -> None:
    text = (FIGURES / name).read_text(encoding="utf-8")
    assert drawing(name).find(f"{SVG}title") is not None and drawing(name).find(f"{SVG}desc") is not None
    assert 'fill="currentColor"' in text and not re.search(r"#(?!fff\b)[0-9a-fA-F]{3,6}\b", text)
