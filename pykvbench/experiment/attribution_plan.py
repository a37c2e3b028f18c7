"""Which contrasts are measured of the findings of one cell: processes, variants, lengths and their shuffled order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pykvbench.cell import Cell
from pykvbench.drivers.availability import availability
from pykvbench.drivers.parts import names_of
from pykvbench.target import Target

PROCESSES = 5
PROCESSES_INTERMITTENT = 9  # of a fault in every third process, 5 would see 1 or 2
PROCESSES_ELSEWHERE = 2  # on another backend: whether it has the excess at all
ROUNDS = 5
SAMPLES = 3
WARMUP_S = 0.3
LIMIT_S = 2.0  # of a process, after LEAST_ROUNDS; with a torch import each, 5 processes stay near 20 s
WHOLE = "whole"
_ELSEWHERE = {
    "cpu": ("mlx-cpu",),
    "mlx-cpu": ("cpu",),
    "mps": ("cpu", "mlx"),
    "cuda": ("cpu",),
    "mlx": ("mps", "mlx-cpu"),
    "simulated": (),
}


@dataclass(frozen=True)
class Launch:
    """One process: the cell it measures, what it calls its whole step, and whether parts and variants come along."""

    cell: Cell
    whole: str
    parts: bool


@dataclass(frozen=True)
class ContrastPlan:
    """All contrasts of one cell's targets, which share their processes."""

    index: int  # of the cell in the run
    cell: Cell
    targets: tuple[Target, ...]
    capacity: int
    seed: int

    @property
    def lengths(self) -> tuple[int, ...]:
        """Every length that is visited, rising."""
        return tuple(sorted({length for one in self.targets for length in (*one.flagged, *one.controls)}))

    @property
    def near(self) -> tuple[int, ...]:
        """The lengths at which parts and variants are visited."""
        return tuple(sorted({length for one in self.targets for length in (*one.flagged, *one.near)}))

    @property
    def warmup_length(self) -> int:
        """A length that is not visited, so that no first visit is used up."""
        return self.lengths[0] - 1 if self.lengths[0] > 1 else self.lengths[-1] + 1

    def launches(self) -> tuple[Launch, ...]:
        """The processes in their order; those on other backends come between the cell's own."""
        intermittent = any(target.kind == "intermittent" for target in self.targets)
        own = [Launch(self.cell, WHOLE, True)] * (PROCESSES_INTERMITTENT if intermittent else PROCESSES)
        others = [
            Launch(replace(self.cell, backend=backend), f"backend:{backend}", False)
            for backend in _ELSEWHERE[self.cell.backend]
            if not self.cell.build and availability(backend).available
            for _ in range(PROCESSES_ELSEWHERE)
        ]
        for place, launch in enumerate(others):
            own.insert(2 * place + 1, launch)
        return tuple(own)

    def others(self) -> dict[str, dict[str, Any]]:
        """Cells that differ in one thing and run under the same framework, with the capacity of their buffers."""
        shape = self.cell.geometry
        dtype = "float16" if shape.dtype == "float32" else "float32"
        layers = 1 if shape.num_layers > 1 else 2
        made = {
            f"dtype:{dtype}": replace(self.cell, geometry=replace(shape, dtype=dtype)),
            f"layers:{layers}": replace(self.cell, geometry=replace(shape, num_layers=layers)),
        }
        if self.cell.cache != "prealloc":
            made["cache:prealloc"] = replace(self.cell, cache="prealloc")
        found = {name: {"cell": cell.to_json(), "capacity": self.capacity} for name, cell in made.items()}
        if self.cell.cache == "prealloc":
            found["capacity:other"] = {"cell": self.cell.to_json(), "capacity": self.capacity + 64}
        return found

    def variants(self, launch: Launch) -> tuple[str, ...]:
        """What a process visits beside its whole step."""
        return (*names_of(self.cell), *self.others()) if launch.parts else ()

    def items(self, launch: Launch, process: int) -> list[dict[str, Any]]:
        """The visits of a process: every round in a fresh order; in the first, whole steps come before all else.

        A first call of the whole step is then one, and not a call after a part has met the length.
        """
        rng = np.random.default_rng([self.seed, process, 5])
        items: list[dict[str, Any]] = []
        row = {length: index for index, length in enumerate(self.lengths)}
        for number in range(ROUNDS):
            whole = [(launch.whole, length) for length in self.lengths]
            rest = [(name, length) for name in self.variants(launch) for length in self.near]
            groups = (whole, rest) if number == 0 else (whole + rest,)
            for group in groups:
                for place in rng.permutation(len(group)):
                    name, length = group[place]
                    visit = {"variant": name, "length": length, "row": row[length], "round": number}
                    items.append({**visit, "order": len(items)})
        return items


def plans(cells: Sequence[Cell], targets: Sequence[Target], capacity: int, seed: int) -> tuple[ContrastPlan, ...]:
    """One plan for each cell that has targets."""
    return tuple(
        ContrastPlan(index, cell, mine, capacity, seed)
        for index, cell in enumerate(cells)
        if (mine := tuple(target for target in targets if target.cell == index))
    )
