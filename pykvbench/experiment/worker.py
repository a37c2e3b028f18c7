"""One fresh process: imports one framework, measures one sweep or some trajectories, and writes a line for each.

The parent starts `python -m pykvbench.experiment.worker BACKEND`, then writes one JSON task to its standard input and
reads run-file lines from its standard output. The task comes after the import so that both can happen at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np

from pykvbench import _timer
from pykvbench.cell import Cell
from pykvbench.drivers.driver import Driver, Sequences
from pykvbench.drivers.opening import import_framework, open_driver, open_sequences
from pykvbench.errors import BackendUnavailable
from pykvbench.experiment.affinity import pin
from pykvbench.record import encode

LOST_PARENT = 4
FAILED = 3

Opened = TypeVar("Opened", Driver, Sequences)


class Worker:
    """The task of this process and the pipe to its parent."""

    def __init__(self, task: dict[str, Any], pipe: int, parent: int) -> None:
        self.task = task
        self.pipe = pipe
        self.parent = parent
        self.cell = Cell.from_json(task["cell"])
        self.previous_end = 0

    def write(self, kind: str, **values: Any) -> None:
        """Send one line; one write call, so that the gap between visits stays short."""
        line = encode(kind, {**values, **self.task["place"]})
        while line:
            line = line[os.write(self.pipe, line) :]

    def at(self, now_ns: int) -> int:
        """Nanoseconds since the run began."""
        return now_ns - int(self.task["began_ns"])

    def open(self, opener: Callable[..., Opened]) -> Opened:
        """Open the cell with `opener`, of drivers.opening, and say what it found."""
        began = _timer.now_ns()
        priority = _timer.prioritize()
        pinned = {"cpus": pin(self.task["cpus"])} if self.task.get("cpus") else {}
        opened = opener(
            self.cell,
            self.task["capacity"],
            self.task["seed"],
            self.task["simulate"],
            self.task["process"],
            self.task["began_ns"],
        )
        opened_ns = _timer.now_ns() - began
        self.write(
            "event",
            event="worker-started",
            at=self.at(began),
            opened_ns=opened_ns,
            priority=priority,
            **pinned,
            describe=opened.describe,
        )
        return opened

    def warm_up(self, driver: Driver) -> None:
        """Step for a fixed wall time at a length that is not measured.

        By time, not by count: clocks ramp by time (mlx#3837 drifted up to 3x under fixed counts), and unequal
        warm-ups would make processes incomparable.
        """
        began = _timer.now_ns()
        stamps = np.zeros((1, 3), dtype=np.int64)
        prepare = partial(driver.reset, self.task["warmup_length"] - 1)
        steps = 0
        while steps < 3 or _timer.now_ns() - began < self.task["warmup_s"] * 1e9:
            _timer.run(driver.step, driver.sync, stamps, prepare)
            steps += 1
        ended = _timer.now_ns()
        self.write(
            "event",
            event="warmed-up",
            at=self.at(ended),
            took_ns=ended - began,
            steps=steps,
            step_ns=int(stamps[0, 2] - stamps[0, 0]),
        )
        self.previous_end = ended

    def run(self) -> int:
        """The whole task; returns the exit status."""
        from pykvbench.experiment import reuse, sweep, trajectory

        if self.task["measure"] == "serving":
            from pykvbench.experiment import serving

            return self.each(partial(serving.measure, self, self.open(open_sequences)))
        if self.task["measure"] == "contrasts":
            from pykvbench.experiment import contrasts

            driver = self.open(open_driver)
            opened = contrasts.open_contrasts(self, driver)
            self.warm_up(driver)
            gc.collect()
            gc.freeze()
            return self.each(partial(contrasts.measure, self, opened))
        measures = {"sweep": sweep.measure, "trajectories": trajectory.measure, "reuse": reuse.measure}
        measure = measures[self.task["measure"]]
        driver = self.open(open_driver)
        self.warm_up(driver)
        gc.collect()
        gc.freeze()
        return self.each(partial(measure, self, driver))

    def each(self, measure: Callable[[dict[str, Any]], None]) -> int:
        """Measure every item; the first that fails ends the process."""
        from pykvbench.experiment import ceiling

        for item in self.task["items"]:
            if os.getppid() != self.parent:
                return LOST_PARENT
            try:
                measure(item)
            except Exception as error:
                at = {name: item[name] for name in ("length", "budget", "prompt") if name in item}
                self.write("event", event=_name(error), at=self.at(_timer.now_ns()), **at, detail=_sentence(error))
                return FAILED
        if self.task.get("ceiling"):
            ceiling.measure(self, self.cell.backend, self.task["ceiling"])
        ended = _timer.now_ns()
        self.write("event", event="worker-ended", at=self.at(ended), usage=list(_timer.usage()))
        return 0


def _name(error: Exception) -> str:
    text = f"{type(error).__name__} {error}".lower()
    return "out-of-memory" if isinstance(error, MemoryError) or "out of memory" in text or "alloc" in text else "failed"


def _sentence(error: Exception) -> str:
    """The error's first line without anything that looks like a path: run files are attached to public issues."""
    words = f"{type(error).__name__}: {error}".splitlines()[0].split()
    return " ".join("(path)" if "/" in word and len(word) > 3 else word for word in words)[:300]


def _die_with_parent() -> None:
    """Ask Linux to end this process when its parent dies, even while it hangs in a driver; elsewhere visits check."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main() -> int:
    """Run the task that the parent sends."""
    parent = os.getppid()
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    gc.disable()  # while importing it finds nothing, and inside a sample it would be a stall of our own making
    pipe = os.dup(1)
    os.dup2(2, 1)  # whatever a framework prints goes to stderr, never into the run file
    began = _timer.now_ns()
    with contextlib.suppress(BackendUnavailable):  # open_driver says it again, for the run file
        import_framework(sys.argv[1])
    imported_ns = _timer.now_ns() - began
    line = sys.stdin.readline()
    if not line:
        return LOST_PARENT
    worker = Worker(json.loads(line), pipe, parent)
    worker.write("event", event="imported", at=worker.at(began), took_ns=imported_ns)
    try:
        return worker.run()
    except Exception as error:
        name = "unavailable" if isinstance(error, BackendUnavailable) else _name(error)
        worker.write("event", event=name, at=worker.at(_timer.now_ns()), detail=_sentence(error))
        return FAILED


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)  # all lines are written; taking a framework down in good order only costs time
