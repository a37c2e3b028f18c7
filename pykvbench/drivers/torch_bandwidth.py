"""What a copy and a sum take in PyTorch: the measured ceiling that a step's bandwidth is held against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from pykvbench.drivers.torch_device import find_device, finish


def open_probes(backend: str, count: int) -> tuple[dict[str, Callable[[], object]], Callable[[Any], object]]:
    """Calls that each read and write 4 * `count` bytes in all, by name, and what waits for them."""
    device = find_device(backend)
    buffer = torch.ones(count, dtype=torch.float32, device=device)  # [count]
    source, target = buffer[: count // 2], torch.zeros(count // 2, dtype=torch.float32, device=device)
    return {"copy": lambda: target.copy_(source), "sum": lambda: torch.sum(buffer)}, finish(device)
