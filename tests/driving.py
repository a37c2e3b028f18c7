"""What the tests do with a torch or MLX driver, each in a fresh process, because the two never share one.

A test calls in_fresh_process(name, backend); the function of that name runs there and its result comes back as JSON.
"""

from __future__ import annotations

import ast
import gc
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import pykvbench
from pykvbench.cell import CACHES, KERNELS, Cell
from pykvbench.drivers.driver import Driver
from pykvbench.drivers.numpy_driver import numerics_error, reference
from pykvbench.drivers.opening import open_driver
from pykvbench.errors import PykvbenchError
from pykvbench.geometry import DTYPES, Geometry

PACKAGE = Path(pykvbench.__file__).parent
CAPACITY = 600
LENGTHS = (256, 1, 513, 257, 2, 255, 512, 37, 258)  # around every growth of `chunked`, up and down
SHAPES = {"plain": (1, 2, 4, 4, 16), "grouped": (1, 3, 6, 2, 16), "batched grouped": (2, 2, 4, 1, 32)}


@lru_cache
def in_fresh_process(name: str, *arguments: str) -> Any:
    """Run one of this module's functions in a new interpreter, once for all the tests that ask for it."""
    # One thread: spinning workers on a loaded machine made these tests ten times slower.
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, __file__, name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def everything(backend: str) -> dict[str, Any]:
    """All that is asked of a framework, in the one process that pays for its import."""
    parts = (description, visits, trajectories, faults, memory, refusals, attributes)
    return {part.__name__: part(backend) for part in parts}


def cases() -> Iterator[tuple[str, str, str, str]]:
    """Every shape, dtype, kernel and cache policy."""
    return itertools.product(SHAPES, DTYPES, KERNELS, CACHES)


def visits(backend: str) -> dict[str, dict[int, float]]:
    """The numerics error of every case at each length, visited in no order, the second of two samples at each."""
    errors: dict[str, dict[int, float]] = {}
    for shape, dtype in itertools.product(SHAPES, DTYPES):
        geometry = Geometry(*SHAPES[shape], dtype)
        expected = reference(geometry, LENGTHS, 5)
        for kernel, cache in itertools.product(KERNELS, CACHES):
            driver = open_driver(Cell(backend, kernel, cache, geometry), CAPACITY, 5)
            found = errors[f"{shape} {dtype} {kernel} {cache}"] = {}
            for row, length in enumerate(LENGTHS):
                for _ in range(2):
                    result = _sample(driver, length)
                found[length] = numerics_error(driver.outputs(result), expected[row])
    return errors


def trajectories(backend: str) -> dict[str, list[float]]:
    """The error of each of 300 steps after a prompt of 3 tokens, then, after a visit elsewhere, of 10 once more."""
    geometry = Geometry(*SHAPES["grouped"], "float32")
    expected = reference(geometry, range(4, 304), 5)
    errors = {}
    for kernel, cache in itertools.product(KERNELS, CACHES):
        driver = open_driver(Cell(backend, kernel, cache, geometry), 303, 5)
        found = errors[f"{kernel} {cache}"] = []
        for steps in (300, 10):
            driver.reset(3)
            for row in range(steps):
                if row:
                    driver.advance()
                result = driver.step()
                driver.sync(result)
                found.append(numerics_error(driver.outputs(result), expected[row]))
            _sample(driver, 20)
    return errors


def faults(backend: str) -> dict[str, float]:
    """The error at 300 keys when a step goes wrong: a row not written, a padding row attended."""
    errors = {}
    for dtype in DTYPES:
        geometry = Geometry(*SHAPES["plain"], dtype)
        expected = reference(geometry, [300], 5)[0]
        for cache in CACHES:
            driver = open_driver(Cell(backend, "manual", cache, geometry), CAPACITY, 5)
            decoder: Any = driver.step.__self__  # type: ignore[attr-defined]
            driver.reset(299)
            driver.step()
            driver.advance()
            _error(driver, expected)
            driver.reset(299)  # from two tokens further: the row of token 299 must be forgotten
            zeros = [(k * 0, v * 0) for k, v in decoder.rows]
            for layer in decoder.caches:
                layer.update = _without_writing(layer, cache)
            decoder.rows = zeros
            errors[f"{dtype} {cache} unwritten"] = _error(driver, expected)
        driver = open_driver(Cell(backend, "manual", "padded", geometry), CAPACITY, 5)
        driver.reset(299)
        decoder = driver.step.__self__  # type: ignore[attr-defined]
        decoder.mask[:, :, :, 300:301] = 0.0
        errors[f"{dtype} padded over-read"] = _error(driver, expected)
    return errors


def memory(backend: str) -> dict[str, Any]:
    """Counters around the second of two steps and how many of the 8 buffers moved, by policy, at 300 and 257 keys."""
    geometry = Geometry(1, 4, 4, 4, 64, "float32")
    found: dict[str, Any] = {"row": 4 * 64 * 4, "layers": 4}
    for cache, length in itertools.product(CACHES, (300, 257)):
        driver = open_driver(Cell(backend, "manual", cache, geometry), 1024, 5)
        _sample(driver, length)
        gc.collect()
        driver.reset(length - 1)
        before, place = driver.memory(), _addresses(driver)
        result = driver.step()
        driver.sync(result)
        moved = sum(was != now for was, now in zip(place, _addresses(driver), strict=True))
        found[f"{cache} {length}"] = {"before": before, "after": driver.memory(), "moved": moved}
    return found


def description(backend: str) -> dict[str, Any]:
    """What the driver says of itself, and what the framework says once it is open."""
    driver = open_driver(Cell(backend, "manual", "prealloc", Geometry(*SHAPES["plain"], "float32")), 8, 5)
    said = dict(driver.describe)
    json.dumps(said)
    return said


def refusals(backend: str) -> dict[str, str]:
    """The kind and words of each error: a token beyond the capacity, devices that are missing, a forbidden variable."""
    tries = [("capacity", backend, "0")]
    if backend == "cpu":
        tries += [("mps", "mps", "0"), ("cuda", "cuda", "0"), ("fallback", "mps", "1")]
    found = {}
    for name, device, fallback in tries:
        os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] = fallback
        try:
            open_driver(Cell(device, "manual", "prealloc", Geometry(*SHAPES["plain"], "float32")), 8, 5).reset(8)
        except PykvbenchError as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


# What only a device would call, so that no other test here would miss it.
ON_A_DEVICE = {
    "torch": [
        *(f"mps.{name}" for name in ("synchronize", "current_allocated_memory", "driver_allocated_memory")),
        *(f"backends.mps.{name}" for name in ("is_available", "get_name", "get_core_count")),
        *(f"cuda.{name}" for name in ("synchronize", "is_available", "memory_allocated", "memory_reserved", "Event")),
        *(f"cuda.{name}" for name in ("reset_peak_memory_stats", "max_memory_allocated", "get_device_capability")),
    ],
    "mlx.core": ["device_info", "get_active_memory", "get_cache_memory", "get_peak_memory", "reset_peak_memory"],
}


def attributes(backend: str) -> list[str]:
    """Every name of the framework that its files use and the installed package does not have."""
    framework, root = ("torch", "torch") if backend == "cpu" else ("mlx", "mlx.core")
    used = {"torch.cuda.Event.record", "torch.cuda.Event.elapsed_time"} if backend == "cpu" else set()
    for path in (PACKAGE / "drivers").glob(f"{framework}_*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        modules = {
            name.asname or name.name: name.name
            for node in nodes
            if isinstance(node, ast.Import)
            for name in node.names
            if name.name.partition(".")[0] == framework
        }
        for name in (ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)):
            alias, _, rest = name.partition(".")
            if alias in modules and "(" not in rest:
                used.add(f"{modules[alias]}.{rest}")
    assert {f"{root}.{name}" for name in ON_A_DEVICE[root]} <= used
    return sorted(name for name in used if not _resolves(name))


def loaded_frameworks() -> list[str]:
    """What importing everything a parent process needs has loaded."""
    import pykvbench.drivers.availability
    import pykvbench.drivers.opening

    pykvbench.drivers.availability.availability("cuda")
    return [name for name in ("torch", "mlx", "mlx.core") if name in sys.modules]


def _sample(driver: Driver, length: int) -> object:
    driver.reset(length - 1)
    result = driver.step()
    driver.sync(result)
    return result


def _error(driver: Driver, expected: Any) -> float:
    result = driver.step()
    driver.sync(result)
    error = numerics_error(driver.outputs(result), expected)
    return min(error, 1e9)  # JSON has no infinity


def _addresses(driver: Driver) -> list[int]:
    """Where each cache's buffer lies in memory."""
    buffers = driver.step.__self__.buffers()  # type: ignore[attr-defined]
    return [b.data_ptr() if hasattr(b, "data_ptr") else np.array(b, copy=False).ctypes.data for b in buffers]


def _without_writing(layer: Any, cache: str) -> Any:
    """An update that returns what the policy would, its new row never written."""
    original = layer.update

    def update(k_new: Any, v_new: Any) -> Any:
        if cache == "concat":
            return original(k_new, v_new)  # with rows of zeros: memory that was only reserved
        n = layer.length
        layer.length = layer.filled = n + 1
        return (layer.k, layer.v) if cache == "padded" else (layer.k[:, :, : n + 1], layer.v[:, :, : n + 1])

    return update


def _resolves(name: str) -> bool:
    """Whether a dotted name leads from an installed module to something that it has."""
    parts = name.split(".")
    last = next(n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in sys.modules)
    value: Any = sys.modules[".".join(parts[:last])]
    for part in parts[last:]:
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True


if __name__ == "__main__":
    sys.stdout.write(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])) + "\n")
