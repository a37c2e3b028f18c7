"""Cells that are known to compute wrong results in certain releases: named before anything is timed."""

from __future__ import annotations

from collections.abc import Sequence

from pykvbench.cell import Cell
from pykvbench.dispatch import mlx_metal
from pykvbench.dispatch.layout import fixed_capacity
from pykvbench.dispatch.predict import predict
from pykvbench.dispatch.route import Environment, Route, release


def known_wrong(
    cell: Cell, environment: Environment, lengths: Sequence[int], capacity: int | None = None
) -> tuple[str, ...]:
    """One sentence for each defect that this cell meets at any of `lengths`; empty when none is known.

    `capacity` is the room in tokens of a fixed buffer; without it, that of a run over exactly these lengths.
    """
    if cell.kernel != "fused" or not lengths:
        return ()
    low, high = min(lengths), max(lengths)
    room = fixed_capacity(low, high) if capacity is None else capacity
    # Defects begin or end where routes do, so the two ends and the routes' own edges stand for all lengths.
    samples = {low, high, *(edge for edge in mlx_metal.EDGES if low <= edge <= high)}
    routes = [predict(cell, environment, length, room) for length in sorted(samples)]
    if cell.backend == "mps":
        return _torch_mps(cell, environment, routes)
    if cell.backend == "mlx" and mlx_metal.generation(environment) is not None:
        return _mlx_metal(cell, environment, routes)
    return ()


def _torch_mps(cell: Cell, environment: Environment, routes: list[Route]) -> tuple[str, ...]:
    version = release(environment.torch)
    half = cell.geometry.dtype in ("float16", "bfloat16")
    if version is None or not (2, 8, 0) <= version < (2, 11, 0) or not half:
        return ()
    if not any(route.name == "sdpa-vector-2pass" for route in routes):
        return ()
    return (
        f"torch {environment.torch} writes past its buffers in {cell.geometry.dtype} from L = 1024 on, so results "
        "there are wrong and not deterministic (#174861); upgrade to torch 2.11 or newer.",
    )


def _mlx_metal(cell: Cell, environment: Environment, routes: list[Route]) -> tuple[str, ...]:
    version = release(environment.mlx)
    if version is None:
        return ()
    mlx, shape = f"mlx {environment.mlx}", cell.geometry
    one_pass = any(route.name == "mlx 1-pass" for route in routes)
    two_pass = any(route.name.startswith("mlx 2-pass") for route in routes)
    generation = mlx_metal.generation(environment)
    sentences = []
    reuse = any("pass 1 for groups of 8" in route.parts for route in routes)
    if version == (0, 32, 2) and shape.batch > 1 and reuse:
        sentences.append(
            f"{mlx} ignores the batch index for groups of 8 from L = 8192 on (#4431); upgrade to 0.32.3 or newer."
        )
    if version < (0, 25, 2) and shape.batch > 1 and (one_pass or two_pass):
        sentences.append(
            f"{mlx} can be wrong for batches above 1 in fused attention (#2152); upgrade to 0.25.2 or newer."
        )
    if version < (0, 32, 1) and generation == 13 and one_pass:
        sentences.append(
            f"{mlx} does not check that its 1-pass kernel fits an M1-class GPU; where it does not, it is silently not "
            "launched and returns zeros, very fast (#4018); upgrade to 0.32.1 or newer."
        )
    if version < (0, 30, 6) and generation in (13, 14) and shape.dtype == "bfloat16" and two_pass:
        sentences.append(
            f"{mlx} can fail in its 2-pass kernel in bfloat16 on M1 and M2 (#3099); upgrade to 0.30.6 or newer."
        )
    blocks = environment.variables.get("MLX_SDPA_BLOCKS", "")
    if version == (0, 32, 0) and blocks.isdecimal() and int(blocks) % 32 and two_pass:
        sentences.append(f"{mlx} drops keys when MLX_SDPA_BLOCKS is not a multiple of 32; unset it.")
    return tuple(sentences)
