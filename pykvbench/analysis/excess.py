"""By how much the flagged lengths cost more than their neighbours, in each process that contrasted them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

import numpy as np

from pykvbench.analysis.finding import Floats
from pykvbench.target import REACH, Target

Line = Mapping[str, Any]
Times = dict[tuple[str, int, int], list[float]]  # (variant, process, length) -> its samples over all rounds

# Two-sided 95 % points of Student's t for 1 to 9 degrees of freedom.
_STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)


@dataclass(frozen=True)
class Excess:
    """One variant in the processes that measured it; arrays run over them."""

    processes: tuple[int, ...]
    flagged_ns: Floats
    control_ns: Floats
    noise: Floats  # log spread of one neighbour around the others

    @property
    def ns(self) -> Floats:
        """What the flagged lengths cost more than their neighbours."""
        return self.flagged_ns - self.control_ns

    @property
    def ratio(self) -> Floats:
        """How many times as much they cost."""
        return self.flagged_ns / self.control_ns

    def only(self, processes: Iterable[int]) -> Excess:
        """The same in some of the processes."""
        wanted = set(processes)
        rows = [row for row, process in enumerate(self.processes) if process in wanted]
        chosen = tuple(self.processes[row] for row in rows)
        return Excess(chosen, self.flagged_ns[rows], self.control_ns[rows], self.noise[rows])


def steady(line: Line) -> float:
    """The median of the steady samples, ns."""
    return float(median(line["total"]))  # numpy's median takes 20 us for these few values


def steady_dispatch(line: Line) -> float:
    """The median host time until the steady calls returned, ns."""
    return float(median(line["dispatch"]))


def samples(line: Line) -> Sequence[float]:
    """The steady samples, ns."""
    return list(line["total"])


def first(line: Line) -> float:
    """The first call of the visit, ns."""
    return float(line["first"][1])


def collect(lines: Iterable[Line], values: Callable[[Line], Sequence[float]], rounds: range | None = None) -> Times:
    """The values of all lines by variant, process and length."""
    times: Times = defaultdict(list)
    for line in lines:
        if rounds is None or line["round"] in rounds:
            times[line["variant"], line["process"], line["length"]].extend(values(line))
    return times


def excess(times: Times, variant: str, target: Target, controls_of: str | None = None) -> Excess | None:
    """Flagged against neighbours in every process that has both; `controls_of` takes the neighbours' times elsewhere.

    The whole step is visited at all neighbours, the rest at the near ones only. None where no process has both.
    """
    base = controls_of or variant
    neighbours = target.controls if base == "whole" else target.near
    rows = []
    for process in sorted({process for name, process, _ in times if name == variant}):
        near = {n: _quiet(times[base, process, n]) for n in neighbours if (base, process, n) in times}
        flagged = {n: _quiet(times[variant, process, n]) for n in target.flagged if (variant, process, n) in times}
        if not flagged or not near:
            continue
        # Each flagged length against its own neighbours: teeth of a comb may be far apart.
        around = [_around(length, near) for length in flagged]
        controls, spread = mean(median(group) for group in around), median(_spread(group) for group in around)
        rows.append((process, mean(flagged.values()), controls, spread))
    if not rows:
        return None
    columns = [np.array(column, dtype=np.float64) for column in list(zip(*rows, strict=True))[1:]]
    return Excess(tuple(row[0] for row in rows), *columns)


def _around(length: int, near: Mapping[int, float]) -> list[float]:
    """The times of the neighbours within reach of a length, or of all where none is: beside a step's edge."""
    return [ns for other, ns in near.items() if abs(other - length) <= REACH] or list(near.values())


def interval(values: Sequence[float] | Floats) -> tuple[float, float]:
    """A 95 % interval of the mean over processes: Student's for 3 or more, their range for fewer."""
    n = len(values)
    if n < 3:
        return float(min(values)), float(max(values))
    half = _STUDENT[min(n - 2, len(_STUDENT) - 1)] * float(np.std(values, ddof=1)) / math.sqrt(n)
    centre = float(np.mean(values))
    return centre - half, centre + half


def _quiet(samples: Sequence[float]) -> float:
    """The lower quartile: others on the machine can only add, and a slow length is slow in every sample."""
    ordered = sorted(samples)
    below, part = divmod(0.25 * (len(ordered) - 1), 1)
    low, high = ordered[int(below)], ordered[min(int(below) + 1, len(ordered) - 1)]
    return low + part * (high - low)


def _spread(near: Sequence[float]) -> float:
    """How far one neighbour lies from the others, as a log: what an excess must clear to be one."""
    if len(near) < 2:
        return 0.0
    logs = [math.log(max(ns, 1.0)) for ns in near]
    centre = median(logs)
    return 1.4826 * median(abs(log - centre) for log in logs)
