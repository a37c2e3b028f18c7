"""Loads served by the real drivers in one fresh process, for tests of capacity: a line for each cache and policy."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from pykvbench.cell import CACHES, Cell
from pykvbench.dispatch.footprint import allocator_name, footprint, rows_of, whole_sequence
from pykvbench.drivers.driver import Driver
from pykvbench.drivers.numpy_driver import reference
from pykvbench.drivers.opening import open_sequences
from pykvbench.experiment.scheduler import POLICIES, UNLIMITED
from pykvbench.experiment.serving import measure
from pykvbench.geometry import Geometry

SHAPE = Geometry(1, 2, 4, 2, 16, "float32")
CONTEXT, TOKENS, SEQUENCES = 250, 20, 3  # over a growth of `chunked`, and two slices and a half
FIT = 2


class Bench:
    """As much of a worker as serving asks for."""

    def __init__(self, cell: Cell, expected: Path) -> None:
        self.cell, self.task = cell, {"reference": str(expected)}
        self.lines: list[dict[str, Any]] = []

    def warm_up(self, driver: Driver) -> None:
        driver.reset(CONTEXT)
        driver.sync(driver.step())

    def at(self, now_ns: int) -> int:
        return 0

    def write(self, kind: str, **values: Any) -> None:
        self.lines.append({"kind": kind, **values})


@lru_cache
def in_fresh_process(backend: str) -> list[dict[str, Any]]:
    """What served(backend) gives, in a new interpreter, once for all the tests that ask for it."""
    done = subprocess.run([sys.executable, __file__, backend], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    lines: list[dict[str, Any]] = json.loads(done.stdout)
    return lines


def served(backend: str) -> list[dict[str, Any]]:
    """Serve three sequences with every cache policy: without a limit, then with a budget that holds two."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        expected, progress = Path(folder) / "reference.npy", Path(folder) / "progress"
        np.save(expected, reference(SHAPE, [CONTEXT + TOKENS], 3))
        np.zeros(1, dtype=np.int64).tofile(progress)
        for cache in CACHES:
            cell = Cell(backend, "manual", cache, SHAPE)
            allocator = allocator_name(cell, "Linux", False)
            held = footprint(cell, allocator, CONTEXT + TOKENS, rows_of(CONTEXT, TOKENS)).allocated
            budget = whole_sequence(cell, allocator, CONTEXT, TOKENS) + held * (FIT - 1)
            for policy in (UNLIMITED, *POLICIES):
                bench = Bench(cell, expected)
                item = {
                    "context": CONTEXT,
                    "concurrency": SEQUENCES,
                    "policy": policy,
                    "repeat": 0,
                    "order": len(lines),
                    "tokens": TOKENS,
                    "budget": None if policy == UNLIMITED else budget,
                    "allocator": allocator,
                    "on_host": True,
                    "folder": folder,
                    "progress": str(progress),
                    "row": 0,
                }
                sequences = open_sequences(cell, rows_of(CONTEXT, TOKENS) + SEQUENCES - 1, 3)
                measure(bench, sequences, item)  # type: ignore[arg-type]
                lines.append({**bench.lines[-1], "cache": cache, "budget": budget, "left": _left(folder)})
    return lines


def _left(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).glob("sequence*"))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(served(sys.argv[1])) + "\n")
