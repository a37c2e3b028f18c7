"""Stamps around a step and its sync, and what is known of the clock they come from."""

from collections.abc import Callable
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import CapsuleType

_R = TypeVar("_R")

def now_ns() -> int:
    """Nanoseconds of the raw monotonic clock that every stamp is taken from; its zero is arbitrary."""

def clock() -> dict[str, Any]:
    """What 100 000 back-to-back readings say about the clock.

    name           CLOCK_MONOTONIC_RAW on Linux, CLOCK_UPTIME_RAW on macOS
    resolution_ns  smallest step other than zero
    grid_ns        greatest common divisor of the steps
    overhead_ns    median step: the cost of one reading; 0 where a reading costs less than the clock's grain
    worst_gap_ns   largest step: an interruption
    monotonic      whether no reading was earlier than the one before
    """

@overload
def run(
    step: Callable[[], _R],
    sync: Callable[[_R], object] | CapsuleType,
    out: npt.NDArray[np.int64],
    prepare: Callable[[], object] | CapsuleType | None = None,
) -> _R:
    """Time `step` and `sync` once a row of `out`, int64 [K, 3], and return the last step's result.

    A row is (started, dispatched, completed) in ns: before the step, when its call has returned, when sync(result) has
    returned. `out` is zeroed first. prepare(), the release of the previous result and the check for signals
    come before a row's first stamp; the current result is held past the last.

    Each callable may be a PyCapsule named "pykvbench.hook" instead, with a pointer to `void (*)(void *)` that is called
    with the capsule's context; the result of such a step is None.

    An exception ends the call at once; the rows that are not zero stand. TypeError when a callable is none, or when
    `out` is not a C-contiguous int64 array; ValueError when its shape is wrong or it cannot be written in place.
    """

@overload
def run(
    step: CapsuleType,
    sync: Callable[[None], object] | CapsuleType,
    out: npt.NDArray[np.int64],
    prepare: Callable[[], object] | CapsuleType | None = None,
) -> None: ...
def usage() -> tuple[int, int, int]:
    """CPU time in ns, voluntary and involuntary context switches of the calling thread; macOS counts no switches: 0."""

def prioritize() -> str:
    """Ask macOS to keep the calling thread off the efficiency cores, as user-initiated work; the outcome in words."""
