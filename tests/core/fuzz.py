"""Random scenarios by the thousand: `python -m tests.core.fuzz --scenarios 20000`. A failure prints the one command that repeats it."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter

from .scenarios import run_scenario


def fuzz(first: int, count: int, *, progress: bool = False) -> Counter[str]:
    """Run scenarios `first` … `first + count - 1`; sums of what they did. Raises AssertionError with the seed in its notes."""
    totals: Counter[str] = Counter()
    started = shown = time.perf_counter()
    for seed in range(first, first + count):
        try:
            world = run_scenario(seed)
        except Exception as error:
            error.add_note(f"scenario {seed}; repeat it with: python -m tests.core.fuzz --first {seed} --scenarios 1")
            raise
        totals += world.seen
        now = time.perf_counter()
        if progress and now - shown > 2:
            shown, done = now, seed - first + 1
            rate = done / (now - started)
            print(f"{done}/{count} scenarios, {totals['steps']} steps, {rate:.0f}/s, {(count - done) / rate:.0f} s left", file=sys.stderr)
    return totals


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenarios", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first scenario; the others follow")
    arguments = parser.parse_args()
    try:
        totals = fuzz(arguments.first, arguments.scenarios, progress=True)
    except Exception:
        traceback.print_exc()
        return 1
    print(f"{arguments.scenarios} scenarios from seed {arguments.first}: no failure. They saw: {dict(totals)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
