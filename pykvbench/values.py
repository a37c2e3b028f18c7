"""The numbers in Q, K and V: random, seeded, distinct per layer, and the same in every framework.

Token t's row depends on (seed, layer, t) alone, not on how long the cache is, so a cache of L tokens is the first L
rows whatever the policy, the capacity or the range, and one float64 reference serves every cell of a geometry.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pykvbench.geometry import Geometry

_QUERY, _KEY, _VALUE = 0, 1, 2


def query(geometry: Geometry, seed: int) -> npt.NDArray[np.float32]:
    """The first layer's query, already rounded to the geometry's dtype: [B, H, 1, D]."""
    rng = np.random.default_rng([seed, 0, _QUERY])
    shape = (geometry.batch, geometry.num_heads, 1, geometry.head_dim)
    return round_to(geometry.dtype, rng.standard_normal(shape, dtype=np.float32))


def keys_and_values(
    geometry: Geometry, layer: int, length: int, seed: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """One layer's K and V, already rounded to the geometry's dtype: [B, Hkv, length, D] each."""
    rows = (length, geometry.batch, geometry.num_kv_heads, geometry.head_dim)
    k, v = (
        np.random.default_rng([seed, layer + 1, which]).standard_normal(rows, dtype=np.float32)
        for which in (_KEY, _VALUE)
    )
    return _tokens_third(geometry, k), _tokens_third(geometry, v)


def round_to(dtype: str, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Round float32 values to the nearest `dtype` value, ties to even, and keep them as float32."""
    if dtype == "float16":
        return values.astype(np.float16).astype(np.float32)
    if dtype == "bfloat16":
        bits = values.view(np.uint32)
        return ((bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) & np.uint32(0xFFFF0000)).view(np.float32)
    return values


def _tokens_third(geometry: Geometry, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return round_to(geometry.dtype, np.ascontiguousarray(rows.transpose(1, 2, 0, 3)))  # [B, Hkv, L, D]
