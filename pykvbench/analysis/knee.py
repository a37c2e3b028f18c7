"""From how many sequences on the tail of latency leaves its middle, and how sure that is.

p99 has left p50 where p99 / p50 is more than twice what it is on this machine anyway: the least of the same context
without a limit, taken as 1 to 2. On two cores with a load of 9 that was 1.4, and 2.3 at other concurrencies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pykvbench.analysis.capacity_table import CapacityRow, Knee
from pykvbench.analysis.resample import MIN_SWEEPS, RESAMPLES, Interval, widened

LEFT = 2.0


def find_knee(
    rows: Sequence[CapacityRow], policy: str, predicted: int | None, limit: float = LEFT, seed: int = 0
) -> Knee | None:
    """The knee of one curve, `rows` of one context by rising concurrency; None where none of them was served.

    `limit` is the p99 / p50 beyond which p99 has left p50 (limit_of). Repeats are fresh processes, so the interval of
    p99 / p50 at a concurrency is taken over them.
    """
    known = {row.concurrency: np.log(np.array(row.p99_ns) / np.array(row.p50_ns)) for row in rows if row.served}
    if not known:
        return None
    intervals = {concurrency: _interval(logs, seed) for concurrency, logs in known.items()}
    at = _from_on(intervals, lambda ratio: ratio.value > limit)
    shown = at if at is not None else max(known)
    return Knee(
        context=rows[0].context,
        policy=policy,
        at=at,
        low=_from_on(intervals, lambda ratio: ratio.high > limit),
        high=_from_on(intervals, lambda ratio: ratio.low > limit),
        limit=limit,
        ratio=intervals[shown],
        votes=(int((known[shown] > np.log(limit)).sum()), len(known[shown])),
        predicted=predicted,
    )


def limit_of(rows: Sequence[CapacityRow]) -> float:
    """The p99 / p50 beyond which p99 has left p50, from one context's rows without a limit of memory."""
    ratios = [float(np.median(np.array(row.p99_ns) / np.array(row.p50_ns))) for row in rows if row.served]
    return LEFT * min(max(min(ratios, default=1.0), 1.0), LEFT)


def _from_on(intervals: Mapping[int, Interval], holds: Callable[[Interval], bool]) -> int | None:
    """The fewest sequences from which on it holds at every concurrency measured: one outlier is no knee."""
    found = None
    for concurrency in sorted(intervals, reverse=True):
        if not holds(intervals[concurrency]):
            break
        found = concurrency
    return found


def _interval(logs: np.ndarray[tuple[int], np.dtype[np.float64]], seed: int) -> Interval:
    """The median ratio with its 95 % interval, unknown (NaN) below three repeats."""
    value = float(np.median(logs))
    if len(logs) < MIN_SWEEPS:
        return Interval(float(np.exp(value)), float("nan"), float("nan"))
    picks = np.random.default_rng([seed, 19]).integers(0, len(logs), (RESAMPLES, len(logs)))
    span = widened(value, np.median(logs[picks], axis=1), len(logs))
    return Interval(*(float(np.exp(end)) for end in (span.value, span.low, span.high)))
