"""The timed loop: what lies inside a window, what stands after an exception, and what it refuses."""

from __future__ import annotations

import contextlib
import datetime
import gc
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pykvbench import _timer
from pykvbench._simulated_device import Device


def rows(count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.full((count, 3), -7, np.int64)


def nothing() -> None:
    pass


def ignore(result: object) -> None:
    pass


class Result:
    """A step's result whose release can be seen."""


def test_now_ns_never_goes_back() -> None:
    stamps = [_timer.now_ns() for _ in range(1000)]
    assert stamps == sorted(stamps)
    assert stamps[-1] > stamps[0]


def test_now_ns_advances_by_what_was_slept() -> None:
    start = _timer.now_ns()
    time.sleep(0.01)
    assert _timer.now_ns() - start >= 9_900_000


def test_clock_is_named_and_its_facts_fit_together() -> None:
    facts = _timer.clock()
    assert list(facts) == ["name", "resolution_ns", "grid_ns", "overhead_ns", "worst_gap_ns", "monotonic"]
    assert facts["name"] == ("CLOCK_UPTIME_RAW" if sys.platform == "darwin" else "CLOCK_MONOTONIC_RAW")
    assert facts["monotonic"] is True
    assert 1 <= facts["grid_ns"] <= facts["resolution_ns"]
    assert facts["resolution_ns"] % facts["grid_ns"] == 0
    assert facts["worst_gap_ns"] % facts["grid_ns"] == 0
    assert 0 <= facts["overhead_ns"] <= facts["worst_gap_ns"]


def test_rows_hold_stamps_in_order_and_samples_do_not_overlap() -> None:
    out = rows(50)
    before = _timer.now_ns()
    _timer.run(nothing, ignore, out)
    stamps = [before, *out.ravel().tolist(), _timer.now_ns()]
    assert stamps == sorted(stamps)


def test_the_last_result_is_returned_and_each_sync_gets_its_own() -> None:
    produced: list[Result] = []
    synced: list[Result] = []

    def step() -> Result:
        produced.append(Result())
        return produced[-1]

    last = _timer.run(step, synced.append, rows(3))
    assert last is produced[2]
    assert [id(result) for result in synced] == [id(result) for result in produced]


def test_stamps_enclose_step_and_sync_but_not_prepare() -> None:
    moments: list[int] = []

    def mark(*_: object) -> None:
        moments.append(_timer.now_ns())

    out = rows(4)
    _timer.run(mark, mark, out, mark)
    prepared, stepped, synced = np.reshape(moments, (4, 3)).T
    started, dispatched, completed = out.T
    for earlier, later in [(prepared, started), (started, stepped), (stepped, dispatched), (dispatched, synced)]:
        assert (earlier <= later).all()
    assert (synced <= completed).all()
    assert (completed[:-1] <= prepared[1:]).all()


def test_a_result_lives_through_its_sync_and_is_gone_before_the_next_prepare() -> None:
    released: list[int] = []
    alive: list[int] = []
    count = 0

    def step() -> Result:
        nonlocal count
        result = Result()
        weakref.finalize(result, released.append, count)
        count += 1
        return result

    def prepare() -> None:
        alive.append(count - len(released))

    def sync(result: Result) -> None:
        assert len(released) == count - 1

    out = rows(5)
    result = _timer.run(step, sync, out, prepare=prepare)
    assert alive == [0] * 5
    assert released == [0, 1, 2, 3]
    del result
    assert released == [0, 1, 2, 3, 4]


def test_a_result_is_released_between_two_windows() -> None:
    freed: list[int] = []

    class Tensor:
        def __del__(self) -> None:
            freed.append(_timer.now_ns())

    out = rows(6)
    _timer.run(Tensor, ignore, out)
    assert (out[:-1, 2] <= freed[:5]).all()
    assert (freed[:5] <= out[1:, 0]).all()


@pytest.mark.parametrize("failing", ["step", "sync", "prepare"])
def test_an_exception_ends_the_run_and_only_finished_rows_stand(failing: str) -> None:
    calls = 0

    def fail(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyError("fourth")

    hooks: dict[str, Callable[..., object]] = {"step": nothing, "sync": ignore, "prepare": nothing}
    out = rows(10)
    with pytest.raises(KeyError, match="fourth"):
        _timer.run(**{**hooks, failing: fail}, out=out)
    assert calls == 4
    assert (out[:3] > 0).all()
    assert (out[3:] == 0).all()


def test_an_exception_does_not_keep_the_result() -> None:
    released: list[bool] = []

    def step() -> Result:
        result = Result()
        weakref.finalize(result, released.append, True)
        return result

    def sync(result: Result) -> None:
        raise RuntimeError("device lost")

    with contextlib.suppress(RuntimeError):
        _timer.run(step, sync, rows(1))
    gc.collect()
    assert released == [True]


def test_ctrl_c_ends_the_run_between_two_samples() -> None:
    count = 0

    def step() -> None:
        nonlocal count
        count += 1

    def sync(_: object) -> None:
        if count == 3:
            os.kill(os.getpid(), signal.SIGINT)

    out = rows(1000)
    with pytest.raises(KeyboardInterrupt):
        _timer.run(step, sync, out)
    assert (out[:2] > 0).all()
    assert (out[-1] == 0).all()


def test_signals_are_seen_when_no_hook_runs_python() -> None:
    def handle(number: int, frame: object) -> None:
        raise InterruptedError("seen")

    device = Device()
    submit, wait = device.submit_hook(0), device.wait_hook()
    out = rows(1_000_000)
    previous = signal.signal(signal.SIGVTALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.02)
        with pytest.raises(InterruptedError, match="seen"):
            _timer.run(submit, wait, out)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)
    assert (out[-1] == 0).all()


@pytest.mark.parametrize(
    "out",
    [
        [[0, 0, 0]],
        None,
        np.zeros((2, 3)),
        np.zeros((2, 3), np.int32),
        np.zeros((2, 3), np.dtype(np.int64).newbyteorder()),
        np.zeros((3, 2), np.int64).T,
        np.zeros((4, 3), np.int64)[::2],
    ],
)
def test_an_out_that_would_be_copied_is_refused(out: Any) -> None:
    message = r"^out must be a C-contiguous NumPy array of int64; make it with numpy\.empty\(.*\)\.$"
    with pytest.raises(TypeError, match=message):
        _timer.run(nothing, ignore, out)


@pytest.mark.parametrize("shape", [(0, 3), (3,), (3, 2), (1, 3, 1)])
def test_an_out_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"^out must have the shape \[K, 3\] with K of at least 1: .*\.$"):
        _timer.run(nothing, ignore, np.zeros(shape, np.int64))


def test_a_read_only_or_misaligned_out_is_refused() -> None:
    read_only = rows(2)
    read_only.flags.writeable = False
    misaligned = np.frombuffer(bytearray(8 * 6 + 1), np.int64, offset=1).reshape(2, 3)
    for out in (read_only, misaligned):
        with pytest.raises(ValueError, match=r"^out must be writeable and aligned; make it with .*\.$"):
            _timer.run(nothing, ignore, out)
    assert (read_only == -7).all()


@pytest.mark.parametrize("role", ["step", "sync", "prepare"])
def test_what_cannot_be_called_is_refused_before_anything_is_written(role: str) -> None:
    hooks: dict[str, Any] = {"step": nothing, "sync": ignore, "prepare": nothing}
    out = rows(2)
    with pytest.raises(TypeError, match=f"^{role} must be a callable or a PyCapsule named pykvbench.hook, not int.$"):
        _timer.run(**{**hooks, role: 3}, out=out)
    assert (out == -7).all()


def test_a_foreign_capsule_is_refused() -> None:
    foreign = datetime.datetime_CAPI
    with pytest.raises(TypeError, match=r"^step must be a callable or a PyCapsule named pykvbench\.hook, not PyCaps"):
        _timer.run(foreign, ignore, rows(1))


def test_capsules_serve_as_step_sync_and_prepare() -> None:
    device = Device()
    out = rows(3)
    result: object = _timer.run(device.submit_hook(300_000), device.wait_hook(), out, device.submit_hook(100_000))
    assert result is None
    assert not device.busy()
    assert (out[:, 2] - out[:, 0] >= 300_000).all()


def test_usage_counts_this_threads_work() -> None:
    cpu, voluntary, involuntary = _timer.usage()
    end = _timer.now_ns() + 5_000_000
    while _timer.now_ns() < end:
        pass
    time.sleep(0.001)
    later = _timer.usage()
    assert later[0] > cpu
    assert later[2] >= involuntary
    assert later[1] > voluntary or sys.platform == "darwin"


def test_usage_leaves_other_threads_out() -> None:
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(_timer.usage()[0]))
    thread.start()
    thread.join()
    assert seen[0] < time.process_time_ns()


@pytest.mark.skipif(sys.platform != "linux", reason="the words for Linux")
def test_prioritize_says_that_linux_has_no_such_class() -> None:
    assert _timer.prioritize() == "not applicable on Linux"
