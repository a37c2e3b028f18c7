"""Where two curves cross: the length from which on the other one is faster, with an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pykvbench.analysis.finding import Floats, Ints
from pykvbench.analysis.resample import Interval, Ratios, widened

_MOST = 0.25  # log; beyond this a length counts no more, so that a spike does not move the crossing


@dataclass(frozen=True)
class Crossover:
    """The first length at which the slower one of two cells has become the faster one."""

    length: int
    low: int
    high: int
    second_becomes: str  # "faster" or "slower"

    def to_json(self) -> dict[str, Any]:
        """Plain values for the JSON document."""
        return {
            "length": self.length,
            "low": self.low,
            "high": self.high,
            "second_becomes": self.second_becomes,
        }


def crossover(lengths: Ints, ratios: Ratios, rising: bool) -> Crossover:
    """The crossing of curves that are known to cross once; `rising` when the second one becomes the slower.

    The interval comes from resampling the sweeps and is at least as wide as the distance to the measured neighbours.
    """
    sign = 1.0 if rising else -1.0
    place = int(_split(sign * ratios.curve))
    span = _interval(place, _split(sign * ratios.resampled), ratios.sweeps)
    low = int(lengths[max(0, min(place - 1, int(np.floor(span.low))))])
    high = int(lengths[min(len(lengths) - 1, max(place + 1, int(np.ceil(span.high))))])
    return Crossover(int(lengths[place]), low, high, "slower" if rising else "faster")


def _split(rising: Floats) -> Ints:
    """The index before which a log ratio is on the whole below 0 and from which on above: [...] of [..., n].

    That is where the sum of all before is smallest; every length has its say, and no model of the curve is needed.
    """
    sums = np.cumsum(np.clip(rising, -_MOST, _MOST), axis=-1)
    before = np.concatenate((np.zeros((*sums.shape[:-1], 1)), sums[..., :-1]), axis=-1)
    return np.asarray(np.argmin(before, axis=-1), dtype=np.int64)


def _interval(place: int, resampled: Ints, sweeps: int) -> Interval:
    return widened(float(place), resampled.astype(np.float64), sweeps)
