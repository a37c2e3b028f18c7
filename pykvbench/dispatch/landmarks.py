"""Landmarks: lengths at which a cell's route, block count, heap class or cache capacity is known to change."""

from __future__ import annotations

from collections.abc import Sequence

from pykvbench.cell import Cell
from pykvbench.dispatch import mlx_cuda, mlx_metal, torch_mps
from pykvbench.dispatch.allocator import NEWEST, OLDEST, heap_landmarks
from pykvbench.dispatch.environment import environment_of_cell
from pykvbench.dispatch.layout import CHUNK, fixed_capacity, tensor_bytes_per_key
from pykvbench.dispatch.predict import predict
from pykvbench.dispatch.route import Environment, Landmark, difference, release
from pykvbench.errors import UsageError
from pykvbench.lengths import parse_lengths
from pykvbench.record import Run

_EDGES = tuple(sorted({*torch_mps.EDGES, *mlx_metal.EDGES, *mlx_cuda.EDGES}))
_MEBI = 1 << 20


def landmarks(
    cell: Cell, environment: Environment, first: int, last: int, capacity: int | None = None
) -> tuple[Landmark, ...]:
    """All landmarks of a cell from `first` to `last` keys, ascending.

    `capacity` is the room in tokens of a fixed buffer; without it, that of a run over exactly these lengths. A landmark
    never says that anything is slow there, only that something changes.
    """
    room = fixed_capacity(first, last) if capacity is None else capacity
    found = {
        *_route_changes(cell, environment, first, last, room),
        *_heap_changes(cell, environment, first, last, room),
        *_growth(cell, first, last),
        *_command_buffers(cell, environment),
    }
    within = [landmark for landmark in found if first <= landmark.length <= last]
    return tuple(sorted(within, key=lambda landmark: (landmark.length, landmark.what)))


def landmarks_of_run(run: Run) -> tuple[Landmark, ...]:
    """The landmarks of all cells of a run within its planned lengths, each once, ascending."""
    try:
        lengths = parse_lengths(str(run.plan.get("lengths")))
    except UsageError:
        return ()
    first, last = lengths[0], lengths[-1]
    found = {
        landmark
        for index, cell in enumerate(run.cells)
        for landmark in landmarks(cell, environment_of_cell(run, index), first, last)
    }
    return tuple(sorted(found, key=lambda landmark: (landmark.length, landmark.what)))


def coincidence(lengths: tuple[int, int], known: Sequence[Landmark]) -> str | None:
    """Say so when a finding over `lengths`, (first, last), begins or ends within one length of a landmark.

    It never says "caused by": a landmark near a finding is a hint for the attribution, not a result of it.
    """
    near = [mark for mark in known if min(abs(mark.length - edge) for edge in lengths) <= 1]
    if not near:
        return None
    words = [f"{mark.what} at L = {mark.length} ({mark.source})" for mark in near]
    return "coincides with " + "; ".join(words)


def _route_changes(cell: Cell, environment: Environment, first: int, last: int, capacity: int) -> list[Landmark]:
    # Routes change at fixed lengths, where a slice comes to cover its buffer, and (CUDA, chunked) every 256 tokens.
    edges = {*_EDGES, capacity}
    if cell.cache == "chunked" or (cell.cache == "concat" and cell.backend == "mlx"):
        edges |= {edge + side for edge in range(CHUNK, last + 1, CHUNK) for side in (0, 1)}
    found = []
    for edge in edges:
        if max(first, 2) <= edge <= last:
            before, after = (predict(cell, environment, length, capacity) for length in (edge - 1, edge))
            if (before.known or after.known) and (what := difference(before, after)):
                found.append(Landmark(edge, what, after.source or before.source))
    return found


def _heap_changes(cell: Cell, environment: Environment, first: int, last: int, capacity: int) -> list[Landmark]:
    """Edges of the MPS heap classes for the tensors that a step allocates anew, K (or V) itself among them."""
    version = release(environment.torch)
    if cell.backend != "mps" or version is None or not OLDEST <= version <= NEWEST or cell.cache == "padded":
        return []
    found: list[Landmark] = []
    if cell.cache == "concat":
        found += heap_landmarks("each K and V tensor", tensor_bytes_per_key(cell))
    if cell.cache == "chunked":
        found += heap_landmarks("each K and V buffer", tensor_bytes_per_key(cell), CHUNK)
    scratch = {item for length in (first, last) for item in predict(cell, environment, length, capacity).scratch}
    for what, bytes_per_key in scratch:
        for mark in heap_landmarks(f"the step's {what}", bytes_per_key):
            if (what, bytes_per_key) in predict(cell, environment, mark.length, capacity).scratch:
                found.append(mark)
    return found


def _growth(cell: Cell, first: int, last: int) -> list[Landmark]:
    if cell.cache != "chunked":
        return []
    start = (first - 2) // CHUNK * CHUNK + CHUNK + 1  # the first of 1, 257, 513, ... that is not below `first`
    what = "the chunked cache grows by 256 tokens and K and V are copied whole"
    return [Landmark(length, what, "mlx-lm KVCache") for length in range(start, last + 1, CHUNK)]


def _command_buffers(cell: Cell, environment: Environment) -> list[Landmark]:
    """About where one layer's K and V alone fill a Metal command buffer of MLX.

    The limit called MB counts elements of the inputs, not bytes (#3192): 50 Mi on s and d, 40 Mi on others.
    """
    version, classes = release(environment.mlx), mlx_metal.device_classes(environment)
    metal = (mlx_metal.architecture(environment) or "").startswith("applegpu_")
    if cell.backend != "mlx" or not metal or version is None or not (0, 23, 0) <= version <= mlx_metal.NEWEST:
        return []
    if cell.cache == "padded" or len(classes) > 1:
        return []
    asked = environment.variables.get("MLX_MAX_MB_PER_BUFFER", "")
    limit = int(asked) if asked.isdecimal() else 40 if classes == ("other",) else 50
    shape = cell.geometry
    length = -(-(limit + 1) * _MEBI // (2 * shape.batch * shape.num_kv_heads * shape.head_dim))
    what = f"about here one layer's K and V pass {limit} Mi elements and each layer takes a command buffer"
    return [Landmark(length, what, "mlx 0.23+, #3192")]
