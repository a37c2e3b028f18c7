"""What a copy and a sum take in MLX: the measured ceiling that a step's bandwidth is held against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from pykvbench.drivers.mlx_device import find_device, finish


def open_probes(backend: str, count: int) -> tuple[dict[str, Callable[[], object]], Callable[[Any], object]]:
    """Calls that each read and write 4 * `count` bytes in all, by name, and what waits for them.

    MLX has no copy into an array; adding 0 reads and writes as much, into a buffer from the pool.
    """
    device = find_device(backend)
    buffer = mx.ones(count, dtype=mx.float32, stream=device)  # [count]
    source, zero = mx.array(buffer[: count // 2]), mx.array(0.0)
    mx.eval(buffer, source, zero)
    return {"copy": lambda: mx.add(source, zero), "sum": lambda: mx.sum(buffer)}, finish(device)
