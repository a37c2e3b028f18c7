"""What a capacity run comes to: a row for each load and policy, and the knee of each curve over concurrency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pykvbench.analysis.resample import Interval


@dataclass(frozen=True)
class CapacityRow:
    """So many sequences of one context under one policy; tuples hold a value for each repeat.

    `outcome` is empty when it was served, else why not: "out of memory", "does not fit", "not measured". Latency is
    the time from one token of a sequence to its next, the first from arrival: p50 of the middle sequence, p95, p99 and
    max of the one that fares worst.
    """

    context: int
    concurrency: int
    policy: str
    outcome: str
    kv: int  # bytes of keys and values when all sequences have all their tokens, whether they fit or not
    needed: int  # the same as the cache policy and the allocator round it up
    held: float  # the most that the caches in memory should have taken, as predicted
    memory: dict[str, float]  # by counter: the most it rose above what was there before any cache; medians
    p50_ns: tuple[float, ...] = ()
    p95_ns: tuple[float, ...] = ()
    p99_ns: tuple[float, ...] = ()
    max_ns: tuple[float, ...] = ()
    tokens_per_s: tuple[float, ...] = ()
    rejected: int = 0
    resident: int = 0  # most sequences in memory at once
    moves: float = 0.0  # how often a sequence left memory; median
    out_ns: float | None = None  # median of a move out
    into_ns: float | None = None  # median of a move back, or of computing the caches again
    p99_cost: float | None = None  # p99 over that of the same load without a limit
    more_sequences: int | None = None  # that would fit besides
    more_tokens: int | None = None  # that would fit in each sequence

    @property
    def served(self) -> bool:
        """Whether there are latencies."""
        return bool(self.p50_ns)

    def to_json(self) -> dict[str, Any]:
        """Plain values for the JSON document; latencies as medians with the repeats beside them."""
        named = ("context", "concurrency", "policy", "outcome", "kv", "needed", "memory")
        rest = ("rejected", "resident", "moves", "out_ns", "into_ns", "p99_cost", "more_sequences", "more_tokens")
        many = ("p50_ns", "p95_ns", "p99_ns", "max_ns", "tokens_per_s")
        return {
            **{name: getattr(self, name) for name in named},
            "held": self.held if self.held == self.held else None,  # NaN where nothing was served
            **{name: middle(getattr(self, name)) if self.served else None for name in many},
            "repeats": {name: list(getattr(self, name)) for name in many},
            **{name: getattr(self, name) for name in rest},
        }


@dataclass(frozen=True)
class Knee:
    """From how many sequences of a context on p99 has left p50 under a policy: `at`, with the interval low to high.

    `low` is the fewest from which on that is not ruled out, `high` the fewest from which on it is certain; None where
    no measured concurrency is, and below three repeats. `ratio` is p99 / p50 at `at`, or at the most sequences
    measured when `at` is None.
    """

    context: int
    policy: str
    at: int | None
    low: int | None
    high: int | None
    limit: float  # p99 / p50 beyond which p99 has left p50
    ratio: Interval
    votes: tuple[int, int]  # repeats in which it has left there, of all
    predicted: int | None  # the fewest sequences that do not fit into the budget side by side

    def to_json(self) -> dict[str, Any]:
        """Plain values for the JSON document."""
        named = ("context", "policy", "at", "low", "high", "limit", "predicted")
        return {**{name: getattr(self, name) for name in named}, "ratio": self.ratio.to_json()}


@dataclass(frozen=True)
class CapacityTable:
    """One cell's rows, by context, concurrency and policy, and its knees."""

    rows: tuple[CapacityRow, ...]
    knees: tuple[Knee, ...]
    budget: int | None
    memory: int | None  # what the device has in all
    fits: dict[
        int, int
    ]  # by context: sequences that the budget, or else the memory, holds; empty where neither is known

    def to_json(self) -> dict[str, Any]:
        """Plain values for the JSON document."""
        return {
            "budget": self.budget,
            "memory": self.memory,
            "fits": [{"context": context, "sequences": count} for context, count in self.fits.items()],
            "rows": [row.to_json() for row in self.rows],
            "knees": [knee.to_json() for knee in self.knees],
        }


def middle(values: tuple[float, ...]) -> float:
    """The median over repeats, NaN without any."""
    return float(np.median(values)) if values else float("nan")
