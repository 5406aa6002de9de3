"""The library's own Python runs in the page: from the site alone, in one worker, with mistakes told as sentences."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile

import pytest

from infer_course import browser, browser_pack, calculators

CALL = """async ({ module, fn, args }) => {
  const { python } = await import(document.documentElement.dataset.content_root + "_static/gen/python.mjs");
  const said = [];
  try {
    const lab = await python((text) => said.push(text));
    return { value: await lab.call(module, fn, args), said };
  } catch (error) {
    return { error: error.error, kind: error.kind, mistake: error.mistake, message: String(error), said };
  }
}"""
FORBIDDEN = ("torch", "numpy", "triton", "pandas", "pydantic", "typer", "rich", "yaml", "docutils", "sphinx", "jinja2")


@pytest.fixture(scope="module")
def packed(tmp_path_factory, root):
    """The archive, unpacked where nothing else of ours is."""
    folder = tmp_path_factory.mktemp("packed")
    (folder / "infer.zip").write_bytes(browser_pack.archive(root / "src"))
    zipfile.ZipFile(folder / "infer.zip").extractall(folder / "in")
    return folder / "in"


def test_every_packed_module_imports_with_nothing_but_the_standard_library(packed):
    names = [".".join(path.relative_to(packed).with_suffix("").parts).removesuffix(".__init__") for path in sorted(packed.rglob("*.py"))]
    assert {"infer_lab.core.scheduler", "infer_lab.hardware", "infer_course.browser"} <= set(names)
    program = (
        f"import sys, importlib\nsys.path.insert(0, {str(packed)!r})\n"
        f"for name in {FORBIDDEN!r}: sys.modules[name] = None\n"
        f"for name in {names!r}: assert {str(packed)!r} in importlib.import_module(name).__file__, name\nprint('all')"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "all", done.stderr


def test_the_archive_has_the_same_bytes_whenever_it_is_made(root):
    assert browser_pack.archive(root / "src") == browser_pack.archive(root / "src")


def test_the_door_gives_results_and_named_errors_as_json():
    assert json.loads(browser.call("infer_course.browser", "ready", "[]")) == {"value": True}
    refused = json.loads(browser.call("infer_lab.presets", "preset", '["no-such-model"]'))
    assert refused["name"] == "UnknownModelError" and "llama-3-8b" in refused["error"]
    with pytest.raises(AttributeError):
        browser.call("infer_lab.presets", "no_such_function", "[]")


def test_the_page_computes_what_the_library_computes_from_the_site_alone(visit):
    page = visit("book/status.html")
    page.set_default_timeout(60_000)
    assert not page.workers, "Python is started when somebody asks for it"
    shown = page.evaluate(CALL, {"module": "infer_course.calculators", "fn": "view", "args": ["kv-cache", {}]})
    assert shown["value"]["headline"] == calculators.view("kv-cache", {})["headline"]
    assert len(shown["said"]) >= 2 and "13 MB" in shown["said"][0]
    again = page.evaluate(CALL, {"module": "infer_course.browser", "fn": "ready", "args": {}})
    assert again == {"value": True, "said": []}
    assert len(page.workers) == 1, "one worker a page"

    refused = page.evaluate(CALL, {"module": "infer_lab.presets", "fn": "preset", "args": {"name": "gpt-9"}})
    assert refused["kind"] == "UnknownModelError" and refused["mistake"] and "gpt-9" in refused["error"]
    bug = page.evaluate(CALL, {"module": "infer_lab.presets", "fn": "no_such", "args": []})
    assert bug["mistake"] is False and "no_such" in bug["error"]


def test_without_the_files_the_page_says_what_is_wrong_and_may_try_again(visit, address):
    page = visit("book/status.html")
    page.set_default_timeout(60_000)
    page.route("**/vendor/python/infer.zip", lambda route: route.abort())
    lost = page.evaluate(CALL, {"module": "infer_course.browser", "fn": "ready", "args": []})
    assert "could not be started" in lost["message"]
    page.unroute("**/vendor/python/infer.zip")
    assert page.evaluate(CALL, {"module": "infer_course.browser", "fn": "ready", "args": []})["value"] is True
    visit.complaints[:] = [said for said in visit.complaints if "ERR_FAILED" not in said]
