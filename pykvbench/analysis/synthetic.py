"""Seeded sweeps with a known truth: what the detector's tests and benchmarks are run on.

Noise as an ordinary busy machine makes it: lognormal samples, Pareto stalls of samples and of whole visits, a window of
the run at 1.5x, levels that differ between processes; under it a legitimate staircase. `BUSY` adds what a shared host
does: others come and go over several visits, and speed wanders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pykvbench.analysis.finding import Floats, Ints


@dataclass(frozen=True)
class Noise:
    """How a machine disturbs a run; the defaults are those under which operating characteristics are stated."""

    sample: float = 0.03  # lognormal sigma of one sample
    stalled_samples: float = 0.02  # share of samples that a Pareto(1.2) stall lengthens
    stalled_visits: float = 0.005  # share of visits that one lengthens as a whole
    window: float = 0.05  # share of the run, in one piece of time, that is 1.5x slow
    process: float = 0.05  # lognormal sigma of a whole process
    drift: float = 0.0  # by how much the machine slows down from the start of a sweep to its end
    bursts: float = 0.0  # share of the time under bursts of 5 to 30 visits at 1.1x to 1.5x, random in onset
    wander: float = 0.0  # lognormal sigma of slow wander: AR(1) that forgets over about WANDER visits


WANDER = 20.0
BUSY = Noise(bursts=0.3, wander=0.05)


def stairs(lengths: Ints, height: float = 0.04, tread: int = 32, base_ns: float = 50_000.0) -> Floats:
    """A legitimate cost: up by `height` at every `tread` lengths, [n] ns."""
    return np.asarray(base_ns * (1.0 + height) ** ((lengths - lengths[0]) // tread), dtype=np.float64)


def fast_comb(lengths: Ints) -> Floats:
    """A flat cost with every 32nd length 40 % faster, [n] ns: the others are not slow."""
    return np.where(lengths % 32 == 0, 30_000.0, 50_000.0)


def slow(lengths: Ints, effects: Mapping[int, float]) -> Floats:
    """Factors that make some lengths slow by a ratio, [n]."""
    factors = np.ones(len(lengths))
    for length, ratio in effects.items():
        factors[lengths == length] = ratio
    return factors


def sweeps(
    cost_ns: Floats, seed: int, count: int = 5, samples: int = 7, noise: Noise | None = None, shuffled: bool = True
) -> Floats:
    """Visit medians of `count` sweeps over a true cost of [n] or [count, n] ns: [count, n] ns."""
    return ordered_sweeps(cost_ns, seed, count, samples, noise, shuffled)[0]


def ordered_sweeps(
    cost_ns: Floats, seed: int, count: int = 5, samples: int = 7, noise: Noise | None = None, shuffled: bool = True
) -> tuple[Floats, Floats]:
    """As `sweeps`, and the place of each visit in its sweep: both [count, n]."""
    noise = noise or Noise()
    rng = np.random.default_rng(seed)
    true = np.broadcast_to(cost_ns, (count, np.shape(cost_ns)[-1]))
    n = true.shape[1]
    order = np.stack([rng.permutation(n) if shuffled else np.arange(n) for _ in range(count)])  # order[s, t] = index
    factor = np.exp(rng.normal(0.0, noise.process, (count, 1))) * (1.0 + noise.drift * np.linspace(0.0, 1.0, n))
    stalled = rng.random((count, n)) < noise.stalled_visits
    factor = np.where(stalled, factor * (1.0 + rng.pareto(1.2, (count, n))), factor)  # [S, n] by time
    width = int(noise.window * count * n)
    start = int(rng.integers(0, count * n - width + 1))
    factor.ravel()[start : start + width] *= 1.5
    factor *= _company(noise, np.random.default_rng((seed, 1)), count, n)
    by_length, place = np.empty_like(factor), np.empty_like(factor)
    np.put_along_axis(by_length, order, factor, axis=1)
    np.put_along_axis(place, order, np.broadcast_to(np.arange(n, dtype=np.float64), (count, n)), axis=1)
    each = np.exp(rng.normal(0.0, noise.sample, (count, n, samples)))
    hit = rng.random(each.shape) < noise.stalled_samples
    each[hit] *= 1.0 + rng.pareto(1.2, int(hit.sum()))
    return np.asarray(true * by_length * np.median(each, axis=2)), place


def _company(noise: Noise, rng: np.random.Generator, count: int, n: int) -> Floats:
    """What others on the machine do to it, by time: [count, n] factors, 1 everywhere without bursts and wander."""
    factor = np.ones((count, n))
    for row in factor:
        for _ in range(rng.poisson(noise.bursts * n / 17.5)):
            onset = int(rng.integers(-29, n))
            row[max(0, onset) : max(0, onset + int(rng.integers(5, 31)))] *= rng.uniform(1.1, 1.5)
    if noise.wander:
        keep = float(np.exp(-1.0 / WANDER))
        steps = rng.normal(0.0, noise.wander, (count, n))
        steps[:, 1:] *= np.sqrt(1.0 - keep**2)
        for i in range(1, n):
            steps[:, i] += keep * steps[:, i - 1]
        factor *= np.exp(steps)
    return factor
