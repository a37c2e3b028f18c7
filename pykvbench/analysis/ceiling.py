"""How near a curve comes to the bandwidth that a copy and a sum reach on the same device, in the same run.

A step reads K and V at least once, so bytes of K and V over the step's time is a bandwidth, and no step can have more
of it than the device has. Buffers that fit a cache go faster than memory; both are measured and both are named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pykvbench.analysis.finding import Curve, Floats
from pykvbench.geometry import Geometry
from pykvbench.record import Run

MARGIN = 1.5  # a matrix product may keep more loads in flight than a framework's own copy and sum do
_LARGE = 0.5  # probes of at least this share of the largest one's bytes measure memory, the others the working set


@dataclass(frozen=True)
class Ceiling:
    """The best bandwidth of any probe, in bytes a second, with buffers as large as the caches and much larger.

    The caches at the shortest length and at the longest are both tried; the faster stands, with its bytes.
    """

    working_set: float
    working_set_bytes: int
    memory: float
    memory_bytes: int

    @property
    def highest(self) -> float:
        """What nothing on the device can exceed."""
        return max(self.working_set, self.memory)

    def to_json(self) -> dict[str, Any]:
        """Plain values for the JSON document."""
        return {
            "working_set_bytes_per_s": self.working_set,
            "working_set_bytes": self.working_set_bytes,
            "memory_bytes_per_s": self.memory,
            "memory_bytes": self.memory_bytes,
        }


def ceiling_of(run: Run, index: int) -> Ceiling | None:
    """The ceiling of a cell's device, measured by the first process of a cell on it; None if there is none."""
    here = _device(run, index)
    for event in run.events:
        about = event.get("cell")
        if event["event"] != "ceiling" or not isinstance(about, int) or not 0 <= about < len(run.cells):
            continue
        if _device(run, about) == here and (ceiling := _read(event.get("probes"))):
            return ceiling
    return None


def bandwidth(curve: Curve, shape: Geometry) -> Floats:
    """Bytes of K and V a second at each length: [n]."""
    return np.array([shape.kv_bytes(int(length)) for length in curve.lengths]) / curve.median_ns * 1e9


def too_fast(curve: Curve, shape: Geometry, ceiling: Ceiling) -> str:
    """A sentence on lengths that are faster than the device can be; empty when none is."""
    rates = bandwidth(curve, shape)
    beyond = np.flatnonzero(rates > MARGIN * ceiling.highest)
    if not len(beyond):
        return ""
    first, last = int(curve.lengths[beyond[0]]), int(curve.lengths[beyond[-1]])
    where = f"length {first}" if first == last else f"{len(beyond)} lengths from {first} to {last}"
    return (
        f"K and V of {where} would have been read at up to {np.nanmax(rates) / 1e9:.3g} GB/s, and no copy or sum here "
        f"goes beyond {ceiling.highest / 1e9:.3g} GB/s: an error of measurement, so do not use these times."
    )


def _device(run: Run, index: int) -> tuple[str, int, str]:
    cell = run.cells[index]
    return cell.backend, cell.interpreter, cell.geometry.dtype


def _read(probes: object) -> Ceiling | None:
    try:
        rows = [(int(probe["bytes"]), float(probe["bytes_per_s"])) for probe in probes]  # type: ignore[attr-defined]
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    rows = [row for row in rows if row[0] > 0 and np.isfinite(row[1]) and row[1] > 0]
    if not rows:
        return None
    largest = max(size for size, _ in rows)
    large = [row for row in rows if row[0] >= _LARGE * largest]
    small = [row for row in rows if row not in large] or large
    (size, rate), (large_size, large_rate) = (max(some, key=lambda row: row[1]) for some in (small, large))
    return Ceiling(rate, size, large_rate, large_size)
