"""Findings about processes rather than lengths: slow in some of them at some lengths, or slow in some throughout."""

from __future__ import annotations

import numpy as np

from pykvbench.analysis.finding import Finding, Floats, Ints
from pykvbench.analysis.levels import slow_processes
from pykvbench.analysis.sentences import times
from pykvbench.analysis.votes import Bools, run_length_needed, runs


def intermittent_findings(
    grid: Ints, above: Floats, votes: Bools, present: Bools, p: Floats, marked: Bools, alpha: float
) -> list[Finding]:
    """Lengths already `marked`, and whole ranges within single sweeps, that are slow in some processes only.

    above: [S, n] log excess of visits; votes, present: [S, n], without the lengths found slow in every sweep; p: [n].
    """
    sweeps, n = votes.shape
    marked = marked.copy()
    for row in votes:
        rate = (row.sum() + 1.0) / (n + 2.0)
        spans = runs(row)
        spans = spans[spans[:, 1] - spans[:, 0] + 1 >= run_length_needed(n, float(rate), sweeps, alpha)]
        for first, last in spans.tolist():
            marked[first : last + 1] = True
    findings = []
    for first, last in runs(marked).tolist():
        part, there = votes[:, first : last + 1], present[:, first : last + 1]
        slow = int((part.sum(axis=1) * 2 > there.sum(axis=1)).sum())
        seen = int(there.any(axis=1).sum())
        ratio = float(np.exp(np.median(above[:, first : last + 1][part])))
        lengths = (int(grid[first]), int(grid[last]))
        what = f"length {lengths[0]} costs" if first == last else f"lengths {lengths[0]} to {lengths[1]} cost"
        note = (
            f"{what} {times(ratio)} the baseline in {slow} of {seen} sweeps and the ordinary cost in the others: some "
            "processes are slow there; more sweeps say how many."
        )
        chance = min(float(p[first : last + 1].min()), alpha)  # a run of adjacent votes was found at alpha or less
        findings.append(Finding("intermittent", lengths, ratio, f"{slow}/{seen}", chance, "confirmed", note))
    return findings


def slow_process_findings(grid: Ints, levels: Floats) -> list[Finding]:
    """One finding over the range if the processes' log levels fall into two groups; `apparent`, for want of a p."""
    split = slow_processes(levels)
    if split is None:
        return []
    count, ratio = split
    note = (
        f"{count} of {len(levels)} processes cost {times(ratio)} the others at all lengths: a slower kernel in some "
        "processes, or a busy machine; this was taken out before lengths were compared, and more sweeps say which."
    )
    lengths, votes = (int(grid[0]), int(grid[-1])), f"{count}/{len(levels)}"
    return [Finding("intermittent", lengths, ratio, votes, None, "apparent", note)]
