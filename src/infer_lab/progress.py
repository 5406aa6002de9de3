"""A progress bar for many requests: how many are done, and how fast tokens come. On stderr, by default only where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class ProgressBar:
    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("Requests", total=total, rate="")
        self._num_tokens = 0

    def advance(self, num_finished: int, num_tokens: int) -> None:
        """So many more requests have finished; they have so many tokens."""
        self._num_tokens += num_tokens
        elapsed = self._progress.tasks[self._task].elapsed
        rate = f"{self._num_tokens / elapsed:,.0f} tokens/s" if elapsed else ""
        self._progress.update(self._task, advance=num_finished, rate=rate)


@contextmanager
def progress_bar(total: int, show: bool | None) -> Iterator[ProgressBar | None]:
    """show: None is "in a terminal only"."""
    if show is None:
        show = sys.stderr is not None and sys.stderr.isatty()
    if not show or not total:
        yield None
        return
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()]
    with Progress(*columns, TextColumn("{task.fields[rate]}"), console=Console(stderr=True)) as progress:
        yield ProgressBar(progress, total)
