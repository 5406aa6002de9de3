"""Where the terminal keeps the progress file, and how it is replaced: in one step, under a lock, never over a file that cannot be read.

Two drills may be open at once: a change is made to what is on the disk at that moment, not to what was read at the start.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from infer_course.drill.progress import Progress, ProgressError, dumps, loads

PATH_VARIABLE = "INFER_COURSE_PROGRESS"


def default_path() -> Path:
    """$INFER_COURSE_PROGRESS, else `progress.json` in the platform's place for a program's data."""
    if own := os.environ.get(PATH_VARIABLE):
        return Path(own).expanduser()
    return data_dir() / "progress.json"


def data_dir() -> Path:
    """~/.local/share/inference-lab or $XDG_DATA_HOME; ~/Library/Application Support on macOS; %APPDATA% on Windows."""
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming") / "inference-lab"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "inference-lab"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "inference-lab"


class ProgressFile:
    """The progress file at `path`. A file that is not there yet is empty progress; the first change creates it."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = (path or default_path()).resolve()
        self.backup = self.path.with_name(f"{self.path.stem}.backup{self.path.suffix}")
        self._kept_backup = False

    def load(self) -> Progress:
        """ProgressError if the file cannot be read; it then says where the last good copy is."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return Progress()
        except (OSError, UnicodeDecodeError) as error:
            raise ProgressError(f"{self.path} cannot be read: {error}.{self._hint()}") from None
        try:
            return loads(text, str(self.path))
        except ProgressError as error:
            raise type(error)(f"{error}. It is left as it is.{self._hint()}") from None

    def update(self, change: Callable[[Progress], Progress]) -> Progress:
        """Applies `change` to what is on the disk now, writes the result and returns it. The file as this process found it is kept."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock():
                before = self.load()
                after = change(before)
                if after != before or not self.path.exists():
                    self._keep_backup()
                    self._replace(dumps(after))
        except OSError as error:
            raise ProgressError(f"{self.path} cannot be written: {error}. {PATH_VARIABLE} or --file names another place") from None
        return after

    def rescue(self, progress: Progress) -> Path:
        """Writes to a new file beside the old one, when that has become unreadable while it was in use."""
        path = self.path.with_name(f"{self.path.stem}.rescued-{time.strftime('%Y%m%d-%H%M%S')}{self.path.suffix}")
        path.write_text(dumps(progress), encoding="utf-8")
        return path

    def _replace(self, text: str) -> None:
        handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _keep_backup(self) -> None:
        if not self._kept_backup and self.path.exists():
            shutil.copy2(self.path, self.backup)
        self._kept_backup = True

    def _hint(self) -> str:
        kept = f" The copy from before the last session is {self.backup}." if self.backup.exists() else ""
        return f"{kept} Put a good copy in its place, or move it away to start anew"

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        try:
            import fcntl
        except ImportError:  # Windows: the last of two simultaneous writers wins
            yield
            return
        with open(self.path.with_name(f".{self.path.name}.lock"), "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
