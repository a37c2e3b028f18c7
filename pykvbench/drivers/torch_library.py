"""Hugging Face's own models on PyTorch, from a configuration with random weights or from a local folder.

A step is one token through the model's forward pass with its DynamicCache, the most likely token read back. Without
a cache (`none`) the whole prefix goes through. Nothing is ever downloaded.
"""

from __future__ import annotations

import inspect
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pykvbench.cell import NO_CACHE, Cell
from pykvbench.drivers.driver import Driver
from pykvbench.drivers.library import check_library, check_weights, configuration, loading
from pykvbench.drivers.torch_cache import DTYPES
from pykvbench.drivers.torch_device import (
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

IMPLEMENTATIONS = {"manual": "eager", "fused": "sdpa"}


class Generator:
    """A model, its cache, and the tokens so far."""

    def __init__(self, cell: Cell, capacity: int, seed: int, device: torch.device, weights: Path | None) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"  # read when the library is imported
        transformers = import_module("transformers")
        self.cache_class = transformers.DynamicCache
        self.version = transformers.__version__
        kind: dict[str, Any] = {
            "attn_implementation": IMPLEMENTATIONS[cell.kernel],
            "dtype": DTYPES[cell.geometry.dtype],
        }
        if weights is not None:
            with loading(weights):
                self.model = transformers.AutoModelForCausalLM.from_pretrained(weights, local_files_only=True, **kind)
        else:
            torch.manual_seed(seed)
            config = transformers.AutoConfig.for_model(**configuration(cell))
            self.model = transformers.AutoModelForCausalLM.from_config(config, **kind)
        self.model.to(device)
        self.model.eval()
        # Renamed in transformers 5; the old name still works there, but warns at every step.
        self.cache_name = "cache" if "cache" in inspect.signature(self.model.forward).parameters else "past_key_values"
        self.cached = cell.cache != NO_CACHE
        self.prompt = torch.from_numpy(tokens(cell, capacity + 1, seed) % self.model.config.vocab_size).to(device)
        self.ids = self.prompt.clone()  # [B, capacity + 1]
        self.capacity = capacity
        self.cache: Any = None
        self.length = -1
        self.device, self.live = device, 0
        self.finish = finish(device)

    def reset(self, length: int) -> None:
        """Process the prompt and take its token, which the first step is given."""
        if length < 1:
            raise DriverError("A model cannot generate from an empty prompt; use a --prompt of at least 1.")
        self.ids[:] = self.prompt
        self.cache = self.cache_class() if self.cached else None
        self.ids[:, length] = torch.argmax(self.forward(0, length)[:, -1], dim=-1)
        self.length = length
        self.advance()

    def advance(self) -> None:
        n = self.length
        if not 0 <= n < self.capacity:
            raise DriverError(f"Token {n} is outside this driver's {self.capacity}; open it with a larger capacity.")
        self.finish(None)
        self.live = restart_peak(self.device)

    def step(self) -> list[int]:
        n = self.length
        logits = self.forward(n if self.cached else 0, n + 1)  # [B, 1, vocabulary]
        chosen = torch.argmax(logits[:, -1], dim=-1)  # [B]
        self.ids[:, n + 1] = chosen
        self.length += 1
        return [int(token) for token in chosen.tolist()]

    def forward(self, first: int, last: int) -> Any:
        """The last token's logits, as the library's own generation asks for them."""
        return self.model(
            input_ids=self.ids[:, first:last],
            use_cache=self.cached,
            logits_to_keep=1,
            **{self.cache_name: self.cache},
        ).logits

    def buffers(self) -> list[torch.Tensor]:
        layers = [] if self.cache is None else self.cache.layers
        return [buffer for layer in layers if layer.is_initialized for buffer in (layer.keys, layer.values)]

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
    library = {"library": "transformers", "library_version": generator.version, "random_weights": weights is None}
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
