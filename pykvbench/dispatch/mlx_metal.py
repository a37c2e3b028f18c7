"""Which kernels MLX takes on Apple GPUs, for mlx 0.21.0 to 0.32.4 (backend/metal: attention, matmul, softmax).

The last letter of the architecture decides: d (ultra), s (max, some pros) and all others differ. It cannot be told from
the marketing name, so a letter that is missing or new is tried as each class, and only what all agree on is predicted.
"""

from __future__ import annotations

import re

from pykvbench.cell import Cell
from pykvbench.dispatch.layout import Layout, layout
from pykvbench.dispatch.route import Environment, Route, release, unknown

OLDEST, NEWEST = (0, 21, 0), (0, 32, 4)
EDGES = (1024, 1025, 4096, 4097, 8192, 8193, 16384, 32769, 65536, 65537)

_CLASSES = {"d": "d", "s": "s", "g": "other", "p": "other", "c": "other"}
_ARCHITECTURE = re.compile(r"applegpu_g(\d+)([a-z])", re.ASCII)
_SEGMENTS = ((8192, 128), (32768, 256), (65536, 512))

Version = tuple[int, int, int]


def route(cell: Cell, environment: Environment, length: int, capacity: int) -> Route:
    """The route at `length` keys; `capacity` is the room of a fixed buffer."""
    version = release(environment.mlx)
    if version is None or not OLDEST <= version <= NEWEST:
        return unknown(f"mlx {environment.mlx or 'version'} is outside the rules, which cover 0.21.0 to 0.32.4")
    shape = layout(cell, length, capacity)
    if cell.kernel == "manual" or not _fused(cell, version, shape, environment):
        return _decomposed(cell, version, shape.keys)
    routes = {_vector(cell, version, letter, shape, environment) for letter in device_classes(environment)}
    if len(routes) > 1:
        return unknown(f"the route of architecture {architecture(environment)} at this length is not in the rules")
    return routes.pop()


def architecture(environment: Environment) -> str | None:
    """The architecture that MLX routes by: MLX_METAL_GPU_ARCH where it is set, else the device's own."""
    return environment.variables.get("MLX_METAL_GPU_ARCH") or environment.architecture


def generation(environment: Environment) -> int | None:
    """The GPU generation in the architecture: 13 for M1, 14 for M2, 15 for M3; None when it is not known."""
    match = _ARCHITECTURE.fullmatch(architecture(environment) or "")
    return int(match[1]) if match else None


def device_classes(environment: Environment) -> tuple[str, ...]:
    """The classes the device may belong to: one of d, s and other when its letter is known, else all three."""
    match = _ARCHITECTURE.fullmatch(architecture(environment) or "")
    known = _CLASSES.get(match[2]) if match else None
    return (known,) if known else ("d", "s", "other")


def _fused(cell: Cell, version: Version, shape: Layout, environment: Environment) -> bool:
    head_dim, group = cell.geometry.head_dim, cell.geometry.queries_per_kv_head
    if (group > 32 and version >= (0, 30, 4)) or (shape.masked and version < (0, 25, 0)):
        return False
    if head_dim == 512:  # 0.32.3, #3885: only where it was measured to win
        shortest = _number(environment, "MLX_SDPA_D512_MIN_KL", 1024)
        return version >= (0, 32, 3) and shape.keys >= shortest and (shortest == 0 or (group == 8 and not shape.masked))
    return head_dim in (64, 96, 128) or (head_dim == 256 and version >= (0, 25, 0))


def _vector(cell: Cell, version: Version, letter: str, shape: Layout, environment: Environment) -> Route:
    group, keys = cell.geometry.queries_per_kv_head, shape.keys
    early = ("d", "s") if version >= (0, 30, 4) else ("d",)
    if not (letter in early and keys >= 1024) and not (group > 1 and keys >= 4096):
        groups = cell.geometry.batch * cell.geometry.num_heads
        return Route("mlx 1-pass", (f"{groups} threadgroups",), source="mlx 0.21+, 073076ac7")
    count, source = blocks(letter, group, keys), "mlx 0.30.4+, 1935ab445"
    if version < (0, 30, 4):
        count, source = 32, "mlx 0.21-0.30.3, 073076ac7"
    if version >= (0, 32, 0) and (asked := _number(environment, "MLX_SDPA_BLOCKS", 0)) > 0:
        count, source = -(-asked // 32) * 32 if version >= (0, 32, 1) else asked, "MLX_SDPA_BLOCKS"
    parts: tuple[str, ...] = ()
    if _reuses_keys(cell, version, shape):
        parts, source = (f"pass 1 for groups of {group}",), "mlx 0.32.2+, #4077" if group == 8 else "mlx 0.32.3+, #4380"
    return Route(f"mlx 2-pass, {count} blocks", parts or ("generic pass 1",), source=source)


def blocks(letter: str, group: int, keys: int) -> int:
    """Blocks of the 2-pass kernel since 0.30.4: each count is a pipeline of its own (1935ab445)."""
    if letter == "s":
        if group <= 4 or keys <= 1024:
            return 64
        return next((count for last, count in _SEGMENTS if keys <= last), 1024)
    if letter == "d":
        if group <= 2:
            return 128 if keys <= 8192 else 256
        if group <= 5 or keys < 16384:
            return 128
        return 512 if keys < 65536 else 1024
    return 32 if group <= 3 else 64


def _reuses_keys(cell: Cell, version: Version, shape: Layout) -> bool:
    group, head_dim = cell.geometry.queries_per_kv_head, cell.geometry.head_dim
    if shape.masked or shape.keys < 8192:
        return False
    if group == 8:
        return version >= (0, 32, 2) and head_dim in (64, 128)
    return version >= (0, 32, 3) and group in (12, 16) and head_dim == 128


def _decomposed(cell: Cell, version: Version, keys: int) -> Route:
    shape, group = cell.geometry, cell.geometry.queries_per_kv_head
    parts = ["block softmax" if keys <= 4096 else "looped softmax"]
    # Grouped heads are rows of one GEMM in the manual kernel; MLX's fallback folds them only for B * Hkv == 1.
    gemv = group == 1 if cell.kernel == "manual" else group == 1 or shape.batch * shape.num_kv_heads > 1
    if gemv and not (shape.head_dim <= 64 and version >= (0, 29, 2)):  # heads up to 64 have one fixed tile since 0.29.2
        parts.insert(0, f"QK^T gemv tile of {8 if keys >= 4096 else 4} simdgroups")
    return Route("decomposed", tuple(parts), source="mlx backend/metal: matmul.cpp, softmax.cpp")


def _number(environment: Environment, name: str, default: int) -> int:
    text = environment.variables.get(name, "")
    return int(text) if re.fullmatch(r"\d+", text, re.ASCII) else default
