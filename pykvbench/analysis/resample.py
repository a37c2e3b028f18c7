"""Intervals by resampling whole sweeps: a sweep is one process, and processes, not samples, are what repeats.

The percentile interval of a few values is too short: with 3 sweeps it covers the truth in 75 of 100 cases, and 5 sweeps
all on one side of the truth, the most that 5 can say, come about by chance in 6 of 100 (2 / 2^5). Intervals are
therefore widened by what Student's t is wider than the normal distribution: 2.6x at 3 sweeps, 1.6x at 5, 1.2x at 9.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pykvbench.analysis.finding import Floats, Ints

RESAMPLES = 1000
MIN_SWEEPS = 3  # two values have no middle and no spread worth the name
_NORMAL = 1.959964  # 95 %, both sides
_BLOCK = 1 << 22  # values held at once


@dataclass(frozen=True)
class Interval:
    """An estimate and the 95 % interval around it, all ratios or all lengths."""

    value: float
    low: float
    high: float

    def to_json(self) -> dict[str, float | None]:
        """Plain values, None for what is not known."""
        return {
            name: number if np.isfinite(number := getattr(self, name)) else None for name in ("value", "low", "high")
        }


@dataclass(frozen=True)
class Ratios:
    """The log ratio of two curves at every length, as measured and in each resample of the sweeps."""

    curve: Floats  # [n] median over sweeps
    resampled: Floats  # [RESAMPLES, n]
    sweeps: int  # the smaller number of both sides; of pairs within one run

    def part(self, first: int, stop: int) -> Ratios:
        """The same for the lengths with index first to stop - 1."""
        return Ratios(self.curve[first:stop], self.resampled[:, first:stop], self.sweeps)

    def overall(self) -> Interval:
        """The median ratio over lengths."""
        centre = float(np.median(self.curve))
        return _exp(widened(centre, np.median(self.resampled, axis=1), self.sweeps))

    def at_each_length(self) -> tuple[Floats, Floats]:
        """Low and high end of the ratio's interval at every length: [n] each."""
        low, high = (np.percentile(self.resampled, share, axis=0) for share in (2.5, 97.5))
        wider = widening(self.sweeps)
        ends = (self.curve - wider * (self.curve - low), self.curve + wider * (high - self.curve))
        return np.exp(ends[0]), np.exp(ends[1])


def ratios(first: Floats, second: Floats, paired: bool, seed: int = 0) -> Ratios:
    """The ratio of second to first, both [sweeps, n] in ns, NaN where a visit is missing; every column has a visit.

    `paired` when row s of both was measured side by side, as within one run: what slows a while slows both.
    """
    a, b = np.log(first), np.log(second)
    rng = np.random.default_rng([seed, 13])
    if paired:
        both = min(len(a), len(b))
        differences = b[:both] - a[:both]
        differences = differences[~np.isnan(differences).all(axis=1)]
        picks = rng.integers(0, len(differences), (RESAMPLES, len(differences)))
        return Ratios(middle(differences), _resampled(differences, picks), len(differences))
    a, b = (side[~np.isnan(side).all(axis=1)] for side in (a, b))
    picks_a, picks_b = (rng.integers(0, len(side), (RESAMPLES, len(side))) for side in (a, b))
    curves = _resampled(b, picks_b) - _resampled(a, picks_a)
    return Ratios(middle(b) - middle(a), curves, min(len(a), len(b)))


def middle(values: Floats) -> Floats:
    """The median over the last axis but one, leaving out NaN: [..., sweeps, n] to [..., n]."""
    ordered = np.sort(values, axis=-2)  # NaN last
    known = (~np.isnan(ordered)).sum(axis=-2, keepdims=True)
    lower = np.take_along_axis(ordered, np.maximum((known - 1) // 2, 0), axis=-2)
    upper = np.take_along_axis(ordered, np.minimum(known // 2, values.shape[-2] - 1), axis=-2)
    return np.asarray(((lower + upper) / 2)[..., 0, :])


def widened(value: float, resampled: Floats, sweeps: int) -> Interval:
    """The percentile interval of a resampled value, widened around the value for the number of sweeps."""
    low, high = np.percentile(resampled, [2.5, 97.5])
    wider = widening(sweeps)
    return Interval(value, float(value - wider * (value - low)), float(value + wider * (high - value)))


def widening(sweeps: int) -> float:
    """How many times wider than the percentile interval of so many sweeps one must be that covers 95 %.

    Student's quantile over the normal one, by its series in 1 / (sweeps - 1), and the spread that resampling loses.
    """
    if sweeps < 2:
        return float("inf")
    z, d = _NORMAL, sweeps - 1
    series = (z**3 + z) / (4 * d) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * d**2)
    series += (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * d**3)
    return float((z + series) / z * np.sqrt(sweeps / (sweeps - 1)))


def _resampled(values: Floats, picks: Ints) -> Floats:
    """The median curve of each pick of rows, a block of lengths at a time: [RESAMPLES, n].

    A length that a pick leaves without a visit gets the curve's own value.
    """
    width = max(1, _BLOCK // picks.size)
    blocks = [middle(values[:, i : i + width][picks]) for i in range(0, values.shape[1], width)]
    curves = np.concatenate(blocks, axis=1)
    return np.where(np.isnan(curves), middle(values), curves)


def _exp(interval: Interval) -> Interval:
    return Interval(*(float(np.exp(end)) for end in (interval.value, interval.low, interval.high)))
