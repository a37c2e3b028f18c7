"""The report of a run that found no slow length: what was covered, and the smallest effect that it could have seen."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pykvbench.analysis.finding import CellResult, Result
from pykvbench.record import Run
from pykvbench.report import numbers, sentence
from pykvbench.report.foreign import code, plain
from pykvbench.report.versions import versions


def render(run: Run, result: Result) -> str:
    """A negative report, fit to be pasted under an issue that claims the opposite; it says which cells cannot tell."""
    return "\n".join(_lines(run, result)).rstrip() + "\n"


def headline(run: Run, result: Result) -> str:
    """Its first line."""
    resolved = [cell for cell in result.cells if cell.verdict == "smooth" and cell.limit_of_detection is not None]
    if any(cell.backend == "simulated" for cell in run.cells):
        return "**Simulated device: a demonstration.** These times are programmed, not measured on hardware."
    if len(resolved) < len(result.cells) or not resolved:
        return "**No finding, and this run cannot tell**: see the cells that are unresolved."
    limit = max(cell.limit_of_detection or 1.0 for cell in resolved)
    return f"**No slow length found**: no length costs {numbers.ratio(limit)} of what a longer one costs, or more."


def _lines(run: Run, result: Result) -> Iterator[str]:
    yield headline(run, result)
    yield ""
    yield "### What was covered"
    yield ""
    yield "| cell | shape | lengths | sweeps x samples | verdict | smallest excess to be confirmed | smallest p |"
    yield "|---|---|---|--:|---|--:|--:|"
    for index, cell in enumerate(result.cells):
        yield _row(run, index, cell)
    yield ""
    yield (
        "Every sweep visited all lengths in its own shuffled order in a fresh process; every visit's output was "
        f"compared with a float64 reference ({int((~run.visits.correct).sum())} of {len(run.visits)} visits wrong). An "
        "excess below the limit would not have been seen, nor one that slows every length or goes on to the last one."
    )
    yield ""
    yield "### What each cell says"
    yield ""
    for cell in result.cells:
        yield f"- {code(cell.cell)}: {plain(sentence.verdict(cell))} {sentence.limit(cell)}"
        for finding in cell.findings:
            yield f"  - beside it: {plain(sentence.finding(finding))}"
        yield from (f"  - note: {plain(note)}" for note in cell.notes)
    yield from (f"- note: {plain(note)}" for note in result.notes)
    yield ""
    yield "### Versions"
    for index, cell in enumerate(result.cells):
        yield ""
        yield f"{code(cell.cell)}:"
        yield ""
        yield from versions(run, index)
    yield ""
    yield "Measured and filled in by pykvbench, a program. Reporter: name here every other tool, AI included, you used."


def _row(run: Run, index: int, cell: CellResult) -> str:
    lengths, shape = cell.curve.lengths, run.cells[index].geometry
    visits = run.visits.of_cell(index)
    span = f"{len(lengths)} from {lengths[0]} to {lengths[-1]}" if len(lengths) else "none"
    counts = f"{len(np.unique(visits.sweep))} x {visits.total.shape[1]}" if len(visits) else "0"
    limit = numbers.ratio(cell.limit_of_detection) if cell.limit_of_detection is not None else "none"
    columns = (
        code(cell.cell),
        sentence.geometry(shape),
        span,
        counts,
        cell.verdict,
        limit,
        numbers.p_value(cell.smallest_p),
    )
    return f"| {' | '.join(columns)} |"
