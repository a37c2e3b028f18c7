"""Which kernels PyTorch takes on Apple GPUs, torch 2.4.0 to 2.14.1 (attention.cpp, Attention.mm, LinearAlgebra.mm)."""

from __future__ import annotations

from pykvbench.cell import Cell
from pykvbench.dispatch.layout import Layout, layout, tensor_bytes_per_key
from pykvbench.dispatch.route import Environment, Route, release, unknown

OLDEST, NEWEST = (2, 4, 0), (2, 14, 1)
TWO_PASS_FROM = 1024
EDGES = (TWO_PASS_FROM,)

_HALF = ("float16", "bfloat16")


def route(cell: Cell, environment: Environment, length: int, capacity: int) -> Route:
    """The route at `length` keys; `capacity` is the room of a fixed buffer."""
    version = release(environment.torch)
    if version is None or not OLDEST <= version <= NEWEST:
        return unknown(f"torch {environment.torch or 'version'} is outside the rules, which cover 2.4.0 to 2.14.1")
    shape = layout(cell, length, capacity)
    if cell.kernel == "manual":
        return _manual(cell, environment.macos_major, shape)
    return _fused(cell, version, environment.macos_major, shape)


def vector_head_dims(version: tuple[int, int, int]) -> tuple[int, ...]:
    """Head sizes that have a Metal decode kernel (2.8: PR #152781; 256 from 2.13: PR #183280)."""
    if version < (2, 8, 0):
        return ()
    return (64, 96, 128, 256) if version >= (2, 13, 0) else (64, 96, 128)


def _manual(cell: Cell, macos: int | None, shape: Layout) -> Route:
    # Before macOS 15 MPSGraph cannot read strides: K^T folds into the graph only when it covers its whole buffer.
    sliced = () if shape.whole else ("K gathered",) if shape.contiguous else ("K and V gathered",)
    if macos is None and sliced:
        sliced = (f"{sliced[0]} if macOS is older than 15",)
    return Route(
        "manual: mpsgraph bmm/softmax",
        ("graphs do not depend on the length",),
        () if macos is not None and macos >= 15 else sliced,
        (("scores", _score_bytes(cell)),),
        "torch 2.4-2.14, PR #106813",
    )


def _fused(cell: Cell, version: tuple[int, int, int], macos: int | None, shape: Layout) -> Route:
    group = cell.geometry.queries_per_kv_head
    if group > 1 and version < (2, 7, 0):
        return unknown("grouped K and V in F.scaled_dot_product_attention before torch 2.7 were not verified")
    if version < (2, 5, 0) or (version < (2, 6, 0) and not shape.contiguous):
        return _composite(cell, "torch 2.4" if version < (2, 5, 0) else "torch 2.5, PR #131362")
    if version < (2, 12, 0) and not shape.contiguous:
        if macos is None:
            return unknown("the route of a sliced cache before torch 2.12 depends on whether macOS is 15 or newer")
        if macos < 15:
            return _composite(cell, "torch 2.6-2.11 on macOS 14, PR #139791")
    if cell.geometry.head_dim in vector_head_dims(version) and (not shape.masked or version >= (2, 13, 0)):
        return _vector(cell, version, shape)
    return _graph(cell, version, shape)


def _composite(cell: Cell, source: str) -> Route:
    group, half = cell.geometry.queries_per_kv_head, cell.geometry.dtype in _HALF
    copies: tuple[str, ...] = ("K scaled into a copy",)
    if half:
        copies += ("K and V cast to float32",)
    if group > 1:
        copies += (f"K and V repeated {group}-fold",)
    scaled = tensor_bytes_per_key(cell) * group * (2 if half else 1)
    return Route("composite", (), copies, (("scaled copy of K", scaled), ("scores", _score_bytes(cell))), source)


def _graph(cell: Cell, version: tuple[int, int, int], shape: Layout) -> Route:
    part = "one graph" if shape.masked else "a new graph is compiled at each new length"
    copies, scratch = _repeated(cell, version, newest=NEWEST)
    return Route("mpsgraph-sdpa", (part,), copies, scratch, "torch 2.5+, PR #131362")


def _vector(cell: Cell, version: tuple[int, int, int], shape: Layout) -> Route:
    rows = cell.geometry.batch * cell.geometry.num_heads
    copies, scratch = _repeated(cell, version, newest=(2, 12, 99))
    if version < (2, 13, 0) and not shape.contiguous and not copies:
        copies, scratch = ("K and V copied whole",), (("copy of K", tensor_bytes_per_key(cell)),)
    if shape.keys < TWO_PASS_FROM:
        # The 1-pass kernel allocates attention weights that nothing writes.
        scratch += (("unused attention weights", _score_bytes(cell)),)
        return Route("sdpa-vector-1pass", (f"{rows} threadgroups",), copies, scratch, "torch 2.8+, PR #152781")
    part = f"{rows * 32} + {rows} threadgroups"
    return Route("sdpa-vector-2pass", (part,), copies, scratch, "torch 2.8+, PR #152781")


def _repeated(
    cell: Cell, version: tuple[int, int, int], newest: tuple[int, int, int]
) -> tuple[tuple[str, ...], tuple[tuple[str, int], ...]]:
    """What repeating grouped K and V costs up to `newest` (decode kernels read groups from 2.13, PR #183280)."""
    group = cell.geometry.queries_per_kv_head
    if group == 1 or version > newest:
        return (), ()
    return (f"K and V repeated {group}-fold",), (("repeated copy of K", tensor_bytes_per_key(cell) * group),)


def _score_bytes(cell: Cell) -> int:
    return cell.geometry.batch * cell.geometry.num_heads * cell.geometry.itemsize
