"""How much memory this process occupies, whatever the framework."""

from __future__ import annotations

import os
import resource
import sys

# Kept open: asked at every step of a trajectory, opening it anew cost more than reading it.
_STATM = os.open("/proc/self/statm", os.O_RDONLY) if sys.platform == "linux" else None
_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Bytes of this process in memory now; where only the peak can be asked cheaply (macOS), the peak so far."""
    if _STATM is not None:
        return int(os.pread(_STATM, 128, 0).split()[1]) * _PAGE
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, others KiB


def available_bytes() -> int | None:
    """Bytes that a process could still take without another losing its own; None where only guesses are to be had."""
    if sys.platform != "linux":
        return None
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None
