"""Apparent findings along x in one pass: first calls, spikes, regimes, teeth and steps, by the rules of `series`."""

from __future__ import annotations

import numpy as np

from pykvbench.analysis import sentences
from pykvbench.analysis.envelope import GROWTH, smooth, suffix_minimum
from pykvbench.analysis.finding import Finding, Floats, Ints
from pykvbench.analysis.shapes import Shape, name_stretches, rises, stretches, teeth

JITTER = 1.30  # drops below this between neighbours count as noise; rises must exceed cubic growth by this
TILE = 2.05  # rises up to 2x may be the edge of the first tile: cost in whole tiles doubles there and less later on
FIRST = 2.0  # what a first call must cost to be told from an ordinary warm-up


def apparent_findings(x: Ints, curve: Floats, threshold: float, from_start: bool) -> list[Finding]:
    """Everything that stands out of log costs `curve` over rising x by `threshold` or more.

    `from_start` says that the smallest x may have been measured first.
    """
    smoothed = smooth(x, curve)
    findings: list[Finding] = []
    breaks: tuple[int, ...] = ()
    skip = 0
    while True:
        baseline = suffix_minimum(smoothed, breaks)
        excess = curve - baseline
        excess[:skip] = 0.0
        flagged = excess >= threshold - 1e-9
        found = stretches(excess, flagged, threshold)
        leading = from_start and not breaks and skip == 0 and len(found) > 0 and found[0, 0] == 0
        if leading and not _first_tooth(x, excess, found):
            skip, first = _first_calls(x, curve, excess, int(found[0, 1]))
            findings += first
            if skip:
                continue
        for start in [] if breaks else _onsets(x, curve, found, threshold):
            return [*findings, *apparent_findings(x[:start], curve[:start], threshold, False), _heated(x, curve, start)]
        named, edges = name_stretches(x, curve, excess, found, threshold)
        fresh = [shape for shape in edges if shape.kind == "rise" or shape.first not in breaks]
        if not any(shape.kind == "drop" for shape in fresh):
            break
        findings += [_step(x, shape, found) for shape in fresh]
        breaks += tuple(shape.first for shape in fresh if shape.kind == "drop")
    findings += [_excess(x, curve, baseline, excess, shape, threshold) for shape in named]
    known = {finding.lengths for finding in findings}
    fresh = rises(x, curve, baseline, max(threshold, float(np.log(JITTER))), named)
    fresh = [s for s in fresh if s.first >= skip and s.after - s.before > np.log(TILE)]
    return findings + [_step(x, s, found) for s in fresh if (int(x[s.first]), int(x[s.last])) not in known]


def _first_tooth(x: Ints, excess: Floats, found: Ints) -> bool:
    """Whether the first value is one of many alike, and so no first call."""
    shapes, _ = teeth(x, found, excess)
    return any(s.first == 0 and excess[0] >= np.median(excess[list(s.members)]) / 2 for s in shapes)


def _first_calls(x: Ints, curve: Floats, excess: Floats, last: int) -> tuple[int, list[Finding]]:
    """How many leading values to leave out as first calls or warm-up, and the finding if they cost FIRST or more."""
    width = last + 1
    if width > 2 or width > len(x) - 2 or (np.diff(curve[: width + 1]) >= 0).any():
        return 0, []
    ratio = float(np.exp(excess[0]))
    if ratio < FIRST:
        return (1, []) if width == 1 else (0, [])
    which = " and ".join(str(v) for v in x[:width])
    ratios = " and ".join(sentences.times(float(np.exp(e))) for e in excess[:width])
    note = (
        f"the first {'values' if width > 1 else 'value'} (x = {which}) cost{'' if width > 1 else 's'} {ratios} what "
        "later ones cost: first calls (compilation, warm-up), if this is the order of measurement."
    )
    return width, [_apparent("first-visit", int(x[0]), int(x[last]), ratio, note)]


def _excess(x: Ints, curve: Floats, baseline: Floats, excess: Floats, shape: Shape, threshold: float) -> Finding:
    members = np.array(shape.members or range(shape.first, shape.last + 1))
    ratio = float(np.exp(np.median(excess[members])))
    if shape.kind in ("comb", "periodic"):
        note = sentences.teeth_sentence(x, shape, ratio)
    else:
        peak = int(members[np.argmax(excess[members])])
        later = np.arange(peak + 1, len(x))
        near = later[curve[later] - baseline[peak] <= threshold / 2]
        reference = int(near[0]) if near.size else peak - 1
        costs = np.exp(curve[[peak, reference]])
        note = sentences.excess_sentence(x, shape, peak, reference, float(costs[0]), float(costs[1]))
    return _apparent(shape.kind, int(x[shape.first]), int(x[shape.last]), ratio, note)


def _onsets(x: Ints, curve: Floats, found: Ints, threshold: float) -> list[int]:
    """Where the first stretch that rises, decays slowly and never comes back begins: none or one index."""
    starts = (_onset(x, curve, first, last, threshold) for first, last in found.tolist())
    return [start for start in starts if start is not None][:1]


def _heated(x: Ints, curve: Floats, start: int) -> Finding:
    before = float(np.exp(np.median(curve[max(0, start - 5) : start])))
    peak = float(np.exp(curve[start:].max()))
    note = (
        f"from length {x[start]} on the cost is up to {sentences.times(peak / before)} what it was before "
        f"({sentences.cost(peak)} against {sentences.cost(before)}), falls slowly and never comes back: this cannot be "
        "separated from thermal state or the time of measurement."
    )
    return _apparent("regime", int(x[start]), int(x[-1]), float(np.exp(np.median(curve[start:]))) / before, note)


def _onset(x: Ints, curve: Floats, first: int, last: int, threshold: float) -> int | None:
    """Where a stretch's rise begins if it decays slowly and stays JITTER above what came before; None otherwise."""
    if first < 4 or last + 1 >= len(x):
        return None
    peak = first + int(np.argmax(curve[first : last + 1]))
    sharpest = float(np.max(-np.diff(curve[peak : last + 2])))
    if sharpest >= (curve[peak] - curve[peak:].min()) / 2:
        return None
    start = first
    while start > 4 and curve[start - 1] - _expected(x, curve, start - 1, int(x[start - 1])) > threshold / 2:
        start -= 1
    lasting = float(curve[first:].min()) - _expected(x, curve, start, int(x[-1]))
    return start if lasting >= np.log(JITTER) else None


def _expected(x: Ints, curve: Floats, index: int, length: int) -> float:
    """Log cost at `length` if the five values before `index` went on growing as they did."""
    logs, values = np.log(np.maximum(x[max(0, index - 5) : index], 1)), curve[max(0, index - 5) : index]
    exponent = float(np.clip(np.median(np.diff(values) / np.diff(logs)), 0.0, GROWTH))
    return float(np.median(values) + exponent * (np.log(max(int(length), 1)) - np.median(logs)))


def _step(x: Ints, shape: Shape, found: Ints) -> Finding:
    begun = bool((found[found[:, 1] == shape.first, 0] == 0).any())
    note = sentences.step_sentence(x, shape, from_start=begun)
    return _apparent("step", int(x[shape.first]), int(x[shape.last]), float(np.exp(shape.after - shape.before)), note)


def _apparent(kind: str, first: int, last: int, ratio: float, note: str) -> Finding:
    return Finding(kind, (first, last), ratio, None, None, "apparent", note)
