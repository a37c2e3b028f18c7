"""The predicted route of any cell: picks the rules of its backend."""

from __future__ import annotations

from pykvbench.cell import Cell
from pykvbench.dispatch import mlx_cuda, mlx_metal, torch_mps
from pykvbench.dispatch.route import NOT_PREDICTED, Environment, Route, release, unknown

_CPU_ARCHITECTURES = ("x86_64", "AMD64", "arm64", "aarch64")


def predict(cell: Cell, environment: Environment, length: int, capacity: int) -> Route:
    """The route of one step over `length` keys; `capacity` is the room in tokens of a fixed buffer (prealloc, padded).

    A prediction is made from versions and shapes alone; nothing is imported and no device is asked.
    """
    if cell.backend == "mps":
        return torch_mps.route(cell, environment, length, capacity)
    if cell.backend == "mlx":
        return _mlx(cell, environment, length, capacity)
    if cell.backend == "mlx-cpu":
        return _mlx_cpu(environment)
    if cell.backend == "cuda" and cell.kernel == "fused":
        return unknown("which kernel F.scaled_dot_product_attention takes on CUDA must be asked of torch on the device")
    return Route(NOT_PREDICTED)


def _mlx(cell: Cell, environment: Environment, length: int, capacity: int) -> Route:
    device = mlx_metal.architecture(environment) or ""
    if device.startswith("applegpu_"):
        return mlx_metal.route(cell, environment, length, capacity)
    if device.startswith("sm_"):
        return mlx_cuda.route(cell, environment, length, capacity)
    if device in _CPU_ARCHITECTURES:
        return _mlx_cpu(environment)
    return unknown(f"mlx device architecture {device or 'not known'} is not in the rules")


def _mlx_cpu(environment: Environment) -> Route:
    version = release(environment.mlx)
    if version is None or not mlx_metal.OLDEST <= version <= mlx_metal.NEWEST:
        return unknown(f"mlx {environment.mlx or 'version'} is outside the rules, which cover 0.21.0 to 0.32.4")
    return Route("decomposed", source="mlx: no fused attention on the CPU")
