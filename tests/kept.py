"""Takes KV out of small caches and puts it back, in this process, and prints what came of it: kept.py BACKEND."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pykvbench import kvfile
from pykvbench.cell import CACHES, NO_CACHE, Cell
from pykvbench.drivers.driver import Driver
from pykvbench.drivers.numpy_driver import numerics_error, reference
from pykvbench.drivers.numpy_model import model_reference
from pykvbench.drivers.opening import open_driver
from pykvbench.geometry import DTYPES, Geometry
from pykvbench.kvfile import HOST_DTYPES, Label, Layers
from pykvbench.weights import tokens

SEED = 3
GROUPED = (2, 2, 4, 2, 8)
LENGTHS = (255, 512)  # `chunked` grows with the second step after 255, and with the first after 512
STEPS = 3
CAPACITY = 520


def outputs(driver: Driver) -> list[Any]:
    """What the next steps give."""
    found = []
    for step in range(STEPS):
        if step:
            driver.advance()
        result = driver.step()
        driver.sync(result)
        found.append(driver.outputs(result))
    return found


def same(first: Any, second: Any) -> bool:
    """Whether two lists of arrays, or of pairs of arrays, are equal bit for bit."""
    pairs = zip(itertools.chain(*first), itertools.chain(*second), strict=True)
    return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)


def prefill(driver: Any, length: int, chunk: int) -> Any:
    """Compute a prompt by chunks; the last one's result."""
    driver.reset(0)
    result = None
    for first in range(0, length, chunk):
        result = driver.prefill(min(chunk, length - first))
    return result


def negated(layers: Layers) -> Any:
    """Other rows of the same shape: every sign turned over."""
    bits = {2: 0x8000, 4: 0x80000000}
    turned = []
    for pair in layers:
        words = [rows.view(f"u{rows.itemsize}") ^ bits[rows.itemsize] for rows in pair]
        turned.append(tuple(word.view(rows.dtype) for word, rows in zip(words, pair, strict=True)))
    return turned


def expected(cell: Cell, length: int) -> Any:
    """The float64 reference of the step after `length` tokens."""
    if cell.body == "attention":
        return reference(cell.geometry, [length + 1], SEED)[0]
    ids = tokens(cell, length + 1, SEED) if cell.body == "model" else None
    return model_reference(cell, [length + 1], SEED, ids)[0]


def attempt(cell: Cell, length: int, driver: Any) -> dict[str, Any]:
    """Everything about one cell at one length."""
    driver.reset(length)
    saved, copied = driver.save(), driver.copy()
    said: dict[str, Any] = {}
    shape = (cell.geometry.batch, cell.geometry.num_kv_heads, length, cell.geometry.head_dim)
    said["shape"] = all(
        rows.shape == shape and rows.dtype == HOST_DTYPES[cell.geometry.dtype] for pair in saved for rows in pair
    )
    first = outputs(driver)
    driver.reset(262)  # longer or shorter, other rows behind
    driver.restore(saved)
    said["rows"] = same(driver.save(), saved)
    said["host"] = same(outputs(driver), first)
    with TemporaryDirectory() as folder:
        path, label = Path(folder) / "kv.safetensors", Label.of(cell, length, SEED)
        kvfile.write(path, saved, label)
        driver.restore(kvfile.read(path, label).layers)
    said["disk"] = same(driver.save(), saved) and same(outputs(driver), first)
    driver.restore(negated(saved))
    said["used"] = not same(outputs(driver)[:1], first[:1])
    driver.restore(copied)
    said["device"] = same(driver.save(), saved) and same(outputs(driver), first)
    result = prefill(driver, length, 100)
    computed = driver.save()
    if cell.body == "attention":
        said["computed rows"] = same(computed, saved)
        said["last error"] = numerics_error(driver.outputs(result), reference(cell.geometry, [length], SEED)[0])
    second = outputs(driver)
    said["error"] = numerics_error(second[0], expected(cell, length))
    driver.restore(computed)
    said["computed"] = same(outputs(driver), second)
    if cell.body == "attention":
        driver.reset(length)  # over rows from elsewhere
        said["reset"] = same(driver.save(), saved) and same(outputs(driver), first)
    return said


def cases(backend: str) -> Iterator[tuple[Cell, tuple[int, ...]]]:
    """Every dtype, kernel and policy of attention, which the other bodies share; their own part at fewer lengths."""
    for cache in CACHES:
        for dtype in DTYPES:
            lengths = LENGTHS if dtype == "float32" else LENGTHS[:1]
            yield Cell(backend, "manual", cache, Geometry(*GROUPED, dtype)), lengths
        yield Cell(backend, "fused", cache, Geometry(*GROUPED, "float32")), LENGTHS[:1]
        yield Cell(backend, "manual", cache, Geometry(*GROUPED, "float32"), "block"), LENGTHS[:1]
    yield Cell(backend, "fused", "concat", Geometry(*GROUPED, "bfloat16"), "block"), LENGTHS[:1]
    for cache in ("concat", "padded"):
        yield Cell(backend, "manual", cache, Geometry(1, 1, 2, 2, 8, "float32"), "model"), (9,)


def main(backend: str) -> dict[str, Any]:
    """What came of every case, and of a driver without a cache."""
    found = {}
    for cell, lengths in cases(backend):
        driver = open_driver(cell, CAPACITY, SEED)
        for length in lengths:
            found[f"{cell.label} {length}"] = attempt(cell, length, driver)
    uncached = open_driver(Cell(backend, "manual", NO_CACHE, Geometry(*GROUPED, "float32")), 8, SEED)
    found["uncached"] = {"none": uncached.save is None and uncached.prefill is None}
    return found


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.stdout.write(json.dumps(main(sys.argv[1])))
