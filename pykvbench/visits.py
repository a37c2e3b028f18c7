"""The visits of a run as columns, and how they grow while a run file streams by."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
SCALARS = ("cell", "sweep", "process", "order", "length", "at", "gap")
MOST = 100_000  # sweeps; arrays of as many rows are made
BEYOND = 2**62  # ns; times and places this large are damage


@dataclass(frozen=True)
class Visits:
    """All visits of a run as columns, in the order of the file; row i is one visit."""

    cell: Ints
    sweep: Ints
    process: Ints
    order: Ints
    length: Ints
    at: Ints  # ns since the run began
    gap: Ints  # ns since the previous visit of the process ended
    first: Ints  # [n, 2] dispatch and total of the first call, ns
    second: Ints  # [n, 2] of the second call
    dispatch: Ints  # [n, K] of the steady samples
    total: Ints  # [n, K] of the steady samples
    error: npt.NDArray[np.float64]  # largest relative error against the reference
    correct: npt.NDArray[np.bool_]
    memory: dict[str, npt.NDArray[np.float64]]  # bytes by counter, NaN where a visit lacks it

    def __len__(self) -> int:
        return len(self.cell)

    def of_cell(self, index: int) -> Visits:
        """The visits of one cell, without a copy where all are."""
        rows = np.flatnonzero(self.cell == index)  # 100 cells: taking is 10 times faster than masking
        if len(rows) == len(self):
            return self
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return Visits(**columns, memory={name: values[rows] for name, values in self.memory.items()})


_COLUMNS = tuple(name for name in Visits.__dataclass_fields__ if name != "memory")


@dataclass(frozen=True)
class Visit:
    """One visit, checked."""

    scalars: list[int]  # in the order of SCALARS
    times: list[int]  # first, second, dispatch and total
    samples: int
    error: float
    correct: bool
    memory: dict[str, float]

    @classmethod
    def from_json(cls, line: Mapping[str, Any], cells: int) -> Visit:
        """Raises KeyError, TypeError, ValueError or OverflowError when the line is not a visit."""
        scalars = [int(line[name]) for name in SCALARS]
        first, second, dispatch, total = (durations(line[name]) for name in ("first", "second", "dispatch", "total"))
        if any(abs(value) >= BEYOND for value in scalars) or not 0 <= scalars[0] < cells or scalars[4] < 1:
            raise ValueError("out of range")
        if not 0 <= scalars[1] < MOST:
            raise ValueError("sweep")
        if len(first) != 2 or len(second) != 2 or not total or len(dispatch) != len(total):
            raise ValueError("samples")
        if not all((first[1], second[1], *total)):
            raise ValueError("samples")
        error = float("nan") if line["error"] is None else float(line["error"])
        memory = {str(name): float(value) for name, value in (line.get("memory") or {}).items()}
        found = [*first, *second, *dispatch, *total]
        return cls(scalars, found, len(total), error, bool(line["correct"]), memory)


def durations(values: list[Any]) -> list[int]:
    """Durations in ns; raises ValueError for what cannot be one."""
    found = [int(value) for value in values]
    if any(not 0 <= value < BEYOND for value in found):
        raise ValueError("not a time")
    return found


@dataclass
class Columns:
    """Grows while the file streams by; machine arrays keep a million visits below a few hundred bytes each."""

    scalars: tuple[array[int], ...] = field(default_factory=lambda: tuple(array("q") for _ in SCALARS))
    first: array[int] = field(default_factory=lambda: array("q"))
    second: array[int] = field(default_factory=lambda: array("q"))
    dispatch: array[int] = field(default_factory=lambda: array("q"))
    total: array[int] = field(default_factory=lambda: array("q"))
    error: array[float] = field(default_factory=lambda: array("d"))
    correct: array[int] = field(default_factory=lambda: array("b"))
    memory: dict[str, array[float]] = field(default_factory=dict)
    samples: int = 0  # of every visit, as many as the first has

    def add(self, visit: Visit) -> None:
        """Append one visit; raises ValueError when it has not as many samples as those before it."""
        if visit.samples != (self.samples or visit.samples):
            raise ValueError("samples")
        self.samples = visit.samples
        block = np.array([[*visit.scalars, *visit.times]], dtype=np.int64)
        memory = {name: np.array([value]) for name, value in visit.memory.items()}
        self.extend(block, np.array([visit.error]), np.array([visit.correct]), memory)

    def extend(
        self,
        block: Ints,
        error: npt.NDArray[np.float64],
        correct: npt.NDArray[np.bool_],
        memory: Mapping[str, npt.NDArray[np.float64]],
    ) -> None:
        """Append visits: [n, SCALARS and times] and [n] each."""
        before, count, width = len(self.error), len(block), len(SCALARS)
        for column, values in zip(self.scalars, block.T):
            column.frombytes(values.tobytes())
        for spans in (self.first, self.second, self.dispatch, self.total):
            size = 2 if spans is self.first or spans is self.second else self.samples
            spans.frombytes(block[:, width : width + size].tobytes())
            width += size
        self.error.frombytes(error.tobytes())
        self.correct.frombytes(correct.tobytes())
        for name in memory.keys() - self.memory.keys():
            self.memory[name] = array("d", np.full(before, np.nan).tobytes())
        for name, counter in self.memory.items():
            counter.frombytes((memory[name] if name in memory else np.full(count, np.nan)).tobytes())

    def visits(self) -> Visits:
        """The columns as arrays, which share their memory."""
        samples = self.samples or 1
        return Visits(
            **{name: np.asarray(column, dtype=np.int64) for name, column in zip(SCALARS, self.scalars)},
            first=np.asarray(self.first, dtype=np.int64).reshape(-1, 2),
            second=np.asarray(self.second, dtype=np.int64).reshape(-1, 2),
            dispatch=np.asarray(self.dispatch, dtype=np.int64).reshape(-1, samples),
            total=np.asarray(self.total, dtype=np.int64).reshape(-1, samples),
            error=np.asarray(self.error, dtype=np.float64),
            correct=np.asarray(self.correct, dtype=np.int8).astype(np.bool_),
            memory={name: np.asarray(column, dtype=np.float64) for name, column in self.memory.items()},
        )
