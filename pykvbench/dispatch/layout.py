"""What a cache policy hands to the kernel: how many keys, in how large a buffer, and whether the view is contiguous."""

from __future__ import annotations

from dataclasses import dataclass

from pykvbench.cell import Cell

CHUNK = 256  # tokens by which the chunked cache grows, as in mlx-lm's KVCache


@dataclass(frozen=True)
class Layout:
    """K and V of one layer as the kernel sees them: a view [B, Hkv, keys, D] of a buffer [B, Hkv, capacity, D].

    contiguous   strides are those of a fresh [B, Hkv, keys, D] tensor
    whole        the view covers its whole buffer
    masked       a mask of the query's dtype hides the keys past the length
    """

    keys: int
    capacity: int
    contiguous: bool
    whole: bool
    masked: bool


def layout(cell: Cell, length: int, capacity: int) -> Layout:
    """The layout at `length` keys; `capacity` is the room in tokens of a fixed buffer (prealloc, padded).

    A slice of a larger buffer is contiguous only where there is a single row of keys, B * Hkv == 1.
    """
    room = {"concat": length, "chunked": chunked_capacity(length)}.get(cell.cache, capacity)
    keys = room if cell.cache == "padded" else length
    whole = keys == room
    one_row = cell.geometry.batch * cell.geometry.num_kv_heads == 1
    return Layout(keys=keys, capacity=room, contiguous=whole or one_row, whole=whole, masked=cell.cache == "padded")


def fixed_capacity(first: int, last: int) -> int:
    """Tokens in the fixed buffers of a run over `first` to `last`: it warms up one length outside, and fills none."""
    return last + 1 if first > 1 else last + 2


def chunked_capacity(length: int) -> int:
    """Tokens a chunked cache has room for once it holds `length`: the next multiple of 256."""
    return -(-length // CHUNK) * CHUNK


def tensor_bytes_per_key(cell: Cell) -> int:
    """Bytes of one layer's K (or V) for each key."""
    shape = cell.geometry
    return shape.batch * shape.num_kv_heads * shape.head_dim * shape.itemsize
