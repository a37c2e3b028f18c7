"""Run in a process of its own, one a framework: how far each part's output is from the whole step's, as JSON."""

from __future__ import annotations

import json
import sys

import numpy as np

from pykvbench.cell import CACHES, KERNELS, Cell
from pykvbench.drivers.opening import open_driver, open_parts
from pykvbench.geometry import Geometry


def main(backend: str) -> dict[str, dict[str, float]]:
    found = {}
    for cache in CACHES:
        for kernel in KERNELS:
            for kv_heads in (4, 2):
                cell = Cell(backend, kernel, cache, Geometry(1, 2, 4, kv_heads, 16, "float32"))
                driver, parts = open_driver(cell, 300, 0), open_parts(cell, 300, 0)
                driver.reset(256)
                whole = driver.outputs(driver.step())
                errors = {}
                for name, part in parts.items():
                    for length in (40, 256, 256):  # another visit first, then two samples of one visit
                        part.reset(length)
                        result = part.step()
                        driver.sync(result)
                    if not name.startswith("part:"):
                        errors[name] = float(np.abs(driver.outputs(result) - whole).max())
                    elif name == "part:pv":  # chained no layer is, so that only the first one is the whole's
                        stacked = driver.outputs([*result, result[-1]])
                        errors[name] = float(np.abs(stacked[0] - whole[0]).max())
                    else:
                        errors[name] = 0.0
                found[f"{kernel} {cache} {kv_heads}"] = errors
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1])) + "\n")
