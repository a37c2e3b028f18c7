"""Extra work for a torch device, to be injected on purpose. torch_work.py and mlx_work.py are parallel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Array = torch.Tensor

BLOCK = {"cpu": 1 << 14}  # elements a call; on a GPU a call must outlast the host's time to start it
GPU_BLOCK = 1 << 22


def open_work(device: torch.device) -> Callable[[Any, int], object]:
    """work(result, n) queues n elements' worth of sines after `result`, and returns both, to be waited for together."""
    block = BLOCK.get(device.type, GPU_BLOCK)
    made: list[Array] = []  # when it is first asked for: few runs inject anything

    def work(result: Any, elements: int) -> object:
        if not made:
            made.append(torch.ones(block, device=device))
        extra = made[0]
        while elements > 0:
            extra = torch.sin(extra[:elements])
            elements -= block
        return result, extra

    return work
