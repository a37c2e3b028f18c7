"""From a run file to its result: each cell's curve, findings, verdict and what it could not tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from pykvbench.analysis import spikes
from pykvbench.analysis.attribution import with_causes
from pykvbench.analysis.ceiling import ceiling_of, too_fast
from pykvbench.analysis.finding import CellResult, Curve, Finding, Floats, Ints, Result
from pykvbench.analysis.growth import growth_findings
from pykvbench.dispatch.environment import environment_of_cell
from pykvbench.dispatch.landmarks import coincidence, landmarks
from pykvbench.dispatch.route import Landmark
from pykvbench.record import Run, Visits

SLOW_HARNESS = 1e-3  # clock and call overhead above this share of a step is worth a note
STANDSTILL_NS = 1e9  # between two visits; preparing one takes about as long as the one before took
BLIND = 2.0  # a run that could not have seen a length cost twice as much is no evidence of smoothness


def analyze_run(run: Run, min_ratio: float = 1.10) -> Result:
    """Everything an `attn` run says, cell by cell; notes say what was lost and what may have disturbed it."""
    cells = tuple(
        _analyze_cell(cell.label, run.visits.of_cell(index), run, index, min_ratio)
        for index, cell in enumerate(run.cells)
    )
    return with_causes(run, Result(cells, (*run.notes, *_run_notes(run))))


def _analyze_cell(label: str, visits: Visits, run: Run, index: int, min_ratio: float) -> CellResult:
    planned = int(run.plan.get("sweeps", 0) or 0)
    if not len(visits):
        empty = np.zeros(0)
        curve = Curve(empty.astype(np.int64), np.zeros((0, 0)), empty, empty, None, None)
        return CellResult(
            label, "unresolved", (), None, None, (f"{label}: no visit was completed, so nothing can be said.",), curve
        )
    right = visits.correct
    lengths = np.unique(visits.length)
    total = np.median(visits.total, axis=1)
    grid = _Grid(visits, lengths, max(planned, int(visits.sweep.max()) + 1))
    sweeps_ns = grid.fill(np.where(right, total, np.nan))  # a wrong result's time is not a time of the right work
    process = grid.fill(visits.process.astype(np.float64))
    first_ns = grid.fill(visits.first[:, 1].astype(np.float64))
    order = grid.fill(visits.order.astype(np.float64))
    detection = spikes.detect(lengths, sweeps_ns, process=process, order=order, min_ratio=min_ratio)
    findings = (
        *_wrong_results(visits, lengths),
        *detection.findings,
        *spikes.first_visits(lengths, first_ns, sweeps_ns),
        *growth_findings(visits),
    )
    verdict, notes = detection.verdict, list(detection.notes)
    limit = detection.limit_of_detection
    if verdict == "smooth" and limit is not None and limit > BLIND:
        verdict = "unresolved"
        notes.append(
            f"too noisy to tell: an excess below {limit:.1f}x could not have been seen; "
            "close other programs and run again."
        )
    if verdict == "smooth" and not right.all():
        verdict = "unresolved"
    known = landmarks(run.cells[index], environment_of_cell(run, index), int(lengths[0]), int(lengths[-1]))
    curve = Curve(
        lengths=lengths,
        sweeps_ns=sweeps_ns,
        median_ns=detection.median_ns,
        baseline_ns=detection.baseline_ns,
        first_ns=_nanmedian(first_ns),
        dispatch_ns=_nanmedian(grid.fill(np.median(visits.dispatch, axis=1))),
    )
    ceiling = ceiling_of(run, index)
    if ceiling is not None and (error := too_fast(curve, run.cells[index].geometry, ceiling)):
        notes.append(error)
        verdict = "unresolved" if verdict == "smooth" else verdict
    return CellResult(
        cell=label,
        verdict=verdict,
        findings=tuple(replace(_beside(finding, known), cell=label) for finding in findings),
        limit_of_detection=detection.limit_of_detection,
        smallest_p=detection.smallest_p,
        notes=tuple(f"{label}: {note}" for note in (*notes, *_missing(run, index, visits))),
        curve=curve,
    )


class _Grid:
    """Puts per-visit values onto sweeps x lengths, NaN where a visit is missing; of repeated visits the last stands."""

    def __init__(self, visits: Visits, lengths: Ints, sweeps: int) -> None:
        self.shape = (sweeps, len(lengths))
        self.rows = visits.sweep
        self.columns = np.searchsorted(lengths, visits.length)

    def fill(self, values: Floats) -> Floats:
        grid = np.full(self.shape, np.nan)
        grid[self.rows, self.columns] = values
        return grid


def _nanmedian(grid: Floats) -> Floats:
    """Median over sweeps; NaN without a warning where no sweep has the length."""
    median = np.full(grid.shape[1], np.nan)
    seen = ~np.isnan(grid).all(axis=0)
    median[seen] = np.nanmedian(grid[:, seen], axis=0)
    return median


def _wrong_results(visits: Visits, lengths: Ints) -> Iterable[Finding]:
    """One finding for each stretch of adjacent lengths at which any visit's output differed from the reference."""
    wrong = np.unique(visits.length[~visits.correct])
    places = np.searchsorted(lengths, wrong)
    for stretch in np.split(wrong, np.flatnonzero(np.diff(places) > 1) + 1):
        if not len(stretch):
            continue
        here = np.isin(visits.length, stretch)
        failed = here & ~visits.correct
        errors = visits.error[failed]
        worst = "not a number" if np.isnan(errors).any() else f"off by {errors.max():.2g} of its size"
        where = f"L = {stretch[0]}" if len(stretch) == 1 else f"L = {stretch[0]} to {stretch[-1]}"
        yield Finding(
            kind="wrong-result",
            lengths=(int(stretch[0]), int(stretch[-1])),
            ratio=None,
            votes=f"{len(np.unique(visits.sweep[failed]))}/{len(np.unique(visits.sweep[here]))}",
            p=None,
            confidence="confirmed",
            note=f"The output at {where} is {worst} against the float64 reference: "
            "its times are of wrong work and are left out.",
        )


def _beside(finding: Finding, known: Sequence[Landmark]) -> Finding:
    """The finding with the landmark it stands next to named in its note."""
    near = coincidence(finding.lengths, known) if finding.kind not in ("wrong-result", "memory-growth") else None
    return replace(finding, note=f"{finding.note} It {near}.") if near else finding


def _missing(run: Run, index: int, visits: Visits) -> Iterable[str]:
    planned = int(run.plan.get("sweeps", 0) or 0)
    sweeps = len(np.unique(visits.sweep))
    if sweeps < planned:
        yield f"{sweeps} of {planned} sweeps were measured."
    lost = sorted(
        {
            int(event["length"])
            for event in run.events
            if event.get("cell") == index and isinstance(event.get("length"), int) and event["event"] in LOSSES
        }
    )
    if lost:
        named = ", ".join(f"L = {length}" for length in lost[:8])
        yield f"visits were lost at {named}{' and others' if len(lost) > 8 else ''}."


LOSSES = ("crashed", "hung", "out-of-memory", "failed")


def _standstills(visits: Visits) -> Iterable[str]:
    """A process that was stopped, or starved, or slept: what it measures next may be of another state."""
    if not len(visits):
        return
    still = visits.gap > max(STANDSTILL_NS, 20 * float(np.median(visits.gap)))
    if still.any():
        times = "once" if still.sum() == 1 else f"{still.sum()} times"
        longest = int(np.argmax(visits.gap))
        yield (
            f"The run stood still {times} between two visits, longest for {visits.gap[longest] / 1e9:.1f} s before "
            f"L = {visits.length[longest]}: it was stopped or starved."
        )


def _run_notes(run: Run) -> Iterable[str]:
    """What may have disturbed the run as a whole."""
    yield from (str(note) for note in run.header.get("notes") or ())
    if run.plan.get("simulate") is not None or any(cell.backend == "simulated" for cell in run.cells):
        yield "Simulated device: these times are programmed, not measured on hardware."
    if injected := run.plan.get("inject"):
        where = ", ".join(str(text) for text in injected)
        yield f"Extra work was injected on purpose at {where}: this run is a test of the instrument."
    yield from _standstills(run.visits)
    clock = run.header.get("clock") or {}
    overhead = clock.get("overhead_ns")
    if isinstance(overhead, (int, float)) and len(run.visits):
        share = 3 * overhead / float(np.median(run.visits.total))
        if share > SLOW_HARNESS:
            yield f"The clock costs {share:.1%} of a step; use more layers or longer lengths."
