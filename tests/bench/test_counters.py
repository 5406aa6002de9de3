"""What ncu prints is read right, its kernels are given to the right case, and a machine that cannot count says why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_lab.bench import counters
from infer_lab.bench.counters import Counted, count, in_cases, kernels_of
from infer_lab.errors import UnsupportedHardwareError, UserError

DRAM = {"read": "dram__bytes_read.sum", "written": "dram__bytes_write.sum"}
READ, WRITTEN = DRAM.values()
BOUNDARY = "void at::cuda::<unnamed>::spin_kernel(long)"
Kernel = tuple[str, float, float]


def long_table(kernels: list[Kernel]) -> str:
    """A row for each metric, as `--csv` prints."""
    lines = ["==PROF== Connected to process 7", '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"']
    for i, (name, read, written) in enumerate(kernels):
        lines += [f'"{i}","7","{name}","{metric}","byte","{value:,}"' for metric, value in ((READ, read), (WRITTEN, written))]
    return "\n".join(lines)


def raw_table(kernels: list[Kernel]) -> str:
    """A column for each metric, as `--csv --page raw` prints, its second row the units."""
    lines = [f'"ID","Process ID","Kernel Name","{READ}","{WRITTEN}"', '"","","","byte","byte"']
    return "\n".join([*lines, *(f'"{i}","7","{name}","{read}","{written}"' for i, (name, read, written) in enumerate(kernels))])


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**12)), min_size=1, max_size=4), max_size=5))
def test_each_kernel_is_added_to_its_case_in_both_layouts(groups: list[list[tuple[int, int]]]) -> None:
    kernels: list[Kernel] = []
    for i, group in enumerate(groups):
        kernels.append((BOUNDARY, 32.0, 0.0))
        kernels += [(f"kernel<{i}, float>(int, float)", read, written) for read, written in group]
    names = [(f"case-{i}", 100.0) for i in range(len(groups))]
    for table in (long_table(kernels), raw_table(kernels)):
        found = in_cases(list(kernels_of(table, DRAM)), names, DRAM)
        assert [(one.kernels, one.values["read"], one.values["written"]) for one in found] == [
            (len(group), sum(read for read, _ in group), sum(written for _, written in group)) for group in groups
        ]


def test_counted_bytes_are_compared_with_the_formula() -> None:
    one = Counted("case", 1, nbytes=100, values={"read": 120, "written": 30})
    assert (one.dram, one.over_formula) == (150, 1.5)


def test_shares_of_a_case_are_weighted_by_the_time_of_its_kernels() -> None:
    metrics = {key: counters.BUSY[key] for key in ("ns", "memory")}
    kernels = [(BOUNDARY, {}), ("long", {"ns": 3000.0, "memory": 80.0}), ("short", {"ns": 1000.0, "memory": 0.0})]
    (one,) = in_cases(kernels, [("a", 1.0)], metrics)
    assert one.values == {"ns": 4000, "memory": 60}


def test_only_what_takes_several_passes_has_its_caches_emptied(tmp_path: Path) -> None:
    for metrics, control in ((counters.TRAFFIC, "none"), (counters.STORES, "none"), (counters.BUSY, "all")):
        said = tmp_path / "said"
        with pytest.raises(UserError):
            count("m:f", metrics, ncu=program(tmp_path, f"Path({str(said)!r}).write_text(sys.argv[sys.argv.index('--cache-control') + 1])"))
        assert said.read_text() == control
        assert metrics.keys() <= counters.UNITS.keys()


def test_a_lost_kernel_or_counter_is_named_not_guessed() -> None:
    full = [(BOUNDARY, {}), ("kernel", {"read": 1.0, "written": 2.0})]
    with pytest.raises(UserError, match="2 cases ran and the counters show 1"):
        in_cases(full, [("a", 1.0), ("b", 1.0)], DRAM)
    with pytest.raises(UserError, match="a: the profiler gave no dram__bytes_write"):
        in_cases([(BOUNDARY, {}), ("kernel", {"read": 1.0})], [("a", 1.0)], DRAM)
    with pytest.raises(UserError, match="a: the profiler gave no kernel"):
        in_cases([(BOUNDARY, {})], [("a", 1.0)], DRAM)
    with pytest.raises(UserError, match="has no value here"):
        list(kernels_of(long_table([("kernel", 1, 2)]).replace('"1"', '"n/a"'), DRAM))


def program(folder: Path, body: str) -> Path:
    """Something that is called as ncu is. In body: `table`, where it writes, and `names`, where the work says what ran."""
    script = folder / "ncu"
    head = """
import json, sys
from pathlib import Path
table = Path(sys.argv[sys.argv.index("--log-file") + 1])
names = Path(sys.argv[-1])
"""
    script.write_text(f"#!{sys.executable}{head}{body}\n")
    script.chmod(0o755)
    return script


def test_cases_are_counted_by_the_profiler_that_is_there(tmp_path: Path) -> None:
    table = long_table([(BOUNDARY, 0, 0), ("gemm", 90, 20), ("reduce", 5, 5)])
    arguments = tmp_path / "said"
    body = f"table.write_text({table!r})\nnames.write_text(json.dumps([['a', 100.0]]))\nPath({str(arguments)!r}).write_text(repr(sys.argv))"
    assert count("module:function", DRAM, ncu=program(tmp_path, body)) == [Counted("a", 2, 100, {"read": 95, "written": 25})]
    said = arguments.read_text()
    assert "'--clock-control', 'none', '--cache-control', 'none'" in said and f"{READ},{WRITTEN}" in said and "'module:function'" in said


@pytest.mark.parametrize(
    "body, error, message",
    [
        ("print('==ERROR== ERR_NVGPUCTRPERM - The user does not have permission')", UnsupportedHardwareError, "run as root"),
        ("print('Failed to initialize the profiler: LibraryNotLoaded')", UnsupportedHardwareError, "does not let a profiler in"),
        (
            "sys.exit('ModuleNotFoundError: No module named module')",
            UserError,
            "module:function did not run under ncu(.|\n)*No module named",
        ),
    ],
)
def test_who_cannot_count_says_why(tmp_path: Path, body: str, error: type[UserError], message: str) -> None:
    with pytest.raises(error, match=message):
        count("module:function", ncu=program(tmp_path, body))


def test_a_run_that_takes_too_long_is_ended_and_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"took longer than 0\.5 s under ncu"):
        count("module:function", ncu=program(tmp_path, "import signal\nsignal.pause()"), timeout=0.5)


def test_without_a_profiler_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "find_ncu", lambda: None)
    with pytest.raises(UnsupportedHardwareError, match="there is no `ncu` here"):
        count("module:function")


def test_every_case_runs_and_has_a_name_of_its_own() -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "benchmarks/counters.py", "--device", "cpu", "--quick"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120, env=os.environ)
    assert done.returncode == 0, done.stderr
    ran = json.loads(done.stdout.splitlines()[-1])["ran"]
    assert len(ran) == len(set(ran)) >= 14
