"""Which kernels MLX takes on NVIDIA GPUs, for mlx 0.28.0 to 0.32.4 (backend/cuda/scaled_dot_product_attention)."""

from __future__ import annotations

import re

from pykvbench.cell import Cell
from pykvbench.dispatch.layout import CHUNK, layout
from pykvbench.dispatch.route import Environment, Route, release, unknown

OLDEST, NEWEST = (0, 28, 0), (0, 32, 4)
CUDNN_FROM = 256
TWO_PASS_FROM = 1025
EDGES = (CUDNN_FROM, TWO_PASS_FROM)


def route(cell: Cell, environment: Environment, length: int, capacity: int) -> Route:
    """The route at `length` keys; `capacity` is the room of a fixed buffer.

    K and V are not evaluated when the graph is built, so the vector kernel's conditions alone decide about fusing.
    """
    version = release(environment.mlx)
    if version is None or not OLDEST <= version <= NEWEST:
        return unknown(f"mlx {environment.mlx or 'version'} is outside the CUDA rules, which cover 0.28.0 to 0.32.4")
    shape = layout(cell, length, capacity)
    if cell.kernel == "manual" or shape.masked or cell.geometry.head_dim not in (64, 96, 128):
        return Route("decomposed", source="mlx 0.28+")
    # cuDNN serves decode since 0.31.0, and only a cache that looks like a slice of a multiple of 256 tokens.
    half, slices = cell.geometry.dtype != "float32", shape.capacity % CHUNK == 0
    fits = version >= (0, 31, 0) and half and slices and shape.keys >= CUDNN_FROM
    if fits and environment.variables.get("MLX_CUDA_USE_CUDNN_SDPA") != "0":
        capability = _capability(environment)
        if capability is None:
            return unknown(f"whether architecture {environment.architecture} can use cuDNN is not in the rules")
        if capability >= 80:
            parts = (f"plan for capacity {shape.capacity}", "depends on the allocator giving an exact buffer")
            return Route("cudnn", parts, source="mlx 0.31+, 54bb3eea4")
    if shape.keys < TWO_PASS_FROM:
        return Route("mlx cuda 1-pass", source="mlx 0.28+, a9bdd67ba")
    return Route("mlx cuda 2-pass, 32 blocks", source="mlx 0.28+, a9bdd67ba")


def _capability(environment: Environment) -> int | None:
    match = re.fullmatch(r"sm_(\d{2,3})[a-z]?", environment.architecture or "", re.ASCII)
    return int(match[1]) if match else None
