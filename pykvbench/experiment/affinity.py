"""Which CPUs the measuring processes may run on: on Linux, by choice, and recorded."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from pykvbench.errors import UsageError


def parse_cpus(text: str) -> tuple[int, ...]:
    """CPU numbers such as 0,1, or UsageError where they are none, not here, or cannot be chosen on this system."""
    if re.fullmatch(r"\d{1,5}(,\d{1,5})*", text, re.ASCII) is None:
        raise UsageError(f"--cpus {text} is not understood; write CPU numbers such as 0,1.")
    if not hasattr(os, "sched_setaffinity"):
        raise UsageError("--cpus needs Linux; this system lets no program choose its CPUs, so leave it out.")
    cpus, here = sorted({int(number) for number in text.split(",")}), os.sched_getaffinity(0)
    for cpu in cpus:
        if cpu not in here:
            raise UsageError(f"--cpus {cpu} is not available here; choose among {','.join(map(str, sorted(here)))}.")
    return tuple(cpus)


def pin(cpus: Sequence[int]) -> list[int]:
    """Hold this process to `cpus`, with the threads that its imports have started; returns what holds now."""
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), cpus)
    return sorted(os.sched_getaffinity(0))
