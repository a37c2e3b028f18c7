"""The decode step in MLX, for its GPU backends and the CPU alike.

torch_driver.py and mlx_driver.py are the same step in the two frameworks: the same names in the same order, so that
`diff` shows the frameworks' spelling and nothing else. A step is one token through num_layers distinct caches:

    k, v = cache.update(k_new, v_new);  o = attention(x, k, v);  x = query + o

The sum makes each layer's query depend on the layer before, so that no two layers can overlap. It starts from the
same query in every layer, not from the sum so far: queries stay of unit size, and rounding errors do not pile up
(with a running sum, 48 layers of bfloat16 ended 59 % off at 8 keys, correctly computed). What happens between steps
is in reset and advance; the two kernels are in mlx_attention.py.
"""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from pykvbench.cell import Cell
from pykvbench.drivers.driver import Driver, Sequences
from pykvbench.drivers.mlx_attention import Array
from pykvbench.drivers.mlx_cache import CACHES, DTYPES, Cached, contiguous, upload
from pykvbench.drivers.mlx_device import (
    check_dtype,
    counters,
    describe,
    device_times,
    find_device,
    finish,
    fix_settings,
    restart_peak,
)
from pykvbench.drivers.mlx_work import open_work
from pykvbench.errors import DriverError
from pykvbench.values import keys_and_values, query

Sources = list[tuple[Array, Array]]


class Decoder(Cached):
    """The layers' caches, the query and the mask of one cell, and the step over them."""

    def __init__(
        self, cell: Cell, capacity: int, seed: int, device: mx.Device, sources: Sources | None = None
    ) -> None:  # fmt: skip
        super().__init__(cell)
        geometry, dtype = cell.geometry, DTYPES[cell.geometry.dtype]
        self.capacity = capacity
        self.length = self.ready = -1
        self.x = upload(query(geometry, seed), dtype, device)  # [B, H, 1, D]
        if cell.cache == "padded":
            self.mask = upload(np.zeros((1, 1, 1, capacity), np.float32), dtype, device)  # [1, 1, 1, capacity]
        rows = source_rows(cell, capacity, seed, device) if sources is None else sources
        self.caches = [CACHES[cell.cache](k, v) for k, v in rows]
        self.rows: list[tuple[Array, Array]] = []
        self.device, self.live = device, 0
        self.finish = finish(device)

    def reset(self, length: int) -> None:
        for cache in self.caches:
            cache.reset(length)
        self.begin(length)

    def begin(self, length: int) -> None:
        if self.mask is not None:
            self.mask[:, :, :, :length] = 0.0
            self.mask[:, :, :, length:] = -math.inf
        self.length = length
        self.advance()

    def advance(self) -> None:
        n = self.length
        if not 0 <= n < self.capacity:
            raise DriverError(f"Token {n} is outside this driver's {self.capacity}; open it with a larger capacity.")
        if n != self.ready:
            self.rows = [
                (
                    contiguous(cache.k_rows[:, :, n : n + 1]),
                    contiguous(cache.v_rows[:, :, n : n + 1]),
                )  # [B, Hkv, 1, D]
                for cache in self.caches
            ]
            self.ready = n
        self.finish([*self.buffers(), *(row for pair in self.rows for row in pair), self.mask, self.x])
        self.live = restart_peak(self.device)

    def step(self) -> list[Array]:
        if self.mask is not None:
            self.mask[:, :, :, self.length : self.length + 1] = 0.0  # one element a step, shared by the layers
        x, results = self.x, []
        for cache, (k_new, v_new) in zip(self.caches, self.rows, strict=True):
            k, v = cache.update(k_new, v_new)  # [B, Hkv, L, D]
            o = self.attention(x, k, v)  # [B, H, 1, D]
            results.append(o)
            x = self.x + o
        results.append(x)  # so that the last sum is computed in a lazy framework too
        self.length += 1
        return results

    def prefill(self, count: int) -> list[Array]:
        """Attend the prompt's next `count` tokens, keep their rows, and finish: the step's results for the last."""
        first, last = self.length, self.length + count
        self.hide_later(first, last, self.x)
        x, results = mx.repeat(self.x, count, axis=2), []  # [B, H, N, D]
        for cache in self.caches:
            rows = (contiguous(cache.k_rows[:, :, first:last]), contiguous(cache.v_rows[:, :, first:last]))
            k, v = cache.extend(*rows)  # [B, Hkv, L, D]
            o = self.prompt.attention(x, k, v)  # [B, H, N, D]
            results.append(o[:, :, -1:])
            x = self.x + o
        results.append(x)
        self.finish(results)
        self.prompt.mask = None  # at 32k keys as large as one layer's K
        self.begin(last)
        return results

    def memory(self) -> dict[str, int]:
        """Bytes: live (tensors), driver (taken from the system), peak (of live, above what reset left)."""
        return counters(self.device, self.live, self.buffers())

    def outputs(self, results: list[Array]) -> npt.NDArray[np.float64]:
        stacked = mx.stack(results[:-1]).astype(mx.float32)  # [num_layers, B, H, 1, D]
        return np.array(stacked)[:, :, :, 0].astype(np.float64)  # [num_layers, B, H, D]


def open_driver(cell: Cell, capacity: int, seed: int) -> Driver:
    """Make the cell's caches, able to hold `capacity` tokens, and everything needed to step them.

    Raises BackendUnavailable when the device is missing or cannot hold the dtype. Changes settings of the process
    (inference mode, matmul precision), which `describe` records.
    """
    device = find_device(cell.backend)
    settings = fix_settings(device)
    check_dtype(cell, DTYPES[cell.geometry.dtype], device)
    return _driver(Decoder(cell, capacity, seed, device), {**describe(device), **settings})


def open_sequences(cell: Cell, capacity: int, seed: int) -> Sequences:
    """Make what drivers of single sequences share, and no cache yet: sequence n's tokens are rows n and on.

    Raises BackendUnavailable as open_driver does.
    """
    device = find_device(cell.backend)
    settings = fix_settings(device)
    check_dtype(cell, DTYPES[cell.geometry.dtype], device)
    sources, said = source_rows(cell, capacity, seed, device), {**describe(device), **settings}
    finish(device)([rows for pair in sources for rows in pair])

    def sequence(number: int, room: int) -> Driver:
        mine = [(k[:, :, number : number + room], v[:, :, number : number + room]) for k, v in sources]
        return _driver(Decoder(cell, room, seed, device, mine), said)

    def memory() -> dict[str, int]:
        return counters(device, 0, [])

    return Sequences(sequence, memory, said)


def _driver(decoder: Decoder, said: dict[str, Any]) -> Driver:
    """What the worker is given of one decoder."""
    step, device_ns = device_times(decoder.device, decoder.step)
    return Driver(
        reset=decoder.reset,
        advance=decoder.advance,
        step=step,
        sync=decoder.finish,
        outputs=decoder.outputs,
        memory=decoder.memory,
        describe=said,
        device_ns=device_ns,
        work=open_work(decoder.device),
        prefill=decoder.prefill,
        save=decoder.save,
        copy=decoder.copy,
        restore=decoder.restore,
    )


def source_rows(cell: Cell, capacity: int, seed: int, device: mx.Device) -> Sources:
    """The keys and values of every layer's first `capacity` tokens, on the device: [B, Hkv, capacity, D] each."""
    dtype, sources = DTYPES[cell.geometry.dtype], []
    for layer in range(cell.geometry.num_layers):
        k, v = keys_and_values(cell.geometry, layer, capacity, seed)
        sources.append((upload(k, dtype, device), upload(v, dtype, device)))
    return sources
