"""The decode step in PyTorch, for the CPU, CUDA and MPS alike.

torch_driver.py and mlx_driver.py are the same step in the two frameworks: the same names in the same order, so that
`diff` shows the frameworks' spelling and nothing else. A step is one token through num_layers distinct caches:

    k, v = cache.update(k_new, v_new);  o = attention(x, k, v);  x = query + o

The sum makes each layer's query depend on the layer before, so that no two layers can overlap. It starts from the
same query in every layer, not from the sum so far: queries stay of unit size, and rounding errors do not pile up
(with a running sum, 48 layers of bfloat16 ended 59 % off at 8 keys, correctly computed). What happens between steps
is in reset and advance; the two kernels are in torch_attention.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pykvbench.cell import Cell
from pykvbench.drivers.driver import Driver, Sequences
from pykvbench.drivers.resident import resident_bytes
from pykvbench.drivers.torch_attention import Attention
from pykvbench.drivers.torch_device import (
    check_dtype,
    counters,
    describe,
    device_times,
    find_device,
    finish,
    fix_settings,
    restart_peak,
)
from pykvbench.errors import DriverError
from pykvbench.values import keys_and_values, query

Array = torch.Tensor
Sources = list[tuple[Array, Array]]

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
CHUNK = 256


class Prealloc:
    """A fixed buffer of `capacity` rows: update writes one row in place and returns a slice.

    Rows without a token are NaN, so that attending one, or not writing one, cannot give a right answer.
    """

    unwritten = (math.nan, math.nan)

    def __init__(self, k_rows: Array, v_rows: Array) -> None:
        self.k_rows, self.v_rows = k_rows, v_rows  # [B, Hkv, capacity, D]
        self.allocate(k_rows.shape[2])

    def allocate(self, capacity: int) -> None:
        self.k = _full(self.k_rows, capacity, self.unwritten[0])  # [B, Hkv, capacity, D]
        self.v = _full(self.v_rows, capacity, self.unwritten[1])
        self.start = self.length = self.filled = 0

    def reset(self, length: int) -> None:
        # Another sample of the same visit: the row its last step wrote may stay.
        if length != self.start or self.filled > length + 1:
            for buffer, rows, value in zip((self.k, self.v), (self.k_rows, self.v_rows), self.unwritten, strict=True):
                buffer[:, :, self.filled : length] = _contiguous(rows[:, :, self.filled : length])
                buffer[:, :, length : self.filled] = value
            self.start = self.filled = length
        self.length = length

    def update(self, k_new: Array, v_new: Array) -> tuple[Array, Array]:
        n = self.length
        self.k[:, :, n : n + 1] = k_new  # [B, Hkv, 1, D]
        self.v[:, :, n : n + 1] = v_new
        self.length = self.filled = n + 1
        return self.k[:, :, : n + 1], self.v[:, :, : n + 1]  # [B, Hkv, L, D]


class Concat:
    """Grows by concatenation, as Hugging Face's DynamicCache; the old tensor is freed within the step."""

    def __init__(self, k_rows: Array, v_rows: Array) -> None:
        self.k_rows, self.v_rows = k_rows, v_rows  # [B, Hkv, capacity, D]
        self.reset(0)

    def reset(self, length: int) -> None:
        half = length // 2  # two halves, because a concatenation always leaves a fresh contiguous buffer
        self.k = _concatenate(self.k_rows[:, :, :half], self.k_rows[:, :, half:length])  # [B, Hkv, length, D]
        self.v = _concatenate(self.v_rows[:, :, :half], self.v_rows[:, :, half:length])

    def update(self, k_new: Array, v_new: Array) -> tuple[Array, Array]:
        self.k = _concatenate(self.k, k_new)  # [B, Hkv, L, D]
        self.v = _concatenate(self.v, v_new)
        return self.k, self.v


class Chunked(Prealloc):
    """Grows by 256 rows when full, as mlx-lm's KVCache one token at a time: at L = 1, 257, 513, ..."""

    def reset(self, length: int) -> None:
        capacity = -(-length // CHUNK) * CHUNK
        if self.k.shape[2] != capacity:
            self.allocate(capacity)
        super().reset(length)

    def update(self, k_new: Array, v_new: Array) -> tuple[Array, Array]:
        if self.length == self.k.shape[2]:
            self.k = _concatenate(self.k, _full(self.k_rows, CHUNK, 0.0))  # [B, Hkv, capacity + 256, D]
            self.v = _concatenate(self.v, _full(self.v_rows, CHUNK, 0.0))
        return super().update(k_new, v_new)


class Padded(Prealloc):
    """A fixed buffer that is attended whole; the step's mask hides the rows without a token.

    Those rows must be finite, since 0 * NaN is NaN: keys of 0 keep their weight, values of 1000 make it show.
    """

    unwritten = (0.0, 1000.0)

    def update(self, k_new: Array, v_new: Array) -> tuple[Array, Array]:
        super().update(k_new, v_new)
        return self.k, self.v  # [B, Hkv, capacity, D]


CACHES: dict[str, type[Prealloc] | type[Concat]] = {
    "prealloc": Prealloc,
    "concat": Concat,
    "chunked": Chunked,
    "padded": Padded,
}


class Decoder(Attention):
    """The layers' caches, the query and the mask of one cell, and the step over them."""

    def __init__(
        self, cell: Cell, capacity: int, seed: int, device: torch.device, sources: Sources | None = None
    ) -> None:  # fmt: skip
        super().__init__(cell)
        geometry, dtype = cell.geometry, DTYPES[cell.geometry.dtype]
        self.capacity = capacity
        self.length = self.ready = -1
        self.x = upload(query(geometry, seed), dtype, device)  # [B, H, 1, D]
        if cell.cache == "padded":
            self.mask = upload(np.zeros((1, 1, 1, capacity), np.float32), dtype, device)  # [1, 1, 1, capacity]
        rows = source_rows(cell, capacity, seed, device) if sources is None else sources
        self.caches: list[Prealloc | Concat] = [CACHES[cell.cache](k, v) for k, v in rows]
        self.rows: list[tuple[Array, Array]] = []
        self.device, self.live = device, 0
        self.finish = finish(device)

    def reset(self, length: int) -> None:
        for cache in self.caches:
            cache.reset(length)
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
                    _contiguous(cache.k_rows[:, :, n : n + 1]),
                    _contiguous(cache.v_rows[:, :, n : n + 1]),
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

    def buffers(self) -> list[Array]:
        return [buffer for cache in self.caches for buffer in (cache.k, cache.v)]

    def memory(self) -> dict[str, int]:
        """Bytes: live (tensors), driver (taken from the system), peak (of live, above what reset left), rss."""
        return {"rss": resident_bytes(), **counters(self.device, self.live, self.buffers())}

    def outputs(self, results: list[Array]) -> npt.NDArray[np.float64]:
        stacked = torch.stack(results[:-1]).to(torch.float32)  # [num_layers, B, H, 1, D]
        return stacked.cpu().numpy()[:, :, :, 0].astype(np.float64)  # [num_layers, B, H, D]


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
        return {"rss": resident_bytes(), **counters(device, 0, [])}

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
    )


def source_rows(cell: Cell, capacity: int, seed: int, device: torch.device) -> Sources:
    """The keys and values of every layer's first `capacity` tokens, on the device: [B, Hkv, capacity, D] each."""
    dtype, sources = DTYPES[cell.geometry.dtype], []
    for layer in range(cell.geometry.num_layers):
        k, v = keys_and_values(cell.geometry, layer, capacity, seed)
        sources.append((upload(k, dtype, device), upload(v, dtype, device)))
    return sources


def upload(values: npt.NDArray[np.float32], dtype: torch.dtype, device: torch.device) -> Array:
    """Source rows on the device. Caches are copies made there, so that nothing timed has been on the host."""
    return torch.from_numpy(values).to(device).to(dtype)


def _full(rows: Array, capacity: int, value: float) -> Array:
    """A buffer shaped like rows [B, Hkv, any, D], with `capacity` rows of one value: [B, Hkv, capacity, D]."""
    return torch.full((*rows.shape[:2], capacity, rows.shape[3]), value, dtype=rows.dtype, device=rows.device)


def _contiguous(rows: Array) -> Array:
    """Rows as a projection leaves them. In MLX a whole buffer assigned without this would share the source's memory."""
    return rows.contiguous()


def _concatenate(first: Array, second: Array) -> Array:
    """Along the tokens: [B, Hkv, m, D] and [B, Hkv, n, D] make [B, Hkv, m + n, D]."""
    return torch.cat((first, second), dim=2)
