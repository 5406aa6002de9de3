"""One build, one server and one browser for all page tests; each test gets a page that must stay silent and stay home."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from infer_course import graph as course_graph
from infer_course import site, web_build
from infer_course.graph import Graph
from infer_course.web_server import open_server
from tests.site import browser as chromium
from tests.site import drill_cards

ROOT = Path(__file__).parents[2]
NARROW, WIDE = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.site)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def graph() -> Graph:
    return course_graph.load(ROOT)


@pytest.fixture(scope="session")
def html(root: Path) -> Path:
    """The built site, brought up to date; with it the tools that only tests need."""
    web_build.build(root, dev=True)
    site.build(root, root / "_build")
    return root / "_build" / "html"


@pytest.fixture(scope="session")
def address(html: Path) -> Iterator[str]:
    with open_server(html, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = chromium.find()
    if path is None:
        why = f"there is no Chromium: {chromium.HOW}"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=chromium.FLAGS)
        yield running
        running.close()


Open = Callable[..., Page]


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Open]:
    """`visit("book/drill.html", narrow=True, dark=True, script=False)` opens a page as a new reader.

    At the end of the test no page may have complained to the console, failed, or asked another host for anything.
    """
    contexts, complaints = [], []

    def open_page(where: str = "", narrow: bool = False, dark: bool = False, script: bool = True, **options: Any) -> Page:
        context = browser.new_context(
            viewport=NARROW if narrow else WIDE,  # type: ignore[arg-type]
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
            has_touch=narrow,
            **options,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda said: complaints.append(f"console: {said.text}") if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("request", lambda asked: complaints.append(f"left home: {asked.url}") if not asked.url.startswith(address) else None)
        page.on("response", lambda got: complaints.append(f"{got.status}: {got.url}") if got.status >= 400 else None)
        page.goto(address + where)
        return page

    open_page.complaints = complaints  # type: ignore[attr-defined]
    yield open_page
    for context in contexts:
        context.close()
    assert not complaints, complaints


@pytest.fixture
def drill(visit: Open, address: str) -> Iterator[Open]:
    """`drill("?set=evening")` opens the drill with the questions of `drill_cards`; no service worker stands between."""

    def open_drill(query: str = "", before: str = "", **options: Any) -> Page:
        page = visit("404.html", service_workers="block", **options)
        drill_cards.serve(page)
        if before:
            page.add_init_script(before)
        page.goto(address + drill_cards.PAGE + query)
        page.locator(".dr-today, .dr-q, .dr-progress, .dr-settings").first.wait_for()
        return page

    yield open_drill
    visit.complaints[:] = [  # type: ignore[attr-defined]
        said
        for said in visit.complaints  # type: ignore[attr-defined]
        if "Service Worker registration blocked" not in said
    ]


@pytest.fixture(scope="session")
def axe(root: Path, html: Path) -> str:
    return (root / "web" / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
