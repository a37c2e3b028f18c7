"""What a model of a library is built from: its configuration, and what each library can and cannot run.

Imports no library, so that a request that cannot be carried out is refused before anything is measured.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pykvbench.cell import NO_CACHE, Cell
from pykvbench.errors import BackendUnavailable, UsageError
from pykvbench.geometry import MODELS, mlp_width, model

MLX_MODULES = {"gpt2": "gpt2", "llama": "llama", "mistral": "llama", "qwen2": "qwen2"}
"""mlx-lm's module for each architecture it has; BLOOM and OPT it has not (0.32.2)."""

_UNGROUPED = ("gpt2", "bloom", "opt")
_LAYERS_AND_HEADS = ("n_layer", "n_head", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
_SHAPE = ("model_type", "n_embd", "hidden_size", *_LAYERS_AND_HEADS)


def check_library(cell: Cell) -> None:
    """Raise UsageError, or BackendUnavailable for a missing package, if no library runs this cell as it is labelled."""
    preset, shape = model(cell.model), cell.geometry
    if preset.architecture in _UNGROUPED and shape.num_heads != shape.num_kv_heads:
        raise UsageError(
            f"{cell.model} has no grouped heads, so --body library cannot give it {shape.num_kv_heads} KV heads for "
            f"{shape.num_heads} heads; leave out --num-kv-heads."
        )
    if not cell.backend.startswith("mlx"):
        _require("transformers", "Hugging Face's models")
        if cell.cache not in ("concat", NO_CACHE):
            raise UsageError(
                f"--body library caches as Hugging Face's DynamicCache does, not by {cell.cache}; "
                "use --cache concat or none."
            )
        if preset.architecture == "bloom" and cell.kernel == "fused":
            raise UsageError("Hugging Face's BLOOM has no fused attention; use --kernel manual.")
        return
    _require("mlx_lm", "mlx-lm's models")
    if preset.architecture not in MLX_MODULES:
        *names, last = (name for name, known in MODELS.items() if known.architecture in MLX_MODULES)
        raise UsageError(
            f"mlx-lm cannot run {cell.model}; "
            f"use --model {', '.join(names)} or {last}, or another --backend such as cpu."
        )
    for option, value, only in (
        ("--cache", cell.cache, "chunked"),
        ("--kernel", cell.kernel, "fused"),
        ("--batch", shape.batch, 1),
    ):
        if value != only:
            raise UsageError(f"--body library on MLX is mlx-lm's own generation; use {option} {only}, not {value}.")


def configuration(cell: Cell) -> dict[str, Any]:
    """The cell's model in Hugging Face's words, which mlx-lm reads too."""
    preset, shape = model(cell.model), cell.geometry
    config: dict[str, Any] = {
        "model_type": preset.architecture,
        "vocab_size": preset.vocabulary,
        "tie_word_embeddings": preset.tied,
    }
    if preset.architecture == "gpt2":
        return config | {
            "n_layer": shape.num_layers,
            "n_head": shape.num_heads,
            "n_embd": shape.hidden,
            "n_positions": preset.positions,
            "n_ctx": preset.positions,
            "layer_norm_epsilon": 1e-5,
        }
    if preset.architecture == "bloom":
        return config | {"n_layer": shape.num_layers, "n_head": shape.num_heads, "hidden_size": shape.hidden}
    config |= {
        "num_hidden_layers": shape.num_layers,
        "num_attention_heads": shape.num_heads,
        "hidden_size": shape.hidden,
        "max_position_embeddings": preset.positions,
    }
    if preset.architecture == "opt":  # opt-350m is the one OPT that normalises last and embeds in half its width
        return config | {
            "ffn_dim": mlp_width(cell.model, shape),
            "word_embed_proj_dim": shape.hidden // 2,
            "do_layer_norm_before": False,
        }
    return config | {
        "num_key_value_heads": shape.num_kv_heads,
        "head_dim": shape.head_dim,
        "intermediate_size": mlp_width(cell.model, shape),
        "rms_norm_eps": 1e-5,
        "rope_theta": 1e6 if preset.architecture == "qwen2" else 5e5,
    }


def check_weights(cell: Cell, weights: Path) -> None:
    """Raise UsageError unless `weights` is a folder with a model of the cell's shape."""
    try:
        found = json.loads((weights / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UsageError(f"{weights} holds no readable config.json; give the folder of a saved model.") from None
    wanted = configuration(cell)
    for name in _SHAPE:
        if name in wanted and name in found and found[name] != wanted[name]:
            raise UsageError(
                f"The model in {weights} has {name} {found[name]}, not {wanted[name]}; give its shape with --model."
            )


@contextlib.contextmanager
def loading(weights: Path) -> Iterator[None]:
    """Turn a library's refusal of a folder into a UsageError.

    mlx-lm reads GPT-2's arrays by their published names, without the prefix that transformers saves them with.
    """
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise UsageError(
            f"The model in {weights} cannot be loaded ({reason}); give one saved for this library."
        ) from None


def _require(package: str, what: str) -> None:
    if find_spec(package) is None:
        name = package.replace("_", "-")
        raise BackendUnavailable(f"--body library runs {what}, and {name} is not installed; pip install {name}.")
