"""In the worker: how many bytes a second a copy and a sum reach, once a device, after its first sweep.

After the visits, so that a large buffer's pages and heat disturb none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pykvbench import _timer
from pykvbench.drivers.opening import open_probes
from pykvbench.geometry import Geometry

if TYPE_CHECKING:
    from pykvbench.experiment.worker import Worker

_REPEATS = 5  # the fastest counts: a ceiling is what the device can do
_LARGE = 128 << 20  # bytes; beyond the last-level cache of most machines, and read in half a second by the slowest
_LARGEST = 1 << 30


def sizes(shape: Geometry, lengths: tuple[int, ...]) -> list[int]:
    """Bytes to probe with: all caches at the shortest and longest length, and a buffer much larger than a cache."""
    first, last = shape.kv_bytes(lengths[0]), shape.kv_bytes(lengths[-1])
    return sorted({min(first, _LARGEST), min(last, _LARGEST), max(_LARGE, min(8 * last, _LARGEST))})


def measure(worker: Worker, backend: str, sizes: list[int]) -> None:
    """Probe with each size and write one event; a device that cannot hold a size is left with the others."""
    probes = []
    began = _timer.now_ns()
    for size in sizes:
        count = max(2, size // 8 * 2)
        try:
            opened = open_probes(backend, count)
            if opened is None:
                return
            steps, sync = opened
            for name, step in steps.items():
                stamps = np.zeros((_REPEATS, 3), dtype=np.int64)
                _timer.run(step, sync, stamps)
                fastest = int((stamps[:, 2] - stamps[:, 0]).min())
                probes.append({"what": name, "bytes": 4 * count, "bytes_per_s": round(4 * count / fastest * 1e9)})
        except (RuntimeError, MemoryError, ValueError):  # no memory for it
            break
    worker.write("event", event="ceiling", at=worker.at(began), probes=probes)
