"""A cell: one backend, kernel, cache policy and geometry; what one curve is a curve of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pykvbench.errors import RunFileError, UsageError
from pykvbench.geometry import MODELS, Geometry

BACKENDS = ("mps", "cuda", "mlx", "cpu", "mlx-cpu", "simulated")
KERNELS = ("manual", "fused")
CACHES = ("prealloc", "concat", "chunked", "padded")
NO_CACHE = "none"  # recompute the whole prefix at every step; `decode` only
BODIES = ("attention", "block", "model", "library")


@dataclass(frozen=True)
class Cell:
    """One combination that is measured over every length; `body` is what surrounds the attention (`decode` only).

    `model` is the preset that a body takes its widths, vocabulary and architecture from; attention alone needs none.
    `interpreter` is which of the run's Pythons measures it (`attn --python`), `build` what tells it from the others.
    """

    backend: str
    kernel: str
    cache: str
    geometry: Geometry
    body: str = "attention"
    model: str = "gpt2"
    interpreter: int = 0
    build: str = ""

    def __post_init__(self) -> None:
        for option, value, known in (
            ("--backend", self.backend, BACKENDS),
            ("--kernel", self.kernel, KERNELS),
            ("--cache", self.cache, (*CACHES, NO_CACHE)),
            ("--body", self.body, BODIES),
            ("--model", self.model, tuple(MODELS)),
        ):
            if value not in known:
                raise UsageError(f"{option} {value} is unknown; choose one of {', '.join(known)}.")

    @property
    def label(self) -> str:
        """What the cell is called in tables: `cpu manual prealloc float32`."""
        body = "" if self.body == "attention" else f" {self.body}"
        return f"{self.backend}{body} {self.kernel} {self.cache} {self.geometry.dtype}" + (
            f" {self.build}" if self.build else ""
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values for the run file."""
        return {
            "backend": self.backend,
            "kernel": self.kernel,
            "cache": self.cache,
            "geometry": self.geometry.to_json(),
            "body": self.body,
            **({} if self.body == "attention" else {"model": self.model}),
            **({"interpreter": self.interpreter, "build": self.build} if self.build else {}),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Cell:
        """Read what to_json wrote; keys this version does not know are ignored."""
        try:
            shape = value["geometry"]
            return cls(
                backend=value["backend"],
                kernel=value["kernel"],
                cache=value["cache"],
                geometry=Geometry(**{name: shape[name] for name in Geometry.__dataclass_fields__}),
                body=value.get("body", "attention"),
                model=value.get("model", "gpt2"),
                interpreter=max(0, int(value.get("interpreter", 0))),
                build=str(value.get("build", "")),
            )
        except (KeyError, TypeError, ValueError, UsageError) as error:
            raise RunFileError(
                f"The run file's cell {value!r} is not readable ({error}); it was edited or damaged, so measure again."
            ) from None
