"""Whether a device can be trusted to be timed: right results, a sync that waits, time that follows work.

    python benchmarks/device_check.py [--backend mps --backend mlx]

Each backend is checked in a process of its own; without --backend, all that can run here, MLX once. Prints one table
in Markdown and exits with status 1 when a check fails. Takes less than three minutes.

numerics   every kernel, cache policy and dtype against the float64 reference, on both sides of the lengths at which
           kernels, chunks and allocator classes change
sync       after a step and its sync, a read-back costs what a second read-back of the same result costs: nothing was
           left to wait for; and where work is queued, the call alone returns sooner than the sync
work       eight times the keys take longer
bandwidth  the keys and values of a step are not read faster than the device can read: the best of a sum, an addition
           and a copy (MLX: a matrix product) over a buffer as large
memory     the counters grow by the caches when a driver is opened
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

import pykvbench
from pykvbench import _timer
from pykvbench.cell import BACKENDS, CACHES, KERNELS, Cell
from pykvbench.drivers.availability import availability
from pykvbench.drivers.numpy_driver import TOLERANCE, numerics_error, reference
from pykvbench.drivers.opening import open_driver
from pykvbench.errors import BackendUnavailable
from pykvbench.geometry import DTYPES, Geometry

SHORT = (1, 2, 31, 32, 33, 255, 256, 257, 341, 342, 513, 682, 683, 1023, 1024, 1025)
LONG = (4095, 4096, 4097, 8191, 8192, 8193)
SHAPES = {"12 x 64": (1, 2, 12, 12, 64), "batch 2, 16 sharing 2 x 128": (2, 1, 16, 2, 128)}
LARGE = Geometry(1, 4, 12, 12, 64, "float32")  # 402 MB of keys and values at the longest length
FEW, MANY = 2048, 16384
REPEATS = 7
TIMEOUT_S = 170
SEED = 5


@dataclass(frozen=True)
class Row:
    """One check of one backend, as it stands in the table."""

    check: str
    measured: str
    required: str
    passed: bool


def numerics(backend: str) -> list[Row]:
    """The worst error of each kernel and dtype, over shapes, cache policies and lengths, as a share of what is allowed.

    The longest lengths are checked with the grouped shape and one policy: they are about kernels.
    """
    worst: dict[tuple[str, str], tuple[float, str]] = {}
    refused: dict[str, str] = {}
    for (name, shape), dtype in ((item, dtype) for item in SHAPES.items() for dtype in DTYPES):
        geometry = Geometry(*shape, dtype)
        tasks = [(cache, SHORT) for cache in CACHES] + ([("prealloc", LONG)] if geometry.batch > 1 else [])
        every = SHORT + (LONG if geometry.batch > 1 else ())
        expected = dict(zip(every, reference(geometry, every, SEED), strict=True))
        for kernel in KERNELS:
            for cache, lengths in tasks:
                try:
                    driver = open_driver(Cell(backend, kernel, cache, geometry), lengths[-1] + 1, SEED)
                except BackendUnavailable as error:
                    refused[dtype] = str(error)
                    continue
                for length in lengths:
                    driver.reset(length - 1)
                    result = driver.step()
                    driver.sync(result)
                    off = numerics_error(driver.outputs(result), expected[length])
                    where = f"{name}, {cache}, L = {length}"
                    worst[kernel, dtype] = max(worst.get((kernel, dtype), (0.0, where)), (off, where))
    rows = [Row(f"numerics {dtype}", text, "not on this device", True) for dtype, text in refused.items()]
    for (kernel, dtype), (off, where) in worst.items():
        allowed = TOLERANCE[dtype]
        rows.append(Row(f"numerics {kernel} {dtype}", f"{off:.1e} at {where}", f"<= {allowed:g}", off <= allowed))
    return rows


def timing(backend: str) -> list[Row]:
    """Sync, work, bandwidth and memory, on one large shape."""
    cell = Cell(backend, "manual", "prealloc", LARGE)
    small = open_driver(cell, 8, SEED)
    small.reset(3)
    before = small.memory()
    driver = open_driver(cell, MANY + 1, SEED)
    driver.reset(MANY - 1)
    grown = {name: driver.memory()[name] - size for name, size in before.items()}

    stamps = np.zeros((REPEATS + 2, 3), dtype=np.int64)
    reads = np.zeros((REPEATS + 2, 2))
    for row in range(len(stamps)):
        result = _timer.run(driver.step, driver.sync, stamps[row : row + 1], lambda: driver.reset(MANY - 1))
        for read in range(2):
            began = _timer.now_ns()
            driver.outputs(result)
            reads[row, read] = _timer.now_ns() - began
    dispatch, many = (float(np.median(stamps[2:, stamp] - stamps[2:, 0])) for stamp in (1, 2))
    left = float(np.median(reads[2:, 0] - reads[2:, 1]))
    _timer.run(driver.step, driver.sync, stamps, lambda: driver.reset(FEW - 1))
    few = float(np.median(stamps[2:, 2] - stamps[2:, 0]))

    size = LARGE.kv_bytes(MANY)
    achieved, ceiling = size / many, ceiling_of(backend, size)
    rows = [
        Row(
            "sync leaves nothing", f"{left / many:+.1%} of a step of {many / 1e6:.2f} ms", "<= 10 %", left <= 0.1 * many
        ),
        Row("work", f"{MANY} keys take {many / few:.1f}x what {FEW} take", ">= 2x", many >= 2 * few),
        Row("bandwidth", f"{achieved:.1f} of {ceiling:.1f} GB/s", "<= 110 %", achieved <= 1.1 * ceiling),
    ]
    if backend != "cpu":  # torch computes there before the call returns
        share = dispatch / many
        rows.insert(1, Row("the call returns before", f"{share:.1%} of a step", "<= 90 %", share <= 0.9))
    held = LARGE.kv_bytes(MANY + 1)
    counters: list[str] = [name for name in ("live", "driver") if name in grown] or ["rss"]
    for name in counters:
        what = f"+{grown[name] / 1e6:.0f} MB for caches of {held / 1e6:.0f} MB"
        rows.append(Row(f"memory {name}", what, ">= 90 %", grown[name] >= 0.9 * held))
    return rows


def ceiling_of(backend: str, size: int) -> float:
    """The fastest that this device reads `size` bytes, in GB/s, counting what an addition or a copy writes as well."""
    kernels = (_mlx_kernels if backend in ("mlx", "mlx-cpu") else _torch_kernels)(backend, size // 4)
    return max(passes * size / _best(kernel) for passes, kernel in kernels)


Kernels = tuple[tuple[int, Callable[[], object]], ...]  # how often each passes over its source, and its call


def _torch_kernels(backend: str, n: int) -> Kernels:
    import torch

    from pykvbench.drivers.torch_device import finish

    source = torch.ones(n, dtype=torch.float32, device=torch.device(backend))
    target, wait = torch.ones_like(source), finish(source.device)
    return (
        (1, lambda: wait(torch.sum(source))),
        (2, lambda: wait(torch.add(source, 1, out=target))),
        (2, lambda: wait(target.copy_(source))),
    )


def _mlx_kernels(backend: str, n: int) -> Kernels:
    import mlx.core as mx

    source, ones = mx.ones((n,), dtype=mx.float32), mx.ones((1024, 1))
    mx.eval(source, ones)
    return (
        (1, lambda: mx.eval(mx.sum(source))),
        (2, lambda: mx.eval(source + 1)),
        (1, lambda: mx.eval(source.reshape(-1, 1024) @ ones)),
    )


def _best(kernel: Callable[[], object]) -> float:
    """The shortest of REPEATS calls, in ns, after one more."""
    best = math.inf
    for call in range(REPEATS + 1):
        began = _timer.now_ns()
        kernel()
        took = _timer.now_ns() - began
        best = min(best, took) if call else best
    return best


def check(backend: str) -> list[Row]:
    """Every check of one backend, in a process that has loaded no other framework."""
    command = [sys.executable, __file__, "--in-this-process", backend]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return [Row("all", "no answer", f"within {TIMEOUT_S} s", False)]
    if done.returncode:
        return [Row("all", (done.stderr.strip().splitlines() or ["no message"])[-1], "no error", False)]
    return [Row(**row) for row in json.loads(done.stdout.splitlines()[-1])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [name for name in BACKENDS if name != "simulated"]
    parser.add_argument("--backend", action="append", choices=names, help="backend to check; default: all here")
    parser.add_argument("--in-this-process", choices=names, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_this_process:
        backend = options.in_this_process
        print(json.dumps([asdict(row) for row in (*timing(backend), *numerics(backend))]))
        return
    found = [availability(name) for name in options.backend or names]
    # Without a GPU, mlx is mlx-cpu.
    here = [backend for backend in found if backend.available and (backend.backend != "mlx" or backend.gpu)]
    chosen = found if options.backend else here
    print(f"pykvbench {pykvbench.__version__}, Python {platform.python_version()}, {platform.system()}", end=" ")
    print(f"{platform.machine()}. Made by `python benchmarks/device_check.py`.\n")
    for backend in chosen:
        print(f"- {backend.backend}: {backend.reason}")
    if not any(backend.gpu for backend in chosen):
        print("\nNo GPU took part: this shows that the check works, not what it finds on Metal or CUDA.")
    print("\n| backend | check | measured | required | |\n|---|---|---|---|---|")
    failed = False
    for backend in chosen:
        rows = check(backend.backend) if backend.available else [Row("all", backend.remedy, "available", False)]
        for row in rows:
            verdict = "pass" if row.passed else "**FAIL**"
            print(f"| {backend.backend} | {row.check} | {row.measured} | {row.required} | {verdict} |", flush=True)
            failed = failed or not row.passed
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
