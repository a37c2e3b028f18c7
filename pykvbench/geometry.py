"""The shape of the attention that is timed, and the shapes of known models."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pykvbench.errors import UsageError

DTYPES = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True)
class Model:
    """The published shape of a model: what a preset name stands for.

    `positions` is the longest context, `tied` whether the LM head is the token embedding. The hidden size is
    num_heads * head_dim in all of them.
    """

    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    positions: int
    mlp_width: int
    vocabulary: int
    architecture: str
    tied: bool = True

    @property
    def hidden(self) -> int:
        """Elements of a token's hidden state."""
        return self.num_heads * self.head_dim


MODELS: dict[str, Model] = {
    "distilgpt2": Model(6, 12, 12, 64, 1024, 3072, 50257, "gpt2"),
    "gpt2": Model(12, 12, 12, 64, 1024, 3072, 50257, "gpt2"),
    "gpt2-medium": Model(24, 16, 16, 64, 1024, 4096, 50257, "gpt2"),
    "gpt2-large": Model(36, 20, 20, 64, 1024, 5120, 50257, "gpt2"),
    "gpt2-xl": Model(48, 25, 25, 64, 1024, 6400, 50257, "gpt2"),
    "bloom-560m": Model(24, 16, 16, 64, 2048, 4096, 250880, "bloom"),
    "opt-350m": Model(24, 16, 16, 64, 2048, 4096, 50272, "opt"),
    "qwen2.5-0.5b": Model(24, 14, 2, 64, 32768, 4864, 151936, "qwen2"),
    "llama-3.2-1b": Model(16, 32, 8, 64, 131072, 8192, 128256, "llama"),
    "llama-3.2-3b": Model(28, 24, 8, 128, 131072, 8192, 128256, "llama"),
    "llama-3-8b": Model(32, 32, 8, 128, 8192, 14336, 128256, "llama", tied=False),
    "mistral-7b": Model(32, 32, 8, 128, 32768, 14336, 32000, "mistral", tied=False),
}


@dataclass(frozen=True)
class Geometry:
    """Everything about a step's tensors except their length: q [B, H, 1, D], k and v [B, Hkv, L, D] in each layer."""

    batch: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    dtype: str

    def __post_init__(self) -> None:
        for name in ("batch", "num_layers", "num_heads", "num_kv_heads", "head_dim"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise UsageError(
                    f"--{name.replace('_', '-')} {value} is not possible; give a whole number of at least 1."
                )
        if self.dtype not in DTYPES:
            raise UsageError(f"--dtype {self.dtype} is unknown; choose one of {', '.join(DTYPES)}.")
        if self.num_heads % self.num_kv_heads:
            raise UsageError(
                f"{self.num_heads} heads cannot share {self.num_kv_heads} KV heads; "
                f"make --num-heads a multiple of --num-kv-heads."
            )

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return DTYPES[self.dtype]

    @property
    def hidden(self) -> int:
        """Elements of a token's hidden state in the model around this attention."""
        return self.num_heads * self.head_dim

    @property
    def queries_per_kv_head(self) -> int:
        """Query heads that read the same K and V head: 1 without grouped-query attention."""
        return self.num_heads // self.num_kv_heads

    def kv_bytes(self, length: int) -> int:
        """Bytes of K and V that one step over `length` keys must read, all layers, each byte counted once."""
        return 2 * self.num_layers * self.batch * self.num_kv_heads * length * self.head_dim * self.itemsize

    def to_json(self) -> dict[str, Any]:
        """Plain values for the run file."""
        return asdict(self)


def model(name: str) -> Model:
    """The published shape of a preset, or UsageError naming the presets there are."""
    if name not in MODELS:
        raise UsageError(
            f"--model {name} is unknown; choose one of {', '.join(MODELS)}, "
            "or give the shape with --num-heads and the like."
        )
    return MODELS[name]


def mlp_width(name: str, shape: Geometry) -> int:
    """The MLP width that belongs to a preset: the published one, or in proportion where `shape` has another width."""
    preset = model(name)
    return round(preset.mlp_width * shape.hidden / preset.hidden)


def geometry(
    name: str,
    dtype: str = "float32",
    batch: int = 1,
    num_layers: int | None = None,
    num_heads: int | None = None,
    num_kv_heads: int | None = None,
    head_dim: int | None = None,
) -> Geometry:
    """The geometry of a preset, with the parts that were given replacing the preset's.

    `num_heads` alone also sets the KV heads, keeping the preset's grouping when it divides evenly.
    """
    preset = model(name)
    heads = preset.num_heads if num_heads is None else num_heads
    if num_kv_heads is None:
        group = preset.num_heads // preset.num_kv_heads
        num_kv_heads = preset.num_kv_heads if num_heads is None else heads // group if heads % group == 0 else heads
    return Geometry(
        batch=batch,
        num_layers=preset.num_layers if num_layers is None else num_layers,
        num_heads=heads,
        num_kv_heads=num_kv_heads,
        head_dim=preset.head_dim if head_dim is None else head_dim,
        dtype=dtype,
    )
