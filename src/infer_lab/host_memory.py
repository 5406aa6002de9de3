"""How much host memory can be taken. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path


def available_host_memory() -> int | None:
    """Bytes that can be taken without swapping; half of all memory where the system does not say, None where it says nothing."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (ValueError, OSError, AttributeError):
        return None
