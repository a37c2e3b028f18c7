"""Hooks that misbehave: they vanish, raise, signal, change what they were given, or run in another interpreter."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from pykvbench import _timer
from pykvbench._simulated_device import Device


def rows(count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.full((count, 3), -7, np.int64)


def test_hooks_that_lose_their_last_name_while_they_run_stay_alive() -> None:
    hooks: dict[str, Any] = {}

    class Step:
        def __call__(self, *_: object) -> list[int]:
            hooks.clear()
            gc.collect()
            return [1]

    hooks.update(step=Step(), sync=Step(), prepare=Step())
    out = rows(5)
    result: object = _timer.run(*(hooks.pop(name) for name in ("step", "sync")), out, hooks.pop("prepare"))
    assert result == [1]
    assert (out > 0).all()


def test_a_capsule_that_loses_its_last_name_while_it_serves_stays_alive() -> None:
    device = Device()
    held = [device.submit_hook(1000)]
    wait = device.wait_hook()

    def prepare() -> None:
        held.clear()
        gc.collect()

    del device
    out = rows(4)
    _timer.run(held.pop(), wait, out, prepare)
    assert (out[:, 2] - out[:, 0] >= 1000).all()


def test_an_out_that_loses_its_last_name_is_written_to_the_end() -> None:
    held = [rows(3)]
    seen: list[int] = []

    def step() -> None:
        held.clear()
        gc.collect()
        seen.append(1)

    _timer.run(step, lambda _: None, held.pop())
    assert len(seen) == 3


def test_an_out_cannot_be_shrunk_under_the_loop() -> None:
    out = rows(1000)

    def step() -> None:
        out.resize((1, 3))

    with pytest.raises(ValueError, match="resize"):
        _timer.run(step, lambda _: None, out)
    assert out.shape == (1000, 3)


def test_runs_may_be_nested() -> None:
    inner, outer = rows(3), rows(3)

    def step() -> object:
        return _timer.run(lambda: 5, lambda _: None, inner)

    assert _timer.run(step, lambda _: None, outer) == 5
    assert (outer[-1, 0] <= inner).all()
    assert (inner <= outer[-1, 1]).all()


def test_a_hook_may_raise_anything() -> None:
    class Odd(BaseException):
        pass

    for error in (Odd, SystemExit, GeneratorExit, MemoryError, StopIteration):

        def step(error: type[BaseException] = error) -> None:
            raise error

        with pytest.raises(error):
            _timer.run(step, lambda _: None, rows(2))


def test_a_signal_in_any_hook_is_handled_before_the_next_sample() -> None:
    def handle(number: int, frame: object) -> None:
        raise InterruptedError("seen")

    previous = signal.signal(signal.SIGUSR1, handle)
    try:
        for role in ("step", "sync", "prepare"):

            def interrupt(*_: object) -> None:
                os.kill(os.getpid(), signal.SIGUSR1)

            hooks: dict[str, Any] = {"step": lambda: None, "sync": lambda _: None, "prepare": lambda: None}
            out = rows(50)
            with pytest.raises(InterruptedError, match="seen"):
                _timer.run(**{**hooks, role: interrupt}, out=out)
            assert (out[2:] == 0).all()
    finally:
        signal.signal(signal.SIGUSR1, previous)


def test_threads_may_time_at_once_into_rows_of_their_own() -> None:
    device = Device()
    outs = [rows(200) for _ in range(4)]

    def work(out: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        _timer.run(device.submit_hook(1000), device.wait_hook(), out)

    threads = [threading.Thread(target=work, args=(out,)) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((np.diff(out, axis=1) >= 0).all() for out in outs)
    assert all((out[:, 2] - out[:, 0] >= 1000).all() for out in outs)


def test_results_that_free_each_other_are_released_once() -> None:
    freed: list[int] = []

    class Node:
        def __init__(self, number: int) -> None:
            self.number, self.other = number, self

        def __del__(self) -> None:
            freed.append(self.number)

    numbers = iter(range(100))
    _timer.run(lambda: Node(next(numbers)), lambda _: None, rows(20))
    gc.collect()
    assert sorted(freed) == list(range(20))


IN_ANOTHER = """
import sys
try:
    import _interpreters as interpreters  # 3.13
except ImportError:
    import _xxsubinterpreters as interpreters
program = '''
from pykvbench import _timer
from pykvbench._simulated_device import Device
device = Device()
device.submit(1000)
device.wait()
assert not device.busy()
assert _timer.now_ns() > 0 and _timer.clock()["monotonic"]
hook = device.submit_hook(60_000_000_000)
del device, hook
'''
for _ in range(3):
    made = interpreters.create()
    run = getattr(interpreters, "exec", None) or interpreters.run_string
    failed = run(made, program)
    if failed:
        sys.exit(str(failed))
    interpreters.destroy(made)
print("well")
"""


@pytest.mark.skipif(
    sys.version_info < (3, 12), reason="pybind11 supports interpreters beside the main one from 3.12 on"
)
def test_each_interpreter_of_a_process_may_import_the_modules() -> None:
    done = subprocess.run([sys.executable, "-c", IN_ANOTHER], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("well\n", 0), done.stderr
