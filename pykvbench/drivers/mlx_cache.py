"""The KV cache policies in MLX, and attention over caches whose rows can be taken out and put back.

torch_cache.py and mlx_cache.py are parallel line by line, as the drivers are. Rows are put back as each policy would
have left them, so that the next step does what it does after a prompt computed in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from pykvbench.cell import Cell
from pykvbench.drivers.mlx_attention import Array, Attention

DTYPES = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}
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
        self.k = full(self.k_rows, capacity, self.unwritten[0])  # [B, Hkv, capacity, D]
        self.v = full(self.v_rows, capacity, self.unwritten[1])
        self.start = self.length = self.filled = 0

    def reset(self, length: int) -> None:
        # Another sample of the same visit: the row its last step wrote may stay.
        if length != self.start or self.filled > length + 1:
            kept = self.filled if self.start >= 0 else 0  # none of rows from elsewhere
            for buffer, rows, value in zip((self.k, self.v), (self.k_rows, self.v_rows), self.unwritten, strict=True):
                buffer[:, :, kept:length] = contiguous(rows[:, :, kept:length])
                buffer[:, :, length : self.filled] = value
            self.start = self.filled = length
        self.length = length

    def update(self, k_new: Array, v_new: Array) -> tuple[Array, Array]:
        n = self.length
        self.k[:, :, n : n + 1] = k_new  # [B, Hkv, 1, D]
        self.v[:, :, n : n + 1] = v_new
        self.length = self.filled = n + 1
        return self.k[:, :, : n + 1], self.v[:, :, : n + 1]  # [B, Hkv, L, D]

    def extend(self, k_new: Array, v_new: Array) -> tuple[Array, Array]:
        first, last = self.length, self.length + k_new.shape[2]
        self.k[:, :, first:last] = k_new  # [B, Hkv, N, D]
        self.v[:, :, first:last] = v_new
        self.start, self.length, self.filled = -1, last, last
        return self.rows()

    def rows(self) -> tuple[Array, Array]:
        return self.k[:, :, : self.length], self.v[:, :, : self.length]  # [B, Hkv, L, D]

    def restore(self, k: Array, v: Array) -> None:
        half, length = k.shape[2] // 2, k.shape[2]  # two halves, because one whole buffer assigned might be shared
        for buffer, rows, value in zip((self.k, self.v), (k, v), self.unwritten, strict=True):
            buffer[:, :, :half] = rows[:, :, :half]
            buffer[:, :, half:length] = rows[:, :, half:]
            buffer[:, :, length : self.filled] = value
        self.start, self.length, self.filled = -1, length, length


class Concat:
    """Grows by concatenation, as Hugging Face's DynamicCache; the old tensor is freed within the step."""

    def __init__(self, k_rows: Array, v_rows: Array) -> None:
        self.k_rows, self.v_rows = k_rows, v_rows  # [B, Hkv, capacity, D]
        self.reset(0)

    def reset(self, length: int) -> None:
        self.k = _fresh(self.k_rows[:, :, :length])  # [B, Hkv, length, D]
        self.v = _fresh(self.v_rows[:, :, :length])

    def update(self, k_new: Array, v_new: Array) -> tuple[Array, Array]:
        self.k = _concatenate(self.k, k_new)  # [B, Hkv, L, D]
        self.v = _concatenate(self.v, v_new)
        return self.k, self.v

    def extend(self, k_new: Array, v_new: Array) -> tuple[Array, Array]:
        return self.update(k_new, v_new)

    def rows(self) -> tuple[Array, Array]:
        return self.k, self.v

    def restore(self, k: Array, v: Array) -> None:
        self.k, self.v = _fresh(k), _fresh(v)


class Chunked(Prealloc):
    """Grows by 256 rows when full, as mlx-lm's KVCache one token at a time: at L = 1, 257, 513, ..."""

    def reset(self, length: int) -> None:
        capacity = -(-length // CHUNK) * CHUNK
        if self.k.shape[2] != capacity:
            self.allocate(capacity)
        super().reset(length)

    def update(self, k_new: Array, v_new: Array) -> tuple[Array, Array]:
        if self.length == self.k.shape[2]:
            self.grow(CHUNK)
        return super().update(k_new, v_new)

    def grow(self, rows: int) -> None:
        self.k = _concatenate(self.k, full(self.k_rows, rows, 0.0))  # [B, Hkv, capacity + rows, D]
        self.v = _concatenate(self.v, full(self.v_rows, rows, 0.0))

    def extend(self, k_new: Array, v_new: Array) -> tuple[Array, Array]:
        lacking = self.length + k_new.shape[2] - self.k.shape[2]
        if lacking > 0:
            self.grow(-(-lacking // CHUNK) * CHUNK)
        return super().extend(k_new, v_new)

    def restore(self, k: Array, v: Array) -> None:
        capacity = -(-k.shape[2] // CHUNK) * CHUNK
        if self.k.shape[2] != capacity:
            self.allocate(capacity)
        super().restore(k, v)


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


class Cached(Attention):
    """Attention with a cache for every layer, whose rows can be computed from a prompt, taken out and put back.

    What comes out and goes in is, for each layer, K and V of the tokens so far: [B, Hkv, L, D] each.
    """

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell)
        self.caches: list[Prealloc | Concat] = []
        self.finish: Callable[[Any], object]
        self.prompt = Attention(cell)  # the same kernel, with a mask of its own

    def begin(self, length: int) -> None:
        """The caches hold `length` tokens from elsewhere than `reset`: get ready for the step after them."""
        raise NotImplementedError

    def buffers(self) -> list[Array]:
        return [buffer for cache in self.caches for buffer in (cache.k, cache.v)]

    def save(self) -> list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        """The rows on the host, bit for bit; bfloat16 as uint16."""
        return [(to_host(k), to_host(v)) for k, v in (cache.rows() for cache in self.caches)]

    def copy(self) -> list[tuple[Array, Array]]:
        """The rows again, in other memory of the device."""
        copies = [(_fresh(k), _fresh(v)) for k, v in (cache.rows() for cache in self.caches)]
        self.finish([rows for pair in copies for rows in pair])
        return copies

    def restore(self, layers: Sequence[tuple[Any, Any]]) -> None:
        """Put rows that `save` or `copy` gave into the caches, and finish all device work."""
        for cache, (k, v) in zip(self.caches, layers, strict=True):
            cache.restore(to_device(k, cache.k), to_device(v, cache.v))
        self.begin(int(layers[0][0].shape[2]))

    def hide_later(self, first: int, last: int, like: Array) -> None:
        """Mask for queries of tokens `first` to `last` over `last` keys: [N, L], for `manual` once a grouped head."""
        hidden = mx.full((last - first, last), -math.inf, dtype=like.dtype)
        heads = self.group if self.prompt.attention == self.prompt.manual else 1
        self.prompt.mask = mx.tile(mx.triu(hidden, first + 1), (heads, 1))


def to_host(rows: Array) -> npt.NDArray[Any]:
    """Rows in memory of the host's own; bfloat16, which NumPy lacks, as uint16."""
    is_bfloat16 = rows.dtype == mx.bfloat16
    return np.array(rows.view(mx.uint16) if is_bfloat16 else rows, order="C")


def to_device(rows: Any, like: Array) -> Array:
    """Rows from `to_host` where and as `like` is; rows that are on the device already are left there."""
    if isinstance(rows, Array):
        return rows
    if like.dtype == mx.bfloat16:
        return mx.array(rows).view(mx.bfloat16)
    return mx.array(rows)


def upload(values: npt.NDArray[np.float32], dtype: mx.Dtype, device: mx.Device) -> Array:
    """Source rows on the device. Caches are copies made there, so that nothing timed has been on the host."""
    return mx.array(values).astype(dtype, stream=device)


def full(rows: Array, capacity: int, value: float) -> Array:
    """A buffer shaped like rows [B, Hkv, any, D], with `capacity` rows of one value: [B, Hkv, capacity, D]."""
    return mx.full((*rows.shape[:2], capacity, rows.shape[3]), value, dtype=rows.dtype)


def contiguous(rows: Array) -> Array:
    """Rows as a projection leaves them. In MLX a whole buffer assigned without this would share the source's memory."""
    return mx.contiguous(rows)


def _concatenate(first: Array, second: Array) -> Array:
    """Along the tokens: [B, Hkv, m, D] and [B, Hkv, n, D] make [B, Hkv, m + n, D]."""
    return mx.concatenate([first, second], axis=2)


def _fresh(rows: Array) -> Array:
    """The same rows in contiguous memory of their own, which a concatenation always leaves: [B, Hkv, L, D]."""
    half = rows.shape[2] // 2
    return _concatenate(rows[:, :, :half], rows[:, :, half:])
