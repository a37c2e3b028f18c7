"""Whether the machine slept, or somebody set its clock, since this was last asked.

Samples are stamped with a raw clock that stands still during sleep and that nobody can set, so neither changes a time;
but the processor's clock, caches and temperature are others after a sleep, and the reader must know.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

from pykvbench import _timer

SLEPT_NS = 500_000_000
STEPPED_NS = 1_000_000_000
SLEWED = 1e-3  # of the time that passed; time daemons slew by at most half of that

Reading = tuple[int, int, int]  # ns: awake, awake or asleep, by the wall


def read() -> Reading:
    """The three clocks: one that stops in sleep, one that does not, and the one that can be set."""
    # macOS: CLOCK_MONOTONIC_RAW runs on in sleep, and CLOCK_UPTIME_RAW, the stamps' clock, does not.
    asleep_too = time.CLOCK_MONOTONIC_RAW if sys.platform == "darwin" else time.CLOCK_BOOTTIME
    return _timer.now_ns(), time.clock_gettime_ns(asleep_too), time.time_ns()


class Clocks:
    """Remembers the last reading."""

    def __init__(self, read: Callable[[], Reading] = read) -> None:
        self._read = read
        self._last = read()

    def changes(self) -> Iterator[tuple[str, str]]:
        """Name and detail of an event for each thing that happened since the last call."""
        now = self._read()
        awake, passed, wall = (after - before for before, after in zip(self._last, now, strict=True))
        self._last = now
        if passed - awake > SLEPT_NS + SLEWED * passed:
            yield "slept", f"for {(passed - awake) / 1e9:.1f} s"
        if abs(wall - passed) > STEPPED_NS + SLEWED * passed:
            yield "clock-stepped", f"by {(wall - passed) / 1e9:+.1f} s"
