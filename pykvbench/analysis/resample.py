"""Intervals by resampling whole sweeps: a sweep is one process, and processes, not samples, are what repeats.

The percentile interval of a few values is too short: with 3 sweeps it covers the truth in 75 of 100 cases, and 5 sweeps
all on one side of the truth, the most that 5 can say, come about by chance in 6 of 100 (2 / 2^5). Intervals are
therefore widened by what Student's t is wider than the normal distribution: 2.7x at 3 sweeps, 1.6x at 5, 1.2x at 9.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from pykvbench.analysis.finding import Floats, Ints

RESAMPLES = 1000
MIN_SWEEPS = 3  # two values have no middle and no spread worth the name
_NORMAL, _FIRM = 1.959964, 2.575829  # 95 % and 99 %, both sides
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
class Arm:
    """Log times, or log ratios, whose rows are resampled: those of one side, or of pairs."""

    logs: Floats  # [S, n]
    picks: Ints  # [RESAMPLES, S]

    def levels(self) -> Floats:
        """The median of everything in each resample: [RESAMPLES].

        Of all visits at once, not of each length's median: with 5 sweeps the interval is a third narrower, and right.
        """
        rows = max(1, _BLOCK // self.logs.size)
        parts = [self.logs[self.picks[i : i + rows]] for i in range(0, len(self.picks), rows)]
        median = np.nanmedian if np.isnan(self.logs).any() else np.median
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a resample may hold sweeps without visits alone: NaN
            return np.concatenate([median(part.reshape(len(part), -1), axis=1) for part in parts])


@dataclass(frozen=True)
class Ratios:
    """The log ratio of two curves at every length, as measured and in each resample of the sweeps."""

    arms: tuple[Arm, ...]  # the pairs' ratios, or first and second without the mean of their curves
    curve: Floats  # [n] median over sweeps
    resampled: Floats  # [RESAMPLES, n]
    sweeps: int  # the smaller number of both sides; of pairs within one run

    def part(self, first: int, stop: int) -> Ratios:
        """The same for the lengths with index first to stop - 1."""
        arms = tuple(Arm(arm.logs[:, first:stop], arm.picks) for arm in self.arms)
        return Ratios(arms, self.curve[first:stop], self.resampled[:, first:stop], self.sweeps)

    def overall(self) -> Interval:
        """The median ratio over lengths and sweeps."""
        medians = [float(np.nanmedian(arm.logs)) for arm in self.arms]
        levels = [arm.levels() for arm in self.arms]
        value = medians[-1] - (medians[0] if len(medians) > 1 else 0.0)
        return _exp(widened(value, levels[-1] - (levels[0] if len(levels) > 1 else 0.0), self.sweeps))

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
        differences = _measured(b[:both] - a[:both])
        arm = Arm(differences, rng.integers(0, len(differences), (RESAMPLES, len(differences))))
        return Ratios((arm,), middle(differences), _resampled(arm), len(differences))
    a, b = _measured(a), _measured(b)
    mean = (middle(a) + middle(b)) / 2
    arms = tuple(Arm(side - mean, rng.integers(0, len(side), (RESAMPLES, len(side)))) for side in (a, b))
    return Ratios(arms, middle(b) - middle(a), _resampled(arms[1]) - _resampled(arms[0]), min(len(a), len(b)))


def middle(values: Floats) -> Floats:
    """The median over the last axis but one, leaving out NaN: [..., sweeps, n] to [..., n]."""
    ordered = np.sort(values, axis=-2)  # NaN last
    known = (~np.isnan(ordered)).sum(axis=-2, keepdims=True)
    lower = np.take_along_axis(ordered, np.maximum((known - 1) // 2, 0), axis=-2)
    upper = np.take_along_axis(ordered, np.minimum(known // 2, values.shape[-2] - 1), axis=-2)
    return np.asarray(((lower + upper) / 2)[..., 0, :])


def widened(value: float, resampled: Floats, sweeps: int) -> Interval:
    """The percentile interval of a resampled value, widened around the value for the number of sweeps."""
    low, high = np.percentile(resampled[~np.isnan(resampled)], [2.5, 97.5])
    wider = widening(sweeps)
    return Interval(value, float(value - wider * (value - low)), float(value + wider * (high - value)))


def widening(sweeps: int, normal: float = _NORMAL) -> float:
    """How many times wider than the percentile interval of so many sweeps one must be that covers as it says.

    Student's quantile over the normal one, by its series in 1 / (sweeps - 1), and the spread that resampling loses.
    """
    return _student(sweeps, normal) / normal * float(np.sqrt(sweeps / (sweeps - 1)))


def firmer(sweeps: int) -> float:
    """How many times wider than the 95 % interval the 99 % interval is."""
    return _student(sweeps, _FIRM) / _student(sweeps, _NORMAL)


def _student(sweeps: int, normal: float) -> float:
    if sweeps == MIN_SWEEPS:  # too few for the series
        return 4.303 if normal == _NORMAL else 9.925
    z, d = normal, sweeps - 1
    series = (z**3 + z) / (4 * d) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * d**2)
    return float(z + series + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * d**3))


def _measured(logs: Floats) -> Floats:
    return logs[~np.isnan(logs).all(axis=1)]


def _resampled(arm: Arm) -> Floats:
    """The median curve of each resample, a block of lengths at a time: [RESAMPLES, n].

    A length that a resample leaves without a visit gets the curve's own value.
    """
    width = max(1, _BLOCK // arm.picks.size)
    blocks = [middle(arm.logs[:, i : i + width][arm.picks]) for i in range(0, arm.logs.shape[1], width)]
    curves = np.concatenate(blocks, axis=1)
    return np.where(np.isnan(curves), middle(arm.logs), curves)


def _exp(interval: Interval) -> Interval:
    return Interval(*(float(np.exp(end)) for end in (interval.value, interval.low, interval.high)))
