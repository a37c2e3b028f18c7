"""What a prediction is made of: the environment it holds for, the route it names, and the lengths where it changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

UNKNOWN = "unknown"
NOT_PREDICTED = "not predicted"

# A released version, with a build tag such as +cpu or +cu128 allowed; dev, alpha, candidate and +git builds are not.
_RELEASE = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:\.post\d+)?(?:\+(?!git)[\w.]+)?", re.ASCII)


@dataclass(frozen=True)
class Environment:
    """What besides the cell decides a route; a value that is not known is None and never guessed.

    torch, mlx     versions as the packages give them, such as 2.13.0+cpu
    macos          version as sw_vers gives it, such as 15.3.1
    architecture   mlx's device_info architecture, such as applegpu_g15d or sm_90
    variables      environment variables of the run by name
    """

    torch: str | None = None
    mlx: str | None = None
    macos: str | None = None
    architecture: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def macos_major(self) -> int | None:
        """The first number of the macOS version, or None when it is not known."""
        match = re.match(r"\d+", self.macos or "")
        return int(match[0]) if match else None


@dataclass(frozen=True)
class Route:
    """The kernels one decode step is predicted to take at one length.

    parts     what else is decided by shape: block counts, kernel variants, caveats
    copies    what is copied besides the new token's row, at every step
    scratch   (what, bytes per key) of tensors allocated anew at every step and growing with the length
    source    version and change that the rule comes from
    """

    name: str
    parts: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    scratch: tuple[tuple[str, int], ...] = ()
    source: str = ""

    @property
    def known(self) -> bool:
        """Whether the rules name a kernel."""
        return self.name not in (UNKNOWN, NOT_PREDICTED)

    @property
    def detail(self) -> str:
        """Parts and copies in one line, empty when there are none."""
        return "; ".join(self.parts + self.copies)

    def to_json(self) -> dict[str, Any]:
        """Plain values for the run file."""
        value = asdict(self)
        del value["scratch"]
        return value


@dataclass(frozen=True)
class Landmark:
    """A length at which something is known to change; `length` is the first one on the new side."""

    length: int
    what: str
    source: str


def unknown(reason: str) -> Route:
    """The route when the rules do not reach: the reason is its only part."""
    return Route(UNKNOWN, (reason,))


def release(version: str | None) -> tuple[int, int, int] | None:
    """Read 2.13.0 or 2.13.0+cpu as (2, 13, 0); None for development builds, candidates and anything else."""
    match = _RELEASE.fullmatch(version or "")
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def difference(before: Route, after: Route) -> str:
    """What changes from one route to the next, in words; empty when nothing does."""
    if before.name != after.name:
        return f"{before.name} -> {after.name}"
    changes = []
    for old, new, nothing in ((before.parts, after.parts, "nothing"), (before.copies, after.copies, "no copy")):
        if old != new:
            left = ", ".join(part for part in old if part not in new) or nothing
            come = ", ".join(part for part in new if part not in old) or nothing
            changes.append(f"{left} -> {come}")
    return "; ".join(changes)
