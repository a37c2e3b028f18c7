"""Whether a backend can be timed here at all: a clock that is fine enough, and a sync that waits.

    python -m pykvbench.experiment.fitness BACKEND

opens the backend in this process and prints what was measured as one JSON object.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass

import numpy as np

from pykvbench import _timer
from pykvbench.cell import Cell
from pykvbench.drivers.driver import Driver
from pykvbench.errors import BackendUnavailable
from pykvbench.experiment.process import HOME
from pykvbench.geometry import geometry

LENGTH = 2048  # keys: enough that what a sync leaves behind stands out from what reading a result costs
_REPEATS, _WARM = 9, 3
_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Fitness:
    """Times in ns, medians: of a step until its call and its sync return, and of what was left to wait for after that.

    What was left is what reading the result took longer than reading it again.
    """

    dispatch_ns: float
    step_ns: float
    left_ns: float
    resolution_ns: float
    monotonic: bool


def inspect(driver: Driver, length: int = LENGTH) -> Fitness:
    """Time some steps of an open driver and two readings of each result."""
    stamps = np.zeros((_REPEATS + _WARM, 3), dtype=np.int64)
    reads = np.zeros((_REPEATS + _WARM, 2))
    for row in range(len(stamps)):
        result = _timer.run(driver.step, driver.sync, stamps[row : row + 1], lambda: driver.reset(length - 1))
        for read in range(2):
            began = _timer.now_ns()
            driver.outputs(result)
            reads[row, read] = _timer.now_ns() - began
    spans, clock = stamps[_WARM:] - stamps[_WARM:, :1], _timer.clock()
    return Fitness(
        dispatch_ns=float(np.median(spans[:, 1])),
        step_ns=float(np.median(spans[:, 2])),
        left_ns=max(0.0, float(np.median(reads[_WARM:, 0] - reads[_WARM:, 1]))),
        resolution_ns=float(clock["resolution_ns"]),
        monotonic=bool(clock["monotonic"]),
    )


def fitness(backend: str) -> Fitness:
    """Inspect a backend in a fresh process; raises BackendUnavailable when it does not start."""
    command = [sys.executable, "-m", "pykvbench.experiment.fitness", backend]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, text=True, cwd=HOME)
    except subprocess.TimeoutExpired:
        raise BackendUnavailable(f"{backend} did not answer within {_TIMEOUT_S:g} s; restart the machine.") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BackendUnavailable(f"{backend} failed to start ({last}); try pykvbench doctor.")
    return Fitness(**json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Inspect the backend that is named on the command line."""
    from pykvbench.drivers.opening import open_driver

    cell = Cell(sys.argv[1], "manual", "prealloc", geometry("gpt2", num_layers=2))
    driver = open_driver(cell, LENGTH + 1, 0, None, 0, _timer.now_ns())
    sys.stdout.write(json.dumps(asdict(inspect(driver))) + "\n")


if __name__ == "__main__":
    main()
