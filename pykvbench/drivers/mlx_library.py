"""mlx-lm's own models and generation, from a configuration with random weights or from a local folder.

A step is one `next` of mlx-lm's generate_step: it queues the token after the next before it waits for this one, and
frees MLX's pool every 256 tokens. So step s returns the token computed over prompt + s keys and leaves the work of
step s + 1 under way; the last step's is one key more than anyone asked for. Nothing is ever downloaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from pykvbench.cell import Cell
from pykvbench.drivers.driver import Driver
from pykvbench.drivers.library import MLX_MODULES, check_library, check_weights, configuration, loading
from pykvbench.drivers.mlx_cache import DTYPES
from pykvbench.drivers.mlx_device import (
    check_dtype,
    counters,
    describe,
    find_device,
    finish,
    fix_settings,
    restart_peak,
)
from pykvbench.errors import DriverError
from pykvbench.weights import tokens


class Generator:
    """A model, its prompt cache, and the generation under way."""

    def __init__(self, cell: Cell, capacity: int, seed: int, device: mx.Device, weights: Path | None) -> None:
        self.library = _import_mlx_lm()
        if weights is not None:
            with loading(weights):
                self.model, config = import_module("mlx_lm.utils").load_model(weights)
            vocabulary = int(config["vocab_size"])
        else:
            mx.random.seed(seed)
            config = configuration(cell)
            vocabulary = config["vocab_size"]
            module = import_module(f"mlx_lm.models.{MLX_MODULES[config['model_type']]}")
            self.model = module.Model(module.ModelArgs.from_dict(config))
            self.model.set_dtype(DTYPES[cell.geometry.dtype])
        mx.eval(self.model.parameters())
        self.prompt = tokens(cell, capacity, seed)[0] % vocabulary  # [capacity]
        self.capacity = capacity
        self.cache: list[Any] = []
        self.generation: Iterator[Any] = iter(())
        self.length = -1
        self.device, self.live = device, 0
        self.finish = finish(device)

    def reset(self, length: int) -> None:
        """Process the prompt and take its token, so that the first step's is in flight as any other step's is."""
        if length < 1:
            raise DriverError("A model cannot generate from an empty prompt; use a --prompt of at least 1.")
        self.generation = iter(())  # lets go of the last one's cache
        self.cache = import_module("mlx_lm.models.cache").make_prompt_cache(self.model)
        self.generation = self.library.generate_step(
            mx.array(self.prompt[:length]),
            self.model,
            max_tokens=self.capacity - length + 1,
            prompt_cache=self.cache,
        )
        next(self.generation)
        self.length = length
        self.advance()

    def advance(self) -> None:
        n = self.length
        if not 0 <= n < self.capacity:
            raise DriverError(f"Token {n} is outside this driver's {self.capacity}; open it with a larger capacity.")
        self.live = restart_peak(self.device)

    def step(self) -> list[int]:
        token, _ = next(self.generation)
        self.length += 1
        return [int(token)]

    def buffers(self) -> list[mx.array]:
        return [buffer for layer in self.cache for buffer in (layer.keys, layer.values)]

    def memory(self) -> dict[str, int]:
        """Bytes: live (tensors), driver (taken from the system), peak (of live, above what reset left)."""
        return counters(self.device, self.live, self.buffers())

    def outputs(self, result: list[int]) -> npt.NDArray[np.float64]:
        return np.array(result, dtype=np.float64).reshape(1, -1, 1, 1)  # [1, B, 1, 1]


def open_driver(cell: Cell, capacity: int, seed: int, weights: Path | None = None) -> Driver:
    """Build or load the model, with room for `capacity` tokens of a prompt and what follows.

    Raises UsageError when the library does not run the cell, BackendUnavailable when the package or device is missing.
    """
    check_library(cell)
    if weights is not None:
        check_weights(cell, weights)
    device = find_device(cell.backend)
    settings = fix_settings(device)
    check_dtype(cell, DTYPES[cell.geometry.dtype], device)
    generator = Generator(cell, capacity, seed, device, weights)
    library = {"library": "mlx-lm", "library_version": version("mlx-lm"), "random_weights": weights is None}
    return Driver(
        reset=generator.reset,
        advance=generator.advance,
        step=generator.step,
        sync=generator.finish,
        outputs=generator.outputs,
        memory=generator.memory,
        describe={**describe(device), **settings, **library},
        tokens=list,
    )


def _import_mlx_lm() -> Any:
    """mlx_lm.generate, imported after the device is chosen, because it takes its stream from it once.

    Its tokenizers come from transformers, which imports torch where it finds it; here it must not.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"
    hidden: Any = sys.modules
    hidden.setdefault("torch", None)  # to the import system: not there
    return import_module("mlx_lm.generate")
