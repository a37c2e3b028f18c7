"""Opening the driver of a cell: the one place that imports a framework, and only the one the cell needs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from pykvbench.cell import NO_CACHE, Cell
from pykvbench.drivers.availability import require
from pykvbench.drivers.driver import Driver, Sequences
from pykvbench.drivers.parts import Part
from pykvbench.errors import BackendUnavailable, DriverError


def open_driver(
    cell: Cell,
    capacity: int,
    seed: int,
    simulate: str | None = None,
    process: int = 0,
    began_ns: int = 0,
    weights: Path | None = None,
) -> Driver:
    """The driver of `cell`, with room for `capacity` tokens in each cache.

    `simulate`, `process` (which of the run's processes this is) and `began_ns` (when the run began) concern the
    simulated device only, `weights` (the folder of a saved model) a library's model only. Raises BackendUnavailable
    when the framework, the device or the library is missing, UsageError when the library does not run the cell, and
    DriverError when this process already holds the other framework: their thread pools and memory would disturb each
    other.
    """
    import_framework(cell.backend)
    if cell.backend == "simulated":
        from pykvbench.drivers import simulated_driver

        return simulated_driver.open_driver(cell, capacity, seed, simulate, process, began_ns)
    framework = "mlx" if _is_mlx(cell.backend) else "torch"
    module = import_module(f"pykvbench.drivers.{framework}_{_part(cell)}")
    local = {"weights": weights} if cell.body == "library" else {}
    driver: Driver = module.open_driver(cell, capacity, seed, **local)
    return driver


def open_sequences(
    cell: Cell, capacity: int, seed: int, simulate: str | None = None, process: int = 0, began_ns: int = 0
) -> Sequences:
    """What makes drivers of single sequences of `cell`, all within `capacity` rows; attention alone has it.

    Parameters and errors as of open_driver.
    """
    import_framework(cell.backend)
    if cell.backend == "simulated":
        from pykvbench.drivers import simulated_driver

        return simulated_driver.open_sequences(cell, capacity, seed, simulate, process, began_ns)
    module = import_module(f"pykvbench.drivers.{'mlx' if _is_mlx(cell.backend) else 'torch'}_driver")
    sequences: Sequences = module.open_sequences(cell, capacity, seed)
    return sequences


def open_parts(
    cell: Cell, capacity: int, seed: int, simulate: str | None = None, process: int = 0, began_ns: int = 0
) -> dict[str, Part]:
    """The operations of the cell's step, each alone, and its attention with one thing changed, by their names.

    They come with caches of their own. The cell's driver must have been opened before: it fixes settings.
    """
    if cell.backend == "simulated":
        from pykvbench.drivers import simulated_parts

        return simulated_parts.open_parts(cell, capacity, seed, simulate, process, began_ns)
    module = import_module(f"pykvbench.drivers.{'mlx' if _is_mlx(cell.backend) else 'torch'}_parts")
    parts: dict[str, Part] = module.open_parts(cell, capacity, seed)
    return parts


def open_probes(backend: str, count: int) -> tuple[dict[str, Callable[[], object]], Callable[[Any], object]] | None:
    """Bandwidth probes over 4 * `count` bytes on a backend whose framework is imported; None for the simulated one."""
    if backend == "simulated":
        return None
    module = import_module(f"pykvbench.drivers.{'mlx' if _is_mlx(backend) else 'torch'}_bandwidth")
    opened: tuple[dict[str, Callable[[], object]], Callable[[Any], object]] = module.open_probes(backend, count)
    return opened


def _part(cell: Cell) -> str:
    """Which file of a framework's the cell's step is in."""
    if cell.body == "attention":
        return "uncached" if cell.cache == NO_CACHE else "driver"
    return "library" if cell.body == "library" else "model"


def import_framework(backend: str) -> None:
    """Import what `backend` runs on, which takes a second or more, or raise BackendUnavailable with the remedy."""
    if backend == "simulated":
        return
    name, other = ("mlx.core", "torch") if _is_mlx(backend) else ("torch", "mlx.core")
    if sys.modules.get(other) is not None:
        raise DriverError(f"{other} is already loaded in this process; open {backend} in a process of its own.")
    try:
        import_module(name)
    except ImportError as error:
        require(backend)
        reason = str(error).partition("\n")[0]
        raise BackendUnavailable(f"{name} is installed but cannot be imported ({reason}); reinstall it.") from None


def _is_mlx(backend: str) -> bool:
    return backend in ("mlx", "mlx-cpu")
