"""Memory a trajectory takes: whether it grows by more than its keys and values, and whether smoothly."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pykvbench.analysis.arms import Arm
from pykvbench.analysis.decomposition import COLD
from pykvbench.analysis.finding import Finding
from pykvbench.analysis.levels import median_over_sweeps
from pykvbench.geometry import Geometry

# A process's rss holds too much else to be judged.
JUDGED = {"live": "live tensors grow", "driver": "the memory the driver holds grows"}
FACTOR = 1.5  # times the bytes of the new keys and values: rounding of blocks stays below
SLACK = 32 << 20  # bytes; allocators take memory in blocks of up to 32 MiB
MIB = 1 << 20


def memory_findings(arm: Arm, geometry: Geometry) -> Iterable[Finding]:
    """One finding a counter that grows beyond what the KV cache explains, in the middle trajectory at each length."""
    lengths = arm.lengths
    for counter, what in JUDGED.items():
        if counter not in arm.memory:
            continue
        curve = median_over_sweeps(arm.memory[counter])
        known = np.flatnonzero(~np.isnan(curve))
        known = known[min(COLD, max(0, len(known) - 2)) :]
        if len(known) < 2:
            continue
        first, last = int(known[0]), int(known[-1])
        grown = float(curve[last] - curve[first])
        expected = float(geometry.kv_bytes(int(lengths[last])) - geometry.kv_bytes(int(lengths[first])))
        if grown <= FACTOR * expected + SLACK:
            continue
        jumps = np.diff(curve[known])
        largest = int(np.argmax(jumps))
        share = jumps[largest] / grown
        shape = (
            f"{share:.0%} of it in one step, at KV length {lengths[known[largest + 1]]}"
            if share > 0.2
            else "in many small steps"
        )
        note = (
            f"{what} by {grown / MIB:.0f} MiB from KV length {lengths[first]} to "
            f"{lengths[last]}, {shape}; the new keys and values take {expected / MIB:.0f} MiB."
        )
        span = (int(lengths[first]), int(lengths[last]))
        yield Finding("memory-growth", span, grown / expected, None, None, "confirmed", note)
