"""What `doctor` asks: each backend opened in a process of its own, its sync timed, and the machine looked over."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np

from pykvbench import _timer
from pykvbench.cell import BACKENDS, Cell
from pykvbench.drivers.availability import availability
from pykvbench.experiment.process import HOME
from pykvbench.geometry import Geometry
from pykvbench.machine import disturbances, machine, timing_variables

TIMEOUT_S = 120
_TINY = Geometry(batch=1, num_layers=1, num_heads=1, num_kv_heads=1, head_dim=64, dtype="float32")
_SAMPLES = 200


def examine() -> dict[str, Any]:
    """Backends, clock, machine and disturbances, as plain values."""
    facts = machine()
    return {
        "backends": [_backend(name) for name in BACKENDS],
        "clock": _timer.clock(),
        "machine": facts,
        "disturbances": [*timing_variables(), *disturbances(facts)],
    }


def probe(backend: str) -> dict[str, Any]:
    """Open a backend in this process and time its sync: alone, and after the smallest step. Times in ns."""
    from pykvbench.drivers.opening import open_driver

    driver = open_driver(Cell(backend, "manual", "prealloc", _TINY), 8, 0, None, 0, _timer.now_ns())
    driver.reset(3)
    result = driver.step()
    driver.sync(result)
    stamps = np.zeros((_SAMPLES, 3), dtype=np.int64)
    _timer.run(lambda: result, driver.sync, stamps)
    sync_ns = float(np.median(stamps[:, 2] - stamps[:, 1]))
    _timer.run(driver.step, driver.sync, stamps, lambda: driver.reset(3))
    step_ns = float(np.median(stamps[:, 2] - stamps[:, 0]))
    return {"sync_ns": sync_ns, "smallest_step_ns": step_ns, "describe": driver.describe}


def _backend(name: str) -> dict[str, Any]:
    """One backend: available with its sync floor, or why not."""
    found = availability(name)
    answer: dict[str, Any] = {
        "backend": name,
        "available": found.available,
        "reason": found.reason,
        "remedy": found.remedy,
    }
    if not found.available:
        return answer
    command = [sys.executable, "-m", "pykvbench.experiment.probe", name]
    try:
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, text=True, cwd=HOME)
    except subprocess.TimeoutExpired:
        return {
            **answer,
            "available": False,
            "reason": f"{name} did not answer within {TIMEOUT_S} s",
            "remedy": "Restart the machine, then try again.",
        }
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {
            **answer,
            "available": False,
            "reason": f"{name} failed to start: {last}",
            "remedy": "Reinstall its framework.",
        }
    return {**answer, **json.loads(done.stdout.splitlines()[-1])}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(probe(sys.argv[1])) + "\n")
