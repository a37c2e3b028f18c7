"""Reuse runs against each other: recomputing against each tier and cell against cell, or before against after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from pykvbench.analysis import fairness
from pykvbench.analysis.comparison import Comparison, Side, compare
from pykvbench.analysis.finding import CellResult, Curve
from pykvbench.analysis.pairs import Named, Report, counterpart, names_of, refuse_unless
from pykvbench.analysis.reuse import analyze_reuse, curve_of
from pykvbench.analysis.reuse_table import RECOMPUTE, TIERS
from pykvbench.errors import UsageError
from pykvbench.record import Run

_WORDS = "Here a length is that of a prompt, the time is that to its first token, and a sweep is a repeat."


def compare_reuse(named: Sequence[Named], anyway: bool = False) -> Report:
    """Within one run each tier against recomputing, and cell against cell; across runs each cell and tier with its own.

    Raises UsageError when the runs are not all of `reuse`, when their times cannot be compared (unless `anyway`), and
    when they have nothing in common.
    """
    if not all(item.run.is_reuse for item in named):
        raise UsageError("A run of `pykvbench reuse` can only be compared with another; name runs of one command.")
    results = [analyze_reuse(item.run).cells for item in named]
    found: list[Comparison] = []
    notes = [_WORDS]
    first = named[0].run
    if len(named) == 1:
        for index, known in enumerate(results[0]):
            whole = (first, index, known, known.cell)
            found += [one for tier in TIERS for one in _pair((whole, RECOMPUTE), (whole, tier))]
        for pair in combinations(range(len(first.cells)), 2):
            one, other = ((first, index, results[0][index], results[0][index].cell) for index in pair)
            found += [made for tier in (RECOMPUTE, *TIERS) for made in _pair((one, tier), (other, tier))]
        return _report(found, (), notes)
    names = names_of(named)
    for index, cell in enumerate(first.cells):
        for item, result, name in zip(named[1:], results[1:], names[1:]):
            twin = counterpart(first, index, item.run)
            if twin is None:
                notes.append(f"{name} has no cell {cell.label}.")
                continue
            chunks = fairness.Difference("chunk", first.plan.get("chunk"), item.run.plan.get("chunk"))
            differing = fairness.unlike(first, item.run, (index, twin))
            differing = (*differing, *((chunks,) if chunks.first != chunks.second else ()))
            notes += refuse_unless(anyway, differing, (names[0], name))
            before = (first, index, results[0][index], f"{cell.label}, {names[0]}")
            after = (item.run, twin, result[twin], f"{item.run.cells[twin].label}, {name}")
            found += [made for tier in (RECOMPUTE, *TIERS) for made in _pair((before, tier), (after, tier))]
    return _report(found, names, notes)


_Named = tuple[Run, int, CellResult, str]


def _report(found: Sequence[Comparison], names: tuple[str, ...], notes: Sequence[str]) -> Report:
    if not found:
        told = " ".join(notes[1:])
        raise UsageError(f"The runs have no prompt that both measured. {told} Measure the same lengths and tiers.")
    return Report(tuple(found), names, (), tuple(dict.fromkeys(notes)))


def _pair(first: tuple[_Named, str], second: tuple[_Named, str]) -> Iterable[Comparison]:
    """One comparison over the lengths that both have, if there are any."""
    curves = [curve_of(result.reuse, tier) for (_, _, result, _), tier in (first, second) if result.reuse is not None]
    if len(curves) < 2:
        return
    both = np.intersect1d(curves[0].lengths, curves[1].lengths)
    if not len(both):
        return
    sides = [
        _side(f"{name}, {tier}", result, curve, both)
        for ((_, _, result, name), tier), curve in zip((first, second), curves)
    ]
    runs, pair = (first[0][0], second[0][0]), (first[0][1], second[0][1])
    paired = runs[0] is runs[1] and sides[0].sweeps_ns.shape == sides[1].sweeps_ns.shape
    yield compare(sides[0], sides[1], paired, fairness.shown(*runs, pair))


def _side(name: str, result: CellResult, curve: Curve, lengths: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Side:
    at = np.searchsorted(curve.lengths, lengths)
    sweeps, median = curve.sweeps_ns[:, at], curve.median_ns[at]
    same = Curve(lengths, sweeps, median, curve.baseline_ns[at], None, None)
    return Side(
        name=name,
        result=CellResult(name, result.verdict, (), None, None, (), same),
        median_ns=median,
        sweeps_ns=sweeps,
        rates=np.full(len(lengths), np.nan),
        ceiling=None,
        memory={},
    )
