"""What a GPU's own counters say beside the formula: products, kernels under the roofline, attention, transposes, five bottlenecks.

    python benchmarks/counters.py                      # on a GPU with Nsight Compute (ncu)
    python benchmarks/counters.py --record             # and write measurements/<device>/counters.json
    python benchmarks/counters.py --only attention
    python benchmarks/counters.py --device cpu --quick # no counters: each case runs once, to see that it does

The last line of output is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table

from infer_lab.bench import Record
from infer_lab.bench.counters import BUSY, STORES, TRAFFIC, UNITS, Case, Counted, Metrics, count
from infer_lab.errors import UserError
from infer_lab.teaching import counted

TOPICS: dict[str, tuple[Callable[..., list[Case]], tuple[Metrics, ...]]] = {
    "products": (counted.products, (TRAFFIC,)),
    "under_the_roof": (counted.under_the_roof, (TRAFFIC,)),
    "attention": (counted.attention, (TRAFFIC,)),
    "transposes": (counted.transposes, (TRAFFIC, STORES)),
    "suspects": (counted.suspects, (BUSY,)),
}
SOURCES = (
    "benchmarks/counters.py", "src/infer_lab/bench/counters.py", "src/infer_lab/teaching/counted.py",
    "src/infer_lab/kernels/flash_prefill.py", "src/infer_lab/kernels/_hopper_prefill_kernel.py", "src/infer_lab/kernels/_programs.py",
    "src/infer_lab/kernels/teaching/transpose.py", "src/infer_lab/kernels/paged_decode.py",
)  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cuda, or cpu with --quick")
    parser.add_argument("--only", nargs="+", default=list(TOPICS), choices=list(TOPICS), metavar="TOPIC", help=", ".join(TOPICS))
    parser.add_argument("--record", action="store_true", help="write the measurement record <device>/counters")
    parser.add_argument("--quick", action="store_true", help="tiny sizes without counters, to see that it runs")
    parser.add_argument("--timeout", type=float, default=200, help="seconds for each topic (default 200)")
    options = parser.parse_args(argv)
    try:
        return run_small(options.only) if options.quick else run(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def run_small(topics: list[str]) -> int:
    """Each case once on the CPU, without counters."""
    ran = []
    for topic in topics:
        for case in TOPICS[topic][0](small=True):
            case.make("cpu")()
            ran.append(case.name)
    print(json.dumps({"device": "cpu", "quick": True, "ran": ran}))
    return 0


def run(options: argparse.Namespace) -> int:
    if options.device == "cpu":
        raise UserError("a CPU has no such counters; --device cpu --quick only runs the cases")
    if not torch.cuda.is_available():
        raise UserError("no CUDA device was found here; --device cpu --quick runs the cases without counters")
    record = Record("counters", "What the counters say, and the formula", options.device, sources=SOURCES)
    ratios = {}
    for topic in options.only:
        function, sets = TOPICS[topic]
        print(f"{topic}: {len(function())} cases …", file=sys.stderr, flush=True)
        for metrics in sets:
            found = count(f"infer_lab.teaching.counted:{topic}", metrics, timeout=options.timeout)
            show(topic, found)
            for one in found:
                add(record, one)
            ratios |= {one.name: round(one.over_formula, 3) for one in found if metrics is TRAFFIC}
    path = str(record.write()) if options.record else None
    print(json.dumps({"device": record.environment.slug, "over_formula": ratios, "record": path}))
    return 0


def add(record: Record, one: Counted) -> None:
    """Every value as it was counted; of traffic also the bytes of memory together, beside the formula."""
    note = f"{one.kernels} kernel{'s' if one.kernels > 1 else ''}; " + (
        "caches emptied before each" if "ns" in one.values else "the L2 held other data before the call"
    )
    if f"{one.name}-kernels" not in record.values:
        record.add_value(f"{one.name}-kernels", one.kernels, "1", note="launched by one call")
    for key, value in one.values.items():
        record.add_value(f"{one.name}-{key.replace('_', '-')}", value, UNITS[key], note=note)
    if "read" in one.values:
        record.add_value(f"{one.name}-dram", one.dram, "B", note=note, predicted=one.nbytes)
        record.add_value(f"{one.name}-over-formula", one.over_formula, "x", note=note, predicted=1)


def show(topic: str, found: list[Counted]) -> None:
    table = Table(title=topic.replace("_", " "))
    keys = list(found[0].values) if found else []
    for column in (
        "case",
        "kernels",
        "formula, MB",
        *(f"{key.replace('_', ' ')}, {'MB' if UNITS[key] == 'B' else UNITS[key]}" for key in keys),
    ):
        table.add_column(column, justify="left" if column == "case" else "right")
    for one in found:
        cells = [f"{value / 1e6:,.1f}" if UNITS[key] == "B" else f"{value:,.4g}" for key, value in one.values.items()]
        table.add_row(one.name, str(one.kernels), f"{one.nbytes / 1e6:,.1f}", *cells)
    Console(stderr=True).print(table)


if __name__ == "__main__":
    sys.exit(main())
