"""Which loads are served, under which policies, in which processes, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from pykvbench.cell import Cell
from pykvbench.dispatch.footprint import fitting, footprint, rows_of, whole_sequence
from pykvbench.errors import UsageError
from pykvbench.experiment.plan import MAX_TIMEOUT_S
from pykvbench.experiment.scheduler import POLICIES, SLICE, UNLIMITED
from pykvbench.sizes import format_size

MAX_SEQUENCES = 4096


@dataclass(frozen=True)
class Point:
    """So many sequences of one context, served under one policy: a row of the result."""

    cell: int
    context: int
    concurrency: int
    policy: str


@dataclass(frozen=True)
class CapacityPlan:
    """Cells x contexts x concurrencies without a limit, and once a policy where they need more than the budget.

    `allocators` names each cell's (dispatch.footprint.ALLOCATORS); `memory` is what its device has in all, None if
    that is not known.
    """

    cells: tuple[Cell, ...]
    contexts: tuple[int, ...]
    concurrencies: tuple[int, ...]
    allocators: tuple[str, ...]
    memory: tuple[int | None, ...]
    budget: int | None = None
    policies: tuple[str, ...] = POLICIES
    tokens: int = 32
    repeats: int = 3
    seed: int = 0
    warmup_s: float = 1.0
    timeout_s: float = 60.0
    simulate: str | None = None

    def __post_init__(self) -> None:
        if any(cell.geometry.batch > 1 for cell in self.cells):
            raise UsageError(
                "--batch steps sequences in one call, and here each has its own; use --concurrency instead."
            )
        if self.tokens < 2:
            raise UsageError(f"--tokens {self.tokens} leaves no time between two tokens; give at least 2, such as 32.")
        if self.concurrencies[-1] > MAX_SEQUENCES:
            raise UsageError(
                f"--concurrency {self.concurrencies[-1]} is beyond {MAX_SEQUENCES} sequences; write fewer."
            )
        if self.repeats < 1:
            raise UsageError(f"--repeats {self.repeats} measures nothing; use at least 3, the default.")
        if not 0 <= self.warmup_s <= 600:
            raise UsageError(f"--warmup {self.warmup_s:g} is not possible; give seconds from 0 to 600, such as 1.")
        if not 0 < self.timeout_s <= MAX_TIMEOUT_S:
            raise UsageError(
                f"--timeout {self.timeout_s:g} is not possible; give seconds, at most {MAX_TIMEOUT_S}, such as 60."
            )
        if self.seed < 0:
            raise UsageError(f"--seed {self.seed} is negative; use a whole number of at least 0.")
        for cell, allocator in zip(self.cells, self.allocators, strict=True):
            needed = whole_sequence(cell, allocator, self.contexts[0], self.tokens)
            if self.budget is not None and self.budget < needed:
                raise UsageError(
                    f"A --budget of {format_size(self.budget)} cannot hold one sequence of {self.contexts[0]} tokens "
                    f"and {self.tokens} more on {cell.label}; give {-(-needed // 1024)}KiB or more, or lower --context."
                )

    @property
    def capacity(self) -> int:
        """Rows that the sequences of the longest context share."""
        return self.rows(self.contexts[-1], self.concurrencies[-1])

    def rows(self, context: int, concurrency: int) -> int:
        """Rows that so many sequences of a context share: each begins one row after the one before."""
        return rows_of(context, self.tokens) + concurrency - 1

    def needed(self, point: Point) -> int:
        """Bytes of the caches when all of a point's sequences have all their tokens."""
        cell, allocator = self.cells[point.cell], self.allocators[point.cell]
        held = footprint(cell, allocator, point.context + self.tokens, rows_of(point.context, self.tokens)).allocated
        return held * (point.concurrency - 1) + whole_sequence(cell, allocator, point.context, self.tokens)

    def fitting(self, cell: int, context: int) -> int | None:
        """How many sequences of a context the budget holds; None without one."""
        if self.budget is None:
            return None
        return fitting(self.cells[cell], self.allocators[cell], context, self.tokens, self.budget)

    def points(self) -> tuple[Point, ...]:
        """Every row of the result: without a limit first, then each policy where the budget is too small for all."""
        found = []
        for cell, context, concurrency in product(range(len(self.cells)), self.contexts, self.concurrencies):
            found.append(Point(cell, context, concurrency, UNLIMITED))
            fits = self.fitting(cell, context)
            if fits is not None and fits < concurrency:
                found += [Point(cell, context, concurrency, policy) for policy in self.policies]
        return tuple(found)

    def launches(self) -> tuple[tuple[int, Point], ...]:
        """(repeat, point) for each process, in the order of processes: every repeat visits all points in its own."""
        points, rng = self.points(), np.random.default_rng([self.seed, 17])
        return tuple(
            (repeat, points[index]) for repeat in range(self.repeats) for index in rng.permutation(len(points))
        )

    def to_json(self) -> dict[str, Any]:
        """The plan as the run file's header holds it."""
        return {
            "contexts": list(self.contexts),
            "concurrencies": list(self.concurrencies),
            "tokens": self.tokens,
            "repeats": self.repeats,
            "budget": self.budget,
            "policies": list(self.policies) if self.budget is not None else [],
            "slice": SLICE,
            "allocators": list(self.allocators),
            "memory": list(self.memory),
            "order": "shuffled",
            "history": "fresh",
            "warmup_s": self.warmup_s,
            "timeout_s": self.timeout_s,
            "simulate": self.simulate,
        }


def parse_policies(texts: Sequence[str], budget: int | None) -> tuple[str, ...]:
    """Read policy names, all of them where none is given; UsageError for unknown ones, and for any without a budget."""
    names = [name.strip() for text in texts for name in text.split(",")]
    for name in names:
        if name not in POLICIES:
            raise UsageError(f"--policy {name} is unknown; choose one of {', '.join(POLICIES)}.")
    if names and budget is None:
        raise UsageError(
            f"--policy {','.join(names)} has nothing to do without a budget; add one, such as --budget 1GiB."
        )
    return tuple(dict.fromkeys(names)) or POLICIES


def device_memory(allocator: str, facts: Mapping[str, Any]) -> int | None:
    """Bytes that an allocator's device has: the first GPU's on CUDA, else the machine's; None if that is not known."""
    if "cuda" in allocator:
        gpus = facts.get("gpus") or [{}]
        mib = gpus[0].get("memory_mib")
        return mib << 20 if isinstance(mib, int) else None
    memory = facts.get("memory_bytes")
    return memory if isinstance(memory, int) else None
