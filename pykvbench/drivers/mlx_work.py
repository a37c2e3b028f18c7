"""Extra work for an MLX device, to be injected on purpose. torch_work.py and mlx_work.py are parallel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx

Array = mx.array

BLOCK = {mx.cpu: 1 << 14}  # elements a call; on a GPU a call must outlast the host's time to start it
GPU_BLOCK = 1 << 22


def open_work(device: mx.Device) -> Callable[[Any, int], object]:
    """work(result, n) queues n elements' worth of sines after `result`, and returns both, to be waited for together."""
    block = BLOCK.get(device.type, GPU_BLOCK)
    made: list[Array] = []  # when it is first asked for: few runs inject anything

    def work(result: Any, elements: int) -> object:
        if not made:
            made.append(mx.ones(block))
        extra = made[0] + 0.0 * result[-1].reshape(-1)[0].astype(made[0].dtype)  # MLX may run independent work at once
        while elements > 0:
            extra = mx.sin(extra[:elements])
            elements -= block
        return result, extra

    return work
