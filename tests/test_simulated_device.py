"""The simulated device: work takes at least its time, in order, and the device can be left at any moment."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest

from pykvbench import _timer
from pykvbench._simulated_device import Device

LONG = 60_000_000_000  # a minute: far longer than any test may take


def test_wait_returns_no_earlier_than_the_programmed_end() -> None:
    device = Device()
    for duration in (0, 1_000, 50_000, 200_000, 2_000_000):
        start = _timer.now_ns()
        device.submit(duration)
        device.wait()
        assert _timer.now_ns() - start >= duration
        assert not device.busy()


def test_queued_work_runs_one_after_the_other() -> None:
    device = Device()
    start = _timer.now_ns()
    for _ in range(5):
        device.submit(10_000_000)
    device.wait()
    assert _timer.now_ns() - start >= 50_000_000


def test_an_idle_device_starts_work_at_its_submission() -> None:
    device = Device()
    device.submit(0)
    device.wait()
    Device.spin(3_000_000)
    start = _timer.now_ns()
    device.submit(2_000_000)
    device.wait()
    assert _timer.now_ns() - start >= 2_000_000


def test_submit_returns_while_the_device_is_busy() -> None:
    device = Device()
    assert not device.busy()
    device.submit(LONG)
    assert device.busy()


def test_work_ends_without_anyone_waiting() -> None:
    device = Device()
    device.submit(200_000)
    give_up = _timer.now_ns() + 20_000_000_000
    while device.busy() and _timer.now_ns() < give_up:
        Device.spin(10_000)
    assert not device.busy()


def test_wait_lets_other_threads_run() -> None:
    device = Device()
    device.submit(100_000_000)
    ended = threading.Event()
    ran_before_the_end: list[bool] = []

    def watch() -> None:
        ran_before_the_end.append(device.busy())
        ended.set()

    thread = threading.Thread(target=watch)
    thread.start()
    device.wait()
    thread.join()
    assert ended.is_set()
    assert ran_before_the_end == [True]


def test_several_threads_may_submit_and_wait() -> None:
    device = Device()
    start = _timer.now_ns()

    def work() -> None:
        for _ in range(20):
            device.submit(20_000)
            device.wait()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not device.busy()
    assert _timer.now_ns() - start >= 4 * 20 * 20_000


def test_a_dropped_device_drops_its_work() -> None:
    device = Device()
    device.submit(LONG)
    device.submit(LONG)
    del device
    gc.collect()


def test_hooks_keep_their_device_alive() -> None:
    device = Device()
    submit, wait = device.submit_hook(200_000), device.wait_hook()
    del device
    gc.collect()
    out = np.empty((4, 3), np.int64)
    _timer.run(submit, wait, out)
    assert (out[:, 2] - out[:, 0] >= 200_000).all()
    del submit, wait
    gc.collect()


@pytest.mark.parametrize("duration", [-1, 3_600_000_000_001])
def test_a_duration_out_of_range_is_refused(duration: int) -> None:
    device = Device()
    for request in (device.submit, device.submit_hook, device.spin):
        with pytest.raises(ValueError, match="^duration_ns must be between 0 and 3600000000000, one hour.$"):
            request(duration)
    assert not device.busy()


def test_spin_takes_at_least_its_time() -> None:
    start = _timer.now_ns()
    Device.spin(1_000_000)
    assert _timer.now_ns() - start >= 1_000_000


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "keep = device.submit_hook(1)",
        "import threading; threading.Thread(target=device.wait, daemon=True).start()",
        "import sys; sys.exit(0)",
        "del device",
    ],
)
def test_the_interpreter_exits_with_work_queued(ending: str) -> None:
    program = f"from pykvbench._simulated_device import Device\ndevice = Device()\ndevice.submit({LONG})\n{ending}\n"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
