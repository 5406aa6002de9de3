"""Single keys from a terminal, with a time limit so that a clock can tick."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Protocol

_ARROWS = {"[A": "up", "[B": "down", "[C": "right", "[D": "left", "OA": "up", "OB": "down", "OC": "right", "OD": "left"}
_NAMES = {"\r": "enter", "\n": "enter", " ": "space", "\x7f": "backspace", "\x08": "backspace", "\t": "tab", "\x04": "q"}


class Keys(Protocol):
    """Where the drill's keys come from."""

    def key(self, seconds: float | None = None) -> str | None:
        """The next key: a character, or enter, space, esc, up …; None if none came within `seconds`. KeyboardInterrupt on Ctrl-C."""
        ...


class TerminalKeys:
    """Keys of the terminal that standard input is. A context manager: inside it nothing that is typed is echoed or waits for Enter."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def __enter__(self) -> TerminalKeys:
        if sys.platform != "win32":
            import termios
            import tty

            self._before = termios.tcgetattr(sys.stdin.fileno())
            tty.setcbreak(sys.stdin.fileno(), termios.TCSADRAIN)
        return self

    def __exit__(self, *_: object) -> None:
        if sys.platform != "win32" and self._before is not None:
            import termios

            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._before)
            self._before = None

    def key(self, seconds: float | None = None) -> str | None:
        pressed = _read_windows(seconds) if sys.platform == "win32" else _read_posix(seconds)
        if pressed is None:
            return None
        if pressed == "\x03":
            raise KeyboardInterrupt
        if pressed.startswith("\x1b"):
            return _ARROWS.get(pressed[1:], "esc" if pressed == "\x1b" else "")
        return _NAMES.get(pressed, pressed)


def interactive() -> bool:
    """Whether keys can be read and a screen be written."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _read_posix(seconds: float | None) -> str | None:
    """The bytes of one key; the end of input counts as the key q."""
    import select

    handle = sys.stdin.fileno()

    def waiting(limit: float | None) -> bool:
        return bool(select.select([handle], [], [], limit)[0])

    if not waiting(seconds):
        return None
    pressed = os.read(handle, 1)
    if not pressed:
        return "q"
    if pressed == b"\x1b":
        while len(pressed) < 6 and waiting(0.03):
            pressed += os.read(handle, 1)
            if pressed[-1:] == b"~" or (pressed[-1:].isalpha() and pressed != b"\x1bO"):
                break
    more = 3 if pressed[0] >= 0xF0 else 2 if pressed[0] >= 0xE0 else 1 if pressed[0] >= 0xC0 else 0
    for _ in range(more):  # the rest of one UTF-8 character
        pressed += os.read(handle, 1)
    return pressed.decode(errors="replace")


def _read_windows(seconds: float | None) -> str | None:
    import msvcrt

    end = None if seconds is None else time.monotonic() + seconds
    while not msvcrt.kbhit():  # type: ignore[attr-defined]
        if end is not None and time.monotonic() > end:
            return None
        time.sleep(0.02)
    pressed = msvcrt.getwch()  # type: ignore[attr-defined]
    return "\x1b" + msvcrt.getwch() if pressed in "\x00\xe0" else pressed  # type: ignore[attr-defined]
