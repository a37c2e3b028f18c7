"""What a user asks to be measured: lists of names that multiply into cells, and the geometry they share."""

from __future__ import annotations

from dataclasses import dataclass

from pykvbench.cell import Cell
from pykvbench.drivers.availability import best_backend, require
from pykvbench.drivers.program import parse_program
from pykvbench.errors import UsageError
from pykvbench.geometry import geometry, model

ATTN_LAYERS = 2
"""Layers that attention alone steps through by default: all layers of a model have one shape, so more of them repeat
the same work, and two keep a sweep short while they still outweigh a device's sync."""


@dataclass(frozen=True)
class Request:
    """The options of a command that measures, before they multiply."""

    backends: tuple[str, ...]
    kernels: tuple[str, ...]
    caches: tuple[str, ...]
    dtypes: tuple[str, ...]
    model: str
    num_layers: int | None
    num_heads: int | None
    num_kv_heads: int | None
    head_dim: int | None
    batch: int
    simulate: str | None

    def cells(self, most_layers: int | None = None, body: str = "attention", here: bool = True) -> tuple[Cell, ...]:
        """Every combination, on the best backend here unless one is named.

        Without `num_layers` the cells have the model's layers, but not more than `most_layers`. Raises
        BackendUnavailable for a backend that is not there, unless other Pythons than this one (not `here`) measure.
        """
        backends = self.backends or (best_backend(),)
        for backend in backends if here else ():
            require(backend)
        if self.simulate is not None:
            if backends != ("simulated",):
                raise UsageError("--simulate programs the simulated device only; add --backend simulated.")
            parse_program(self.simulate)
        layers = self.num_layers
        if layers is None and most_layers is not None:
            layers = min(most_layers, model(self.model).num_layers)
        return tuple(
            Cell(
                backend,
                kernel,
                cache,
                geometry(self.model, dtype, self.batch, layers, self.num_heads, self.num_kv_heads, self.head_dim),
                body,
                self.model,
            )
            for backend in backends
            for kernel in self.kernels
            for cache in self.caches
            for dtype in self.dtypes
        )
