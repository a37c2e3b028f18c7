"""The trajectories of a decode run as arrays: one arm for each prompt of a cell.

A damaged line is left out with a note. A trajectory that died keeps its steps and counts for lengths, not for totals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pykvbench.analysis.finding import Floats, Ints
from pykvbench.analysis.votes import Bools
from pykvbench.record import Run

LONGEST = 1 << 24  # steps; a line that claims more is damaged


@dataclass(frozen=True)
class Arm:
    """All trajectories of one cell after one prompt; [t, s] is step s + 1 of one, at KV length prompt + s + 1."""

    prompt: int
    budget: Ints  # [T]
    repeat: Ints  # [T]
    process: Ints  # [T]
    order: Ints  # [T] position in the run
    at_ns: Ints  # [T] when step 1 began, since the run began
    ns: Floats  # [T, n], NaN beyond a trajectory's last step
    dispatch_ns: Floats  # [T, n]
    memory: dict[str, Floats]  # bytes by counter, [T, n]
    complete: Bools  # [T]
    first_visit: Bools  # [T, n] whether the process had never been at this length before

    def __len__(self) -> int:
        return len(self.budget)

    @property
    def lengths(self) -> Ints:
        """KV length of each column: [n]."""
        return self.prompt + 1 + np.arange(self.ns.shape[1], dtype=np.int64)

    @property
    def steps(self) -> Ints:
        """How many steps each trajectory made: [T]."""
        return np.asarray((~np.isnan(self.ns)).sum(axis=1), dtype=np.int64)

    @property
    def total_ns(self) -> Floats:
        """What each trajectory took, NaN where it died: [T]."""
        return np.where(self.complete, np.nansum(self.ns, axis=1), np.nan)

    @property
    def middle_ns(self) -> Floats:
        """The middle of each trajectory in the time of the run: [T]."""
        return np.asarray(self.at_ns + np.nansum(self.ns, axis=1) / 2)


@dataclass(frozen=True)
class _Line:
    cell: int
    prompt: int
    budget: int
    repeat: int
    process: int
    order: int
    at: int
    total: Floats
    dispatch: Floats
    memory: dict[str, Floats]
    complete: bool
    correct: bool
    first_visit: Bools


def read_arms(run: Run, index: int) -> tuple[list[Arm], int, tuple[str, ...]]:
    """The arms of one cell by rising prompt, how many trajectories gave wrong results, and notes on what was lost."""
    lines: list[_Line] = []
    damaged = 0
    for value in run.trajectories:
        try:
            line = _read(value)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
            damaged += 1
            continue
        if not 0 <= line.cell < len(run.cells):
            damaged += 1
        elif line.cell == index:
            lines.append(line)
    lines = _visited(lines)
    right = [line for line in lines if line.correct]
    kept = [line for line in right if len(line.total)]
    arms = [
        _stack(prompt, [line for line in kept if line.prompt == prompt])
        for prompt in sorted({line.prompt for line in kept})
    ]
    died = [line for line in right if not line.complete]
    return arms, len(lines) - len(right), _notes(damaged if index == 0 else 0, died)


def _read(value: Mapping[str, Any]) -> _Line:
    names = ("cell", "prompt", "budget", "repeat", "process", "order", "at")
    numbers = {name: int(value[name]) for name in names}
    total, dispatch = (np.array(value[name], dtype=np.float64).reshape(-1) for name in ("total", "dispatch"))
    steps, budget = len(total), numbers["budget"]
    if not 1 <= budget <= LONGEST or not 0 <= numbers["prompt"] <= LONGEST or steps > budget or len(dispatch) != steps:
        raise ValueError("out of range")
    if any(abs(number) >= 2**62 for number in numbers.values()) or not (np.isfinite(total) & (total > 0)).all():
        raise ValueError("not a time")
    memory = {
        str(name): np.array(counts, dtype=np.float64)
        for name, counts in (value.get("memory") or {}).items()
        if len(counts) == steps
    }
    complete = bool(value["complete"]) and steps == budget
    correct = value["correct"] is not False  # null where the body has no reference, or died before it was compared
    return _Line(**numbers, total=total, dispatch=dispatch, memory=memory, complete=complete, correct=correct,
                 first_visit=np.ones(steps, dtype=np.bool_))  # fmt: skip


def _visited(lines: list[_Line]) -> list[_Line]:
    """The lines in the order of the run, each with which of its steps came to a length for the process's first time."""
    seen: dict[int, Bools] = {}
    reach = max((line.prompt + line.budget + 1 for line in lines), default=0)
    ordered = []
    for line in sorted(lines, key=lambda line: line.order):
        known = seen.setdefault(line.process, np.zeros(reach, dtype=np.bool_))
        here = slice(line.prompt + 1, line.prompt + 1 + len(line.total))
        ordered.append(replace(line, first_visit=~known[here]))
        known[here] = True
    return ordered


def _stack(prompt: int, lines: list[_Line]) -> Arm:
    shape = (len(lines), max(len(line.total) for line in lines))

    def fill(rows: list[Floats]) -> Floats:
        grid = np.full(shape, np.nan)
        for target, row in zip(grid, rows, strict=True):
            target[: len(row)] = row
        return grid

    counters = sorted({name for line in lines for name in line.memory})
    none = np.zeros(0)
    first = fill([line.first_visit.astype(np.float64) for line in lines]) == 1.0
    return Arm(
        prompt=prompt,
        budget=np.array([line.budget for line in lines], dtype=np.int64),
        repeat=np.array([line.repeat for line in lines], dtype=np.int64),
        process=np.array([line.process for line in lines], dtype=np.int64),
        order=np.array([line.order for line in lines], dtype=np.int64),
        at_ns=np.array([line.at for line in lines], dtype=np.int64),
        ns=fill([line.total for line in lines]),
        dispatch_ns=fill([line.dispatch for line in lines]),
        memory={name: fill([line.memory.get(name, none) for line in lines]) for name in counters},
        complete=np.array([line.complete for line in lines], dtype=np.bool_),
        first_visit=first,
    )


def _notes(damaged: int, died: list[_Line]) -> tuple[str, ...]:
    notes: tuple[str, ...] = ()
    if damaged:
        some = "1 damaged trajectory is" if damaged == 1 else f"{damaged} damaged trajectories are"
        notes += (f"{some} left out.",)
    if died:
        some = "1 trajectory" if len(died) == 1 else f"{len(died)} trajectories"
        where = "; ".join(f"budget {line.budget} after {len(line.total)} steps" for line in died[:4])
        more = f"; and {len(died) - 4} more" if len(died) > 4 else ""
        notes += (f"{some} died before the end ({where}{more}); the steps made are kept, totals leave them out.",)
    return notes
