"""What each new length leaves behind in the memory of a process that sweeps over lengths: graphs, plans, blocks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pykvbench.analysis.finding import Finding, Floats
from pykvbench.record import Visits

# What may grow, and what of it is accounted for: the caches are as long as the length visited, and a pool of freed
# blocks (MLX's) keeps one of every size up to its limit. Live tensors and the driver's memory do not show MPSGraph's
# graphs; only rss does (pytorch#181213).
JUDGED = {
    "live": ("live tensors grow", ("caches",)),
    "driver": ("the memory the driver holds grows", ()),
    "rss": ("the process grows, beyond its caches and its pool of freed blocks,", ("caches", "pooled")),
}
LEAST = 16 << 10  # bytes a new length; below it are Python's own lists and the allocator's rounding
MIN_VISITS = 8
PARTS = 6
KIB = 1 << 10


def growth_findings(visits: Visits) -> Iterable[Finding]:
    """One finding a counter that grows at each new length in most processes, with the bytes a length leaves behind.

    In a sweep every length is new to its process. Growth of whatever is visited again and again looks the same.
    """
    for counter, (what, accounted) in JUDGED.items():
        if counter not in visits.memory:
            continue
        held = visits.memory[counter].copy()
        for name in accounted:
            if name in visits.memory:
                held -= np.nan_to_num(visits.memory[name])
        processes = [held[visits.process == process] for process in np.unique(visits.process)]
        rates = [
            steady_rate(series) for series in processes if len(series) >= MIN_VISITS and not np.isnan(series).any()
        ]
        growing = [rate for rate in rates if rate is not None]
        if len(growing) * 2 <= len(rates):
            continue
        note = (
            f"{what} by {np.median(growing) / KIB:.0f} KiB at each new length in {len(growing)} of {len(rates)} "
            "processes: something is kept for every shape, such as a compiled graph, and a long generation meets a new "
            "shape at every token."
        )
        span, votes = (int(visits.length.min()), int(visits.length.max())), f"{len(growing)}/{len(rates)}"
        yield Finding("memory-growth", span, None, votes, None, "confirmed" if len(rates) > 1 else "apparent", note)


def steady_rate(series: Floats) -> float | None:
    """Bytes a visit by which a process's counter grows all along, or None where it does not, or by less than LEAST.

    Of PARTS stretches of visits, after the first eighth, all but one must grow at half the median rate or more: memory
    that is touched for the first time grows quickly and then not at all, and a block taken at once grows in one part.
    """
    edges = np.unique(np.linspace(len(series) // 8, len(series) - 1, PARTS + 1).round().astype(np.int64))
    rates = np.diff(series[edges]) / np.diff(edges)
    usual = float(np.median(rates))
    return usual if usual >= LEAST and int((rates < usual / 2).sum()) <= 1 else None
