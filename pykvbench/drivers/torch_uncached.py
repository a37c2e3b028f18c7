"""The decode step without a cache in PyTorch: every layer's attention over the whole prefix, at every step.

torch_uncached.py and mlx_uncached.py are parallel line by line, as the cached drivers are. The query is that of the
cached step, repeated for every position, so the last position's outputs are the cached step's. Everything before the
last position is what a cache would have saved. Keys and values are given, as in the cached step: projecting them
again belongs to the bodies around the attention.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from pykvbench.cell import Cell
from pykvbench.drivers.driver import Driver
from pykvbench.drivers.torch_attention import Array, Attention
from pykvbench.drivers.torch_cache import DTYPES, upload
from pykvbench.drivers.torch_device import (
    check_dtype,
    counters,
    describe,
    find_device,
    finish,
    fix_settings,
    restart_peak,
)
from pykvbench.errors import DriverError
from pykvbench.values import keys_and_values, query


class Recomputer(Attention):
    """The layers' keys and values, the queries and the mask of one cell, and the step over them."""

    def __init__(self, cell: Cell, capacity: int, seed: int, device: torch.device) -> None:
        super().__init__(cell)
        geometry, dtype = cell.geometry, DTYPES[cell.geometry.dtype]
        self.attend = self.manual if cell.kernel == "manual" else self.fused_causal
        self.masked = cell.kernel == "manual"
        self.capacity = capacity
        self.length = self.ready = -1
        self.query = upload(query(geometry, seed), dtype, device)  # [B, H, 1, D]
        self.sources: list[tuple[Array, Array]] = []
        for layer in range(geometry.num_layers):
            k, v = keys_and_values(geometry, layer, capacity, seed)  # [B, Hkv, capacity, D]
            self.sources.append((upload(k, dtype, device), upload(v, dtype, device)))
        self.device, self.live = device, 0
        self.finish = finish(device)

    def reset(self, length: int) -> None:
        self.length = length
        self.advance()

    def advance(self) -> None:
        n = self.length
        if not 0 <= n < self.capacity:
            raise DriverError(f"Token {n} is outside this driver's {self.capacity}; open it with a larger capacity.")
        if n != self.ready:
            self.x = self.query.repeat(1, 1, n + 1, 1)  # [B, H, L, D]
            self.rows = [
                (_rows(k, n + 1), _rows(v, n + 1))  # [B, Hkv, L, D]
                for k, v in self.sources
            ]
            self.mask = self.causal_mask(n + 1, self.query) if self.masked else None  # [G * L, L]
            self.ready = n
        self.finish([*(row for pair in self.rows for row in pair), self.mask, self.x])
        self.live = restart_peak(self.device)

    def step(self) -> list[Array]:
        x, results = self.x, []
        for k, v in self.rows:
            o = self.attend(x, k, v)  # [B, H, L, D]
            results.append(o)
            x = self.x + o
        results.append(x)  # so that the last sum is computed in a lazy framework too
        self.length += 1
        return results

    def memory(self) -> dict[str, int]:
        """Bytes: live (tensors), driver (taken from the system), peak (of live, above what reset left)."""
        return counters(self.device, self.live, [])

    def outputs(self, results: list[Array]) -> npt.NDArray[np.float64]:
        last = torch.stack([o[:, :, -1] for o in results[:-1]]).to(torch.float32)  # [num_layers, B, H, D]
        return last.cpu().numpy().astype(np.float64)


def open_driver(cell: Cell, capacity: int, seed: int) -> Driver:
    """Make the cell's keys and values for `capacity` tokens, and everything needed to step over their prefixes.

    Raises BackendUnavailable when the device is missing or cannot hold the dtype.
    """
    device = find_device(cell.backend)
    settings = fix_settings(device)
    check_dtype(cell, DTYPES[cell.geometry.dtype], device)
    decoder = Recomputer(cell, capacity, seed, device)
    return Driver(
        reset=decoder.reset,
        advance=decoder.advance,
        step=decoder.step,
        sync=decoder.finish,
        outputs=decoder.outputs,
        memory=decoder.memory,
        describe={**describe(device), **settings},
    )


def _rows(source: Array, length: int) -> Array:
    """The first rows as a projection would leave them, contiguous: [B, Hkv, length, D]."""
    return source[:, :, :length].contiguous()
