"""Two curves against each other: how many times longer the second takes, where, how sure that is, and what differs.

The unit is the sweep. The ratio is that of second to first: above 1 the second is slower. Verdicts: SLOWER or FASTER
when the 99 % interval lies beyond 2 %, SAME when the 95 % interval lies within, AMBIGUOUS otherwise: SAME needs
evidence as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pykvbench.analysis.ceiling import Ceiling
from pykvbench.analysis.crossover import Crossover, crossover
from pykvbench.analysis.fairness import Difference
from pykvbench.analysis.finding import CellResult, Floats, Ints
from pykvbench.analysis.resample import MIN_SWEEPS, Interval, Ratios, firmer, ratios
from pykvbench.analysis.side_by_side import DEAR, Contrast, side_by_side

FLOOR = 0.02  # effects below this are not worth a word: two builds of one kernel differ by more
VERDICTS = ("SAME", "FASTER", "SLOWER", "AMBIGUOUS")
_BLOCKS = 8  # stretches at most; a block's median over its lengths is what can be told apart at 5 sweeps
_MOST_SWEEPS = 100


@dataclass(frozen=True)
class Side:
    """One of the two: a cell's result and what it reached; arrays run over the comparison's lengths."""

    name: str
    result: CellResult
    median_ns: Floats  # [n]
    sweeps_ns: Floats  # [sweeps, n]
    rates: Floats  # [n] bytes of K and V a second
    ceiling: Ceiling | None
    memory: dict[str, float]  # bytes by counter, the most of any visit


@dataclass(frozen=True)
class Stretch:
    """Adjacent lengths with one verdict."""

    first: int
    last: int
    ratio: Interval
    verdict: str

    def to_json(self) -> dict[str, Any]:
        """Plain values for the JSON document."""
        return {"lengths": [self.first, self.last], "ratio": self.ratio.to_json(), "verdict": self.verdict}


@dataclass(frozen=True)
class Comparison:
    """What is known of second against first."""

    first: Side
    second: Side
    paired: bool  # sweeps of both were interleaved in one run
    sweeps: int
    lengths: Ints  # [n] measured in both
    ratio: Floats  # [n] of the medians over sweeps
    low: Floats  # [n] of its interval, NaN below MIN_SWEEPS
    high: Floats  # [n]
    overall: Interval | None
    verdict: str
    reason: str
    stretches: tuple[Stretch, ...]
    crossovers: tuple[Crossover, ...]
    contrasts: tuple[Contrast, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]

    def is_slower_by(self, share: float) -> bool:
        """Whether second is certainly slower than first by more than `share`, overall, on a stretch or at a spike."""
        spans = [part.ratio for part in self.stretches] + ([self.overall] if self.overall else [])
        new = [
            contrast
            for contrast in self.contrasts
            if contrast.is_headline and contrast.second is not None and contrast.finding.kind in DEAR
        ]
        return any(span.low > 1 + share for span in spans) or any((c.finding.ratio or 0) > 1 + share for c in new)


def compare(
    first: Side,
    second: Side,
    paired: bool,
    differences: tuple[Difference, ...] = (),
    notes: tuple[str, ...] = (),
    seed: int = 0,
) -> Comparison:
    """Compare two sides over the same lengths, in each of which both have at least one visit."""
    lengths = first.result.curve.lengths
    known = ratios(first.sweeps_ns, second.sweeps_ns, paired, seed)
    enough = known.sweeps >= MIN_SWEEPS
    stretches = _stretches(lengths, known) if enough else ()
    overall = known.overall() if enough else None
    crossings = _crossovers(lengths, known, stretches)
    verdict, reason = _verdict(overall, stretches, crossings, known, paired)
    low, high = known.at_each_length() if enough else (np.full(len(lengths), np.nan),) * 2
    return Comparison(
        first=first,
        second=second,
        paired=paired,
        sweeps=known.sweeps,
        lengths=lengths,
        ratio=np.exp(known.curve),
        low=low,
        high=high,
        overall=overall,
        verdict=verdict,
        reason=reason,
        stretches=stretches,
        crossovers=crossings,
        contrasts=side_by_side(first.result, second.result),
        differences=differences,
        notes=notes,
    )


def judge(ratio: Interval, sweeps: int) -> str:
    """The verdict that an interval of so many sweeps allows.

    A difference must hold at 99 %: calling a cell slower than itself is worse than not telling.
    """
    wider = firmer(sweeps)
    if (ratio.low / ratio.value) ** wider * ratio.value > 1 + FLOOR:
        return "SLOWER"
    if (ratio.high / ratio.value) ** wider * ratio.value < 1 / (1 + FLOOR):
        return "FASTER"
    return "SAME" if ratio.low >= 1 / (1 + FLOOR) and ratio.high <= 1 + FLOOR else "AMBIGUOUS"


def sweeps_needed(ratio: Interval, sweeps: int) -> int:
    """About how many sweeps as noisy as these would decide: an interval narrows with the root of their number."""
    half = (np.log(ratio.high) - np.log(ratio.low)) / 2
    distance = abs(abs(np.log(ratio.value)) - np.log(1 + FLOOR))
    if not distance or half / distance > 100:
        return _MOST_SWEEPS
    return int(min(_MOST_SWEEPS, max(sweeps + 1, np.ceil(sweeps * (half / distance) ** 2))))


def _stretches(lengths: Ints, known: Ratios) -> tuple[Stretch, ...]:
    """The range in at most 8 blocks of equally many lengths, neighbours with one verdict joined and judged again."""
    edges = np.unique(np.linspace(0, len(lengths), min(_BLOCKS, len(lengths)) + 1).astype(int))
    blocks = [(int(a), int(b)) for a, b in zip(edges, edges[1:])]
    while True:
        judged = [(block, judge(known.part(*block).overall(), known.sweeps)) for block in blocks]
        joined: list[tuple[tuple[int, int], str]] = []
        for block, verdict in judged:
            if joined and joined[-1][1] == verdict:
                joined[-1] = ((joined[-1][0][0], block[1]), verdict)
            else:
                joined.append((block, verdict))
        if len(joined) == len(blocks):
            break
        blocks = [block for block, _ in joined]
    return tuple(
        Stretch(int(lengths[a]), int(lengths[b - 1]), known.part(a, b).overall(), verdict) for (a, b), verdict in joined
    )


def _crossovers(lengths: Ints, known: Ratios, stretches: Sequence[Stretch]) -> tuple[Crossover, ...]:
    """One between each two stretches with opposite verdicts that have no third between them; none without those."""
    decided = [part for part in stretches if part.verdict in ("FASTER", "SLOWER")]
    found = []
    for before, after in zip(decided, decided[1:]):
        if before.verdict != after.verdict:
            a, b = np.searchsorted(lengths, (before.first, after.last)).tolist()
            found.append(crossover(lengths[a : b + 1], known.part(a, b + 1), rising=after.verdict == "SLOWER"))
    return tuple(found)


def _verdict(
    overall: Interval | None,
    stretches: Sequence[Stretch],
    crossings: Sequence[Crossover],
    known: Ratios,
    paired: bool,
) -> tuple[str, str]:
    pairs = f"{known.sweeps} pairs of sweeps" if paired else f"{known.sweeps} sweeps a side"
    if overall is None:
        few = "1 sweep" if known.sweeps == 1 else f"{known.sweeps} sweeps"
        return "AMBIGUOUS", f"{few} cannot tell a difference from noise; at least {MIN_SWEEPS} are needed, better 5."
    span = f"{overall.value:.3f}x ({overall.low:.3f}x to {overall.high:.3f}x) the time, over {pairs}"
    some = {part.verdict for part in stretches} & {"FASTER", "SLOWER"}
    if len(some) == 2:
        where = " and ".join(str(crossing.length) for crossing in crossings)
        return "AMBIGUOUS", f"it depends on the length: the curves cross at {where}; {span}."
    verdict = judge(overall, known.sweeps)
    if verdict == "SAME" and some:
        way = some.pop().lower()
        return "AMBIGUOUS", f"it depends on the length: {way} at some, the same at the median; {span}."
    if verdict != "AMBIGUOUS":
        return verdict, f"{span}."
    needed = sweeps_needed(overall, known.sweeps)
    about = f"about {needed} sweeps" if needed < _MOST_SWEEPS else f"more than {_MOST_SWEEPS} sweeps"
    return (
        verdict,
        f"{span}: neither surely within {FLOOR:.0%} nor surely beyond it; {about} as noisy as these would tell.",
    )
