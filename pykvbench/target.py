"""A target: what of a finding is contrasted, the flagged lengths and the neighbours that they are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

REACH = 4  # neighbours a side that the whole step is timed at
NEAR = 1  # neighbours a side that its parts and variants are timed at


@dataclass(frozen=True)
class Target:
    """`cell`, `kind`, `lengths` and `ratio` are the finding's own.

    `flagged` are those of its lengths that are contrasted, at most 3; `controls` their neighbours that no finding
    flags, up to REACH a side; `near` those of the controls that are at most NEAR away.
    """

    cell: int
    kind: str
    lengths: tuple[int, int]
    ratio: float
    flagged: tuple[int, ...]
    controls: tuple[int, ...]
    near: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values for the run file."""
        return {
            "cell": self.cell,
            "kind": self.kind,
            "lengths": list(self.lengths),
            "ratio": self.ratio,
            "flagged": list(self.flagged),
            "controls": list(self.controls),
            "near": list(self.near),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Target:
        """Read what to_json wrote; raises KeyError, TypeError or ValueError where it did not."""
        first, last = (int(length) for length in value["lengths"])
        flagged, controls, near = (
            tuple(int(length) for length in value[name]) for name in ("flagged", "controls", "near")
        )
        if not flagged or not near:
            raise ValueError("a target without lengths")
        return cls(
            int(value["cell"]), str(value["kind"]), (first, last), float(value["ratio"]), flagged, controls, near
        )
