"""Which prompts are computed and restored, from where, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pykvbench.analysis.reuse_table import TIERS
from pykvbench.cell import Cell
from pykvbench.errors import UsageError
from pykvbench.experiment.plan import MAX_TIMEOUT_S
from pykvbench.geometry import model
from pykvbench.lengths import format_lengths

BODIES = ("attention", "block", "model")
COPIES = 5  # of K and V at once: what attention is given, the caches, and the copies on device, host and from disk
_WARM_UP = 33  # tokens; a longer prompt would be computed for nothing


@dataclass(frozen=True)
class ReusePlan:
    """Cells x prompt lengths x repeats, each a fresh process that computes the prompt and restores it from each tier.

    `keep` is where the files of K and V stay after the run and are looked for before it; without it they go with it.
    """

    cells: tuple[Cell, ...]
    lengths: tuple[int, ...]
    tiers: tuple[str, ...] = TIERS
    chunk: int = 512
    repeats: int = 5
    seed: int = 0
    warmup_s: float = 1.0
    timeout_s: float = 60.0
    keep: Path | None = None

    def __post_init__(self) -> None:
        for cell in self.cells:
            if cell.backend == "simulated":
                raise UsageError("--backend simulated has no KV that could be restored; use --backend cpu.")
            positions = model(cell.model).positions
            if cell.body != "attention" and self.longest + 1 > positions:
                raise UsageError(
                    f"--len {self.longest} and one token more need {self.longest + 1} positions and {cell.model} has "
                    f"{positions}; lower --len or use another --model."
                )
        if not 1 <= self.chunk <= 65536:
            raise UsageError(f"--chunk {self.chunk} is not possible; give tokens from 1 to 65536, such as 512.")
        if self.repeats < 1:
            raise UsageError(f"--repeats {self.repeats} measures nothing; use at least 3, or leave the default of 5.")
        if not 0 <= self.warmup_s <= 600:
            raise UsageError(f"--warmup {self.warmup_s:g} is not possible; give seconds from 0 to 600, such as 1.")
        if not 0 < self.timeout_s <= MAX_TIMEOUT_S:
            raise UsageError(
                f"--timeout {self.timeout_s:g} is not possible; give seconds, at most {MAX_TIMEOUT_S}, such as 60."
            )
        if self.seed < 0:
            raise UsageError(f"--seed {self.seed} is negative; use a whole number of at least 0.")
        if self.keep is not None and self.keep.exists() and not self.keep.is_dir():
            raise UsageError(f"--keep {self.keep} is not a folder; name one for the files of K and V.")

    @property
    def longest(self) -> int:
        """The longest prompt."""
        return self.lengths[-1]

    @property
    def warmup_length(self) -> int:
        """What a process steps at before it measures."""
        return min(_WARM_UP, self.longest + 1)

    @property
    def capacity(self) -> int:
        """Tokens that fixed buffers hold; no length fills it (see Plan.capacity)."""
        return self.longest + 2

    @property
    def disk_bytes(self) -> int:
        """The most that the files of K and V take together: one a cell and length, and one more while it is written."""
        if "disk" not in self.tiers:
            return 0
        lengths = (*self.lengths, self.longest)
        return sum(cell.geometry.kv_bytes(length) for cell in self.cells for length in lengths)

    def launches(self) -> tuple[tuple[int, int, int], ...]:
        """(cell, length, repeat) of each process; every repeat has its own order, so that time hits no length alone."""
        every = [(cell, length) for cell in range(len(self.cells)) for length in self.lengths]
        rng = np.random.default_rng([self.seed, 9])
        return tuple(
            (*every[index], repeat) for repeat in range(self.repeats) for index in rng.permutation(len(every)).tolist()
        )

    def to_json(self) -> dict[str, Any]:
        """The plan as the run file's header holds it; no path is in it."""
        return {
            "lengths": format_lengths(self.lengths),
            "tiers": list(self.tiers),
            "chunk": self.chunk,
            "repeats": self.repeats,
            "order": "shuffled",
            "warmup_s": self.warmup_s,
            "timeout_s": self.timeout_s,
            "kept": self.keep is not None,
        }


def parse_tiers(text: str) -> tuple[str, ...]:
    """Read `device,host,disk`, in that order whatever the order given; UsageError for anything else."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in TIERS:
            raise UsageError(f"--tier {name} is unknown; choose from {', '.join(TIERS)}.")
    return tuple(tier for tier in TIERS if tier in names)
