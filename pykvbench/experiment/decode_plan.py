"""Which trajectories are decoded, in which processes, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from pykvbench.cell import Cell
from pykvbench.drivers.library import check_library
from pykvbench.errors import UsageError
from pykvbench.experiment.plan import MAX_TIMEOUT_S
from pykvbench.geometry import model

HISTORIES = ("fresh", "shared")
ORDERS = ("shuffled", "ascending")
WARMUPS = 3  # generations before the measured ones of a budget in a shared process, as the paper's server had


@dataclass(frozen=True)
class Trajectory:
    """One generation: `measured` is false for those that only leave a history behind them."""

    prompt: int
    budget: int
    repeat: int
    measured: bool = True


@dataclass(frozen=True)
class DecodePlan:
    """Cells x prompts x budgets x repeats.

    history "fresh" gives every trajectory a process of its own; "shared" decodes all of a cell's in one process, and in
    ascending order repeats the paper's protocol: each budget's 3 warm-up generations, then its measured ones.
    """

    cells: tuple[Cell, ...]
    budgets: tuple[int, ...]
    prompts: tuple[int, ...]
    repeats: int = 5
    history: str = "fresh"
    order: str = "shuffled"
    seed: int = 0
    warmup_s: float = 1.0
    timeout_s: float = 60.0
    simulate: str | None = None

    def __post_init__(self) -> None:
        for cell in self.cells:
            if cell.body == "library":
                check_library(cell)
            positions = model(cell.model).positions
            # mlx-lm's generate_step always computes one token beyond the last that is asked for.
            needed = self.longest + (cell.body == "library" and cell.backend.startswith("mlx"))
            if cell.body != "attention" and needed > positions:
                raise UsageError(
                    f"--prompt {self.prompts[-1]} and --budget {self.budgets[-1]} need {needed} positions and "
                    f"{cell.model} has {positions}; lower one of them."
                )
        if self.repeats < 1:
            raise UsageError(f"--repeats {self.repeats} measures nothing; use at least 3, or leave the default of 5.")
        if self.history not in HISTORIES:
            raise UsageError(f"--history {self.history} is unknown; choose one of {', '.join(HISTORIES)}.")
        if self.order not in ORDERS:
            raise UsageError(f"--order {self.order} is unknown; choose one of {', '.join(ORDERS)}.")
        if not 0 <= self.warmup_s <= 600:
            raise UsageError(f"--warmup {self.warmup_s:g} is not possible; give seconds from 0 to 600, such as 1.")
        if not 0 < self.timeout_s <= MAX_TIMEOUT_S:
            raise UsageError(
                f"--timeout {self.timeout_s:g} is not possible; give seconds, at most {MAX_TIMEOUT_S}, such as 60."
            )
        if self.seed < 0:
            raise UsageError(f"--seed {self.seed} is negative; use a whole number of at least 0.")

    @property
    def longest(self) -> int:
        """The longest KV length of any step."""
        return self.prompts[-1] + self.budgets[-1]

    @property
    def warmup_length(self) -> int:
        """A length that no trajectory reaches, so that warming up does not use up any length's first visit."""
        return self.longest + 1

    @property
    def capacity(self) -> int:
        """Tokens that fixed buffers hold, the same for every budget; no length fills it (see Plan.capacity)."""
        return self.longest + 2

    @property
    def trajectories(self) -> int:
        """Measured trajectories in the whole run."""
        return len(self.cells) * len(self.prompts) * len(self.budgets) * self.repeats

    def launches(self) -> tuple[tuple[int, tuple[Trajectory, ...]], ...]:
        """(cell, trajectories) for each process, in the order of processes.

        Ascending order makes budget and time of measurement the same variable, as the paper's did; it is there to show
        that. Shuffled, each repeat visits every cell, prompt and budget in its own order before the next repeat.
        """
        rng = np.random.default_rng([self.seed, 5])
        if self.history == "shared":
            return tuple((cell, self._shared(rng)) for cell in range(len(self.cells)))
        launches = []
        if self.order == "ascending":
            for cell, prompt, budget in product(range(len(self.cells)), self.prompts, self.budgets):
                launches += [(cell, (Trajectory(prompt, budget, repeat),)) for repeat in range(self.repeats)]
            return tuple(launches)
        for repeat in range(self.repeats):
            every = list(product(range(len(self.cells)), self.prompts, self.budgets))
            for index in rng.permutation(len(every)):
                cell, prompt, budget = every[index]
                launches.append((cell, (Trajectory(prompt, budget, repeat),)))
        return tuple(launches)

    def _shared(self, rng: np.random.Generator) -> tuple[Trajectory, ...]:
        pairs = list(product(self.prompts, self.budgets))
        if self.order == "ascending":
            return tuple(
                Trajectory(prompt, budget, max(0, place - WARMUPS), place >= WARMUPS)
                for prompt, budget in pairs
                for place in range(WARMUPS + self.repeats)
            )
        return tuple(
            Trajectory(prompt, budget, repeat)
            for repeat in range(self.repeats)
            for prompt, budget in (pairs[index] for index in rng.permutation(len(pairs)))
        )

    def to_json(self) -> dict[str, Any]:
        """The plan as the run file's header holds it."""
        return {
            "budgets": list(self.budgets),
            "prompts": list(self.prompts),
            "repeats": self.repeats,
            "warmups": WARMUPS if (self.history, self.order) == ("shared", "ascending") else 0,
            "history": self.history,
            "order": self.order,
            "warmup_s": self.warmup_s,
            "timeout_s": self.timeout_s,
            "simulate": self.simulate,
        }
