"""What a GPU says of itself while it works: clock, power, temperature, and why the clock is not higher.

Why: a rate is operations per clock times the clock, and a card lowers its clock when the work draws more power than it may. Two runs of
one kernel then differ although neither the kernel nor the timer does. `nvidia-smi` says so, but only if it is asked *while* the work runs;
its power is the mean of about a second (NVIDIA's documentation for Ampere and later), so the first second of a phase is not asked for.
Nothing is set here, only read.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_FIELDS = ("clocks.sm", "power.draw", "temperature.gpu", "clocks_event_reasons.active")
_REASONS = (
    "idle", "clocks set by an application", "power limit", "hardware slowdown", "sync boost", "thermal limit (software)",
    "thermal limit (hardware)", "power brake", "display",
)  # fmt: skip
"""By bit: nvmlClocksEventReason* of NVML."""


@dataclass(frozen=True, slots=True)
class Reading:
    """None: the card, or its driver, does not say. reasons: for a clock below the highest, () if there is none."""

    sm_mhz: float | None
    watts: float | None
    celsius: float | None
    reasons: tuple[str, ...] | None


def reading(line: str) -> Reading:
    """From a line of `nvidia-smi --query-gpu=… --format=csv,noheader,nounits`."""
    cells = [cell.strip() for cell in line.split(",")]
    sm, watts, celsius = (_number(cells[i]) if i < len(cells) else None for i in range(3))
    return Reading(sm, watts, celsius, _reasons(cells[3]) if len(cells) > 3 else None)


def working(step: Callable[[], object], seconds: float, device: str = "cuda", *, after: float = 1.0) -> list[Reading]:
    """Calls `step` again and again for `seconds`, and asks the card meanwhile, for the first time `after` some seconds.

    `step` should wait for its work, so that the queue does not outlast the answer. Empty where `nvidia-smi` does not answer.
    """
    fields = _known_fields(device)
    found: list[Reading] = []
    query: subprocess.Popen[str] | None = None
    start = time.monotonic()
    while True:
        step()
        now = time.monotonic() - start
        if query is not None and query.poll() is not None:
            said = query.communicate()[0].strip()
            if said and query.returncode == 0:
                found.append(reading(said.splitlines()[0]))
            query = None
        if query is None and fields and after <= now < seconds:
            query = subprocess.Popen(_command(device, fields), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if now >= seconds and query is None:
            return found
        if query is not None and now >= 3 * seconds + 5:  # it hangs: the work was measured all the same
            query.kill()
            query.communicate()
            return found


def _command(device: str, fields: Sequence[str]) -> list[str]:
    index = device.partition(":")[2] or "0"
    return ["nvidia-smi", "-i", index, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]


def _known_fields(device: str) -> Sequence[str]:
    """All of them; without the reasons on a driver that does not know their name; none without a driver."""
    for fields in (_FIELDS, _FIELDS[:3]):
        try:
            if subprocess.run(_command(device, fields), capture_output=True, timeout=20).returncode == 0:
                return fields
        except (OSError, subprocess.TimeoutExpired):
            return ()
    return ()


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _reasons(cell: str) -> tuple[str, ...] | None:
    try:
        bits = int(cell, 16)
    except ValueError:
        return None
    return tuple(reason for i, reason in enumerate(_REASONS) if bits >> i & 1)
