"""What a reuse run comes to: times to first token by length and tier, and the length from which restoring pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

RECOMPUTE = "recompute"
TIERS = ("device", "host", "disk")


@dataclass(frozen=True)
class Span:
    """A median over processes and the least and the most of them."""

    value: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Span:
        """The span of some values, NaN where there are none."""
        if not values:
            return cls(float("nan"), float("nan"), float("nan"), 0)
        return cls(float(np.median(values)), min(values), max(values), len(values))

    def to_json(self) -> dict[str, float] | None:
        """Plain values for the JSON document, None where nothing was measured."""
        return {"median": self.value, "low": self.low, "high": self.high} if self.count else None


@dataclass(frozen=True)
class ReuseRow:
    """One length and tier of one cell. Times are ns, medians over processes of each process's median."""

    length: int
    tier: str
    ttft: dict[int, float]  # by repeat
    read_ns: float  # from the disk, its checks included; 0 elsewhere
    restore_ns: float  # computing the prompt, or putting its rows into the caches
    step_ns: float  # the decode step that gives the first token
    speedup: Span  # recomputing over this tier, process by process
    bytes: int  # of K and V
    write_ns: float | None  # to the disk, flushed
    bandwidth: float | None  # bytes of the file a ns of reading it
    how: str
    cold: bool | None  # whether reading came from the disk and not from memory; None where there is no disk
    recomputed: int  # processes whose file was refused
    searched: bool  # measured to find the break-even length

    @property
    def span(self) -> Span:
        """The time to first token over processes."""
        return Span.of(list(self.ttft.values()))

    def to_json(self) -> dict[str, Any]:
        """The row as it stands in the JSON document."""
        return {
            "length": self.length,
            "tier": self.tier,
            "ttft_ns": self.span.to_json(),
            "processes": list(self.ttft.values()),
            "read_ns": _known(self.read_ns),
            "restore_ns": _known(self.restore_ns),
            "step_ns": _known(self.step_ns),
            "speedup": self.speedup.to_json(),
            "bytes": self.bytes,
            "write_ns": self.write_ns,
            "bytes_per_ns": self.bandwidth,
            "read_with": self.how or None,
            "page_cache_bypassed": self.cold,
            "recomputed": self.recomputed,
            "searched": self.searched,
        }


@dataclass(frozen=True)
class BreakEven:
    """Where restoring from a tier takes as long as recomputing.

    `found` is "confirmed" (measured on both sides, every process agreeing), "interpolated" (between two measured
    lengths), "extrapolated" (beyond them), "below" (restoring is faster at all of them) or "none".
    """

    tier: str
    found: str
    length: float | None
    below: tuple[int, Span] | None  # the nearest measured length on each side, and the speed-up there
    above: tuple[int, Span] | None

    def to_json(self) -> dict[str, Any]:
        """Plain values for the JSON document."""
        return {
            "tier": self.tier,
            "found": self.found,
            "length": self.length,
            "below": None if self.below is None else {"length": self.below[0], "speedup": self.below[1].to_json()},
            "above": None if self.above is None else {"length": self.above[0], "speedup": self.above[1].to_json()},
        }


@dataclass(frozen=True)
class Published:
    """A row that someone published of another machine."""

    length: int
    recompute_s: float
    restore_s: float

    @property
    def speedup(self) -> float:
        """Recomputing over restoring."""
        return self.recompute_s / self.restore_s


ELSEWHERE = "Llama 3.1 8B Q4_K_M on a laptop with an integrated GPU, as published: another machine, for orientation"
PUBLISHED = (Published(8000, 58.38, 0.69), Published(16000, 163.54, 8.02))


@dataclass(frozen=True)
class ReuseTable:
    """One cell's rows, by length and then tier, and its break-even lengths by tier."""

    rows: tuple[ReuseRow, ...]
    break_even: tuple[BreakEven, ...]

    def row(self, length: int, tier: str) -> ReuseRow | None:
        """The row of a length and tier, None where nothing was measured."""
        return next((row for row in self.rows if (row.length, row.tier) == (length, tier)), None)

    def to_json(self) -> dict[str, Any]:
        """The table as it stands in the JSON document."""
        return {
            "rows": [row.to_json() for row in self.rows],
            "break_even": [known.to_json() for known in self.break_even],
        }


def published() -> dict[str, Any]:
    """The published rows as they stand in the JSON document."""
    rows = [
        {"length": row.length, "recompute_s": row.recompute_s, "restore_s": row.restore_s, "speedup": row.speedup}
        for row in PUBLISHED
    ]
    return {"machine": ELSEWHERE, "rows": rows}


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None
