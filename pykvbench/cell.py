"""A cell: one backend, kernel, cache policy and geometry; what one curve is a curve of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pykvbench.errors import RunFileError, UsageError
from pykvbench.geometry import Geometry

BACKENDS = ("mps", "cuda", "mlx", "cpu", "mlx-cpu", "simulated")
KERNELS = ("manual", "fused")
CACHES = ("prealloc", "concat", "chunked", "padded")


@dataclass(frozen=True)
class Cell:
    """One combination that is measured over every length."""

    backend: str
    kernel: str
    cache: str
    geometry: Geometry

    def __post_init__(self) -> None:
        for option, value, known in (
            ("--backend", self.backend, BACKENDS),
            ("--kernel", self.kernel, KERNELS),
            ("--cache", self.cache, CACHES),
        ):
            if value not in known:
                raise UsageError(f"{option} {value} is unknown; choose one of {', '.join(known)}.")

    @property
    def label(self) -> str:
        """What the cell is called in tables: `cpu manual prealloc float32`."""
        return f"{self.backend} {self.kernel} {self.cache} {self.geometry.dtype}"

    def to_json(self) -> dict[str, Any]:
        """Plain values for the run file."""
        return {"backend": self.backend, "kernel": self.kernel, "cache": self.cache, "geometry": self.geometry.to_json()}

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
            )
        except (KeyError, TypeError, UsageError) as error:
            raise RunFileError(f"The run file's cell {value!r} is not readable ({error}); was it edited?") from None
