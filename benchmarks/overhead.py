"""What the harness itself costs a sample, against a loop in Python, and how exactly it measures known durations.

    python benchmarks/overhead.py [--json]

Blocks of every kind are interleaved in random order in one process, so that a bad moment falls on all of them alike.
A window is completed - started: three stamps, two calls. With functions written in Python as step and sync it holds
their own two frames as well; with builtins it is the harness alone. A pitch is start to start: a sample's whole cost.
torch.utils.benchmark stamps blocks, not samples, so it has a median and no tail; it comes last, if torch is installed.
Exit status 1 when a claim does not hold in this run.
"""

from __future__ import annotations

import ctypes
import gc
import json
import random
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from pykvbench import _timer
from pykvbench._simulated_device import Device

Stamps = npt.NDArray[np.int64]
BLOCKS = 300
SAMPLES = 2000  # a block of 0.2 to 6 ms, 2 samples of it beyond its p99.9


@dataclass(frozen=True)
class Row:
    """One kind of measurement; nanoseconds, None where this kind has no such figure."""

    name: str
    samples: int
    window_ns: float
    window_p999_ns: float | None
    pitch_ns: float | None


def empty_step() -> None:
    """Do nothing."""


def empty_sync(result: object) -> None:
    """Do nothing with a result."""


def allocating_step() -> list[list[int]]:
    """Fifty objects that the cyclic collector tracks."""
    return [[i] for i in range(50)]


def empty_hook() -> Any:
    """A native hook that does nothing: C's free() of the capsule's context, which is null."""
    free = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(free, b"pykvbench.hook", None)


def python_loop(step: Callable[[], object], sync: Callable[[object], object], count: int) -> Stamps:
    """The loop that one writes without an extension, with the same three stamps."""
    rows: list[tuple[int, int, int]] = []
    for _ in range(count):
        started = perf_counter_ns()
        result = step()
        dispatched = perf_counter_ns()
        sync(result)
        completed = perf_counter_ns()
        rows.append((started, dispatched, completed))
    return np.array(rows, np.int64)


def harness(step: Any, sync: Any, count: int) -> Stamps:
    """The same by the extension."""
    out = np.empty((count, 3), np.int64)
    _timer.run(step, sync, out)
    return out


def interleave(kinds: dict[str, Callable[[], Stamps]], blocks: int, collect: bool) -> dict[str, list[Stamps]]:
    """Run every kind `blocks` times, shuffled within each round, the cyclic collector on or off."""
    stamps: dict[str, list[Stamps]] = {name: [] for name in kinds}
    rng = random.Random(0)
    gc.collect()
    (gc.enable if collect else gc.disable)()
    try:
        for _ in range(blocks):
            for name in rng.sample(list(kinds), len(kinds)):
                stamps[name].append(kinds[name]())
    finally:
        gc.enable()
    return stamps


def tail(blocks: list[Stamps]) -> float:
    """p99.9 of all windows."""
    return float(np.percentile(np.concatenate([block[:, 2] - block[:, 0] for block in blocks]), 99.9))


def summary(name: str, blocks: list[Stamps]) -> Row:
    """Median and tail over all samples of all blocks."""
    window = np.concatenate([block[:, 2] - block[:, 0] for block in blocks])
    pitch = np.concatenate([np.diff(block[:, 0]) for block in blocks])
    return Row(name, len(window), float(np.median(window)), tail(blocks), float(np.median(pitch)))


def won(harness_blocks: list[Stamps], loop_blocks: list[Stamps]) -> str:
    """In how many rounds the harness's tail was below the loop's, and in how many above."""
    pairs = [(tail([a]), tail([b])) for a, b in zip(harness_blocks, loop_blocks, strict=True)]
    return f"{sum(a < b for a, b in pairs)} below, {sum(a > b for a, b in pairs)} above, of {len(pairs)} rounds"


def torch_rows() -> list[Row]:
    """The empty and the allocating step by torch.utils.benchmark."""
    try:
        from torch.utils import benchmark
    except ImportError:
        return []
    rows = []
    for name, step in (("empty", empty_step), ("allocating", allocating_step)):
        timer = benchmark.Timer("sync(step())", globals={"step": step, "sync": empty_sync})
        measured = timer.blocked_autorange(min_run_time=0.5)
        calls = measured.number_per_run * len(measured.times)
        rows.append(Row(f"{name}: torch.utils.benchmark", calls, measured.median * 1e9, None, None))
    return rows


def measure() -> dict[str, Any]:
    """Every row and every claim."""
    native, builtin = empty_hook(), [].clear  # calls without a Python frame: what is left is the harness
    empty = interleave(
        {
            "empty: harness, builtins": lambda: harness(builtin, callable, SAMPLES),
            "empty: harness": lambda: harness(empty_step, empty_sync, SAMPLES),
            "empty: harness, native hooks": lambda: harness(native, native, SAMPLES),
            "empty: Python loop": lambda: python_loop(empty_step, empty_sync, SAMPLES),
        },
        BLOCKS,
        collect=False,
    )
    allocating = interleave(
        {
            "allocating: harness": lambda: harness(allocating_step, empty_sync, SAMPLES),
            "allocating: Python loop": lambda: python_loop(allocating_step, empty_sync, SAMPLES),
        },
        BLOCKS // 3,
        collect=True,
    )
    device = Device()
    durations = {"simulated: 200 us": 200_000, "simulated: 2 ms": 2_000_000}
    simulated = interleave(
        {
            name: lambda ns=ns: harness(lambda: device.submit(ns), lambda _: device.wait(), 25)  # type: ignore[misc]
            for name, ns in durations.items()
        },
        16,
        collect=False,
    )
    rows = {name: summary(name, blocks) for name, blocks in {**empty, **allocating, **simulated}.items()}
    errors = {name: rows[name].window_ns / ns - 1 for name, ns in durations.items()}
    kinds = ("empty: harness, builtins", "empty: harness, native hooks")
    claims = {f"{kind}: at most 100 ns at the median": rows[kind].window_ns <= 100 for kind in kinds}
    for kind in ("empty", "allocating"):
        loop = rows[f"{kind}: Python loop"].window_p999_ns
        own = rows[f"{kind}: harness"].window_p999_ns
        claims[f"{kind} step: p99.9 below the Python loop's"] = own is not None and loop is not None and own < loop
    claims.update({f"{name} within 1 % at the median": abs(error) <= 0.01 for name, error in errors.items()})
    return {
        "clock": _timer.clock(),
        "rows": [asdict(row) for row in [*rows.values(), *torch_rows()]],
        "tail_by_round": {
            "empty": won(empty["empty: harness"], empty["empty: Python loop"]),
            "allocating": won(allocating["allocating: harness"], allocating["allocating: Python loop"]),
        },
        "simulated_error": errors,
        "claims": claims,
    }


def table(result: dict[str, Any]) -> str:
    """The result for people."""
    clock = result["clock"]
    lines = [f"{clock['name']}: resolution {clock['resolution_ns']} ns, one reading {clock['overhead_ns']} ns", ""]
    lines.append(f"{'ns per sample':<34}{'samples':>9}{'median':>12}{'p99.9':>12}{'pitch':>12}")
    for row in result["rows"]:
        cells = (row["window_ns"], row["window_p999_ns"], row["pitch_ns"])
        figures = "".join(f"{'-' if cell is None else f'{cell:,.0f}':>12}" for cell in cells)
        lines.append(f"{row['name']:<34}{row['samples']:>9}{figures}")
    lines.append("")
    lines += [f"p99.9 by round, {kind} step: {text}" for kind, text in result["tail_by_round"].items()]
    lines += [f"{name}: {error:+.3%} at the median" for name, error in result["simulated_error"].items()]
    lines += [f"{'holds' if holds else 'FAILS'}: {claim}" for claim, holds in result["claims"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    outcome = measure()
    print(json.dumps(outcome, indent=2) if "--json" in sys.argv[1:] else table(outcome))
    sys.exit(0 if all(outcome["claims"].values()) else 1)
