"""Deliberate extra work at a length, to see whether the instrument finds it: a positive control."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pykvbench import _timer
from pykvbench.drivers.driver import Driver
from pykvbench.errors import UsageError

_INJECTION = re.compile(r"(\d{1,9}):(\d{1,6}(?:\.\d+)?)x", re.ASCII)
_CALLS = 5  # undisturbed calls from which the extra time is taken; their median survives one stall


@dataclass(frozen=True)
class Injection:
    """A busy wait on the host after the step at one length, making it cost `ratio` times as much."""

    length: int
    ratio: float

    @property
    def text(self) -> str:
        """As the user writes it: 421:1.3x."""
        return f"{self.length}:{self.ratio:g}x"


def parse_injection(text: str) -> Injection:
    """Read LENGTH:RATIOx, or raise UsageError."""
    match = _INJECTION.fullmatch(text.strip())
    if match is None or int(match[1]) < 1 or float(match[2]) <= 1:
        raise UsageError(
            f"--inject {text} is not understood; write LENGTH:RATIOx with a ratio above 1, such as 421:1.3x."
        )
    return Injection(int(match[1]), float(match[2]))


def injected_step(driver: Driver, injection: Injection, prepare: Callable[[], None]) -> Callable[[], object]:
    """The driver's step followed by a busy wait of (ratio - 1) times what the step costs undisturbed."""
    stamps = np.zeros((_CALLS, 3), dtype=np.int64)
    _timer.run(driver.step, driver.sync, stamps, prepare)
    extra_ns = int(float(np.median(stamps[:, 2] - stamps[:, 0])) * (injection.ratio - 1))

    def step() -> object:
        result = driver.step()
        until = _timer.now_ns() + extra_ns
        while _timer.now_ns() < until:
            pass
        return result

    return step
