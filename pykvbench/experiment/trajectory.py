"""In the worker: a trajectory, one growing decode loop of `budget` tokens after a prompt, every step kept."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pykvbench import _timer
from pykvbench.drivers.driver import Driver
from pykvbench.drivers.numpy_driver import TOLERANCE, numerics_error
from pykvbench.drivers.resident import resident_bytes

if TYPE_CHECKING:
    from pykvbench.experiment.worker import Worker

RSS_EVERY = 64


def measure(worker: Worker, driver: Driver, item: dict[str, Any]) -> None:
    """Decode item's budget after its prompt and write the line; with item["measured"] false it only leaves a history.

    Stamps go straight into a file that the parent reads if this process dies: a trajectory that dies keeps its steps.
    """
    prompt, budget = item["prompt"], item["budget"]
    stamps = np.memmap(item["stamps"], dtype=np.int64, mode="r+", shape=(budget, 3))
    stamps[:] = 0
    if driver.begin is not None:
        driver.begin(prompt, budget)
    memory = Memory(driver.memory, budget + 1)
    tokens = array("q")

    def sync(result: object) -> object:
        done = driver.sync(result)
        tokens.append(driver.tokens(result)[0])  # type: ignore[misc]  # only used where there are tokens
        return done

    def prepare() -> None:
        if memory.taken:
            driver.advance()
        else:
            driver.reset(prompt)
        memory.take()

    try:
        result = _timer.run(driver.step, driver.sync if driver.tokens is None else sync, stamps, prepare)
    except BaseException:
        _write(worker, item, stamps, memory, tokens, error=None, correct=None)
        raise
    memory.take()
    error = _error(worker, driver, item, result)
    correct = None if error is None else bool(error <= TOLERANCE[worker.cell.geometry.dtype])
    if item["measured"]:
        _write(worker, item, stamps, memory, tokens, error if error and np.isfinite(error) else None, correct)


class Memory:
    """Counters in bytes, taken between steps into arrays made beforehand: a list would grow with the trajectory.

    The driver's are taken at every step. How much the process occupies is taken at the first, at every RSS_EVERY-th
    and at the last: asking the system for it made the step that followed 3 % slower.
    """

    def __init__(self, read: Callable[[], dict[str, int]], most: int) -> None:
        self._read = read
        self._columns = {name: np.zeros(most, dtype=np.int64) for name in read()}
        self._rss = np.zeros(most, dtype=np.int64)  # 0 where not taken
        self._last = most - 1
        self.taken = 0

    def take(self) -> None:
        """Read every counter once."""
        for name, value in self._read().items():
            self._columns[name][self.taken] = value
        if self.taken % RSS_EVERY == 1 or self.taken == self._last:
            self._rss[self.taken] = resident_bytes()
        self.taken += 1

    def after_steps(self, steps: int) -> dict[str, list[int | None]]:
        """The counters after each of the first `steps` steps, as far as they were taken; None where one was not."""
        rows = slice(1, min(steps + 1, self.taken))
        columns = {name: column[rows].tolist() for name, column in self._columns.items()}
        return {"rss": [value or None for value in self._rss[rows].tolist()], **columns}


def line(item: dict[str, Any], stamps: npt.NDArray[np.int64], began_ns: int) -> dict[str, Any]:
    """The timing part of a trajectory's line, from as many steps as were completed; used by the parent too."""
    done = stamps[stamps[:, 2] > 0]
    gaps = np.concatenate([[0], done[1:, 0] - done[:-1, 2]]) if len(done) else np.zeros(0, dtype=np.int64)
    return {
        **{name: item[name] for name in ("repeat", "place", "order", "budget", "prompt")},
        "at": int(done[0, 0]) - began_ns if len(done) else 0,
        "dispatch": (done[:, 1] - done[:, 0]).tolist(),
        "total": (done[:, 2] - done[:, 0]).tolist(),
        "gap": gaps.tolist(),
        "complete": len(done) == item["budget"],
    }


def _write(
    worker: Worker,
    item: dict[str, Any],
    stamps: npt.NDArray[np.int64],
    memory: Memory,
    tokens: array[int],
    error: float | None,
    correct: bool | None,
) -> None:
    timing = line(item, stamps, worker.task["began_ns"])
    steps = len(timing["total"])
    chosen = tokens[:steps].tolist() if tokens else None
    counters = memory.after_steps(steps)
    worker.write("trajectory", **timing, memory=counters, tokens=chosen, error=error, correct=correct)


def _error(worker: Worker, driver: Driver, item: dict[str, Any], result: object) -> float | None:
    """The last step's distance from the float64 reference; None for bodies whose reference is too slow to run here."""
    if item["row"] is None:
        return None
    expected = np.load(worker.task["reference"], mmap_mode="r")[item["row"]]
    return numerics_error(driver.outputs(result), expected)
