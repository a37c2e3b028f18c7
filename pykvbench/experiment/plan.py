"""What is measured and in which order: cells x sweeps x a fresh shuffle of the lengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pykvbench.cell import Cell
from pykvbench.dispatch.layout import fixed_capacity
from pykvbench.errors import RunFileError, UsageError
from pykvbench.experiment.inject import Injection, parse_injection
from pykvbench.experiment.interpreter import Interpreter
from pykvbench.lengths import format_lengths, parse_lengths
from pykvbench.operations import ATTENTION

CALLS_BEFORE_STEADY = 2  # first and second call, kept apart from the K steady samples
MAX_TIMEOUT_S = 86_400  # a day; infinity has no nanoseconds to wait for


@dataclass(frozen=True)
class Plan:
    """The whole experiment; the same plan and seed always give the same orders."""

    cells: tuple[Cell, ...]
    lengths: tuple[int, ...]
    sweeps: int = 5
    samples: int = 7
    seed: int = 0
    warmup_s: float = 1.0
    timeout_s: float = 60.0
    simulate: str | None = None
    inject: tuple[Injection, ...] = ()
    cpus: tuple[int, ...] = ()  # those that workers are held to; empty: all
    interpreters: tuple[Interpreter, ...] = ()  # that cells are measured under; none: the one that runs this

    def __post_init__(self) -> None:
        if self.sweeps < 1:
            raise UsageError(f"--sweeps {self.sweeps} measures nothing; use at least 3, or leave the default of 5.")
        if self.samples < 1:
            raise UsageError(f"--samples {self.samples} measures nothing; use an odd number of at least 3, such as 7.")
        if not 0 <= self.warmup_s <= 600:
            raise UsageError(f"--warmup {self.warmup_s:g} is not possible; give seconds from 0 to 600, such as 1.")
        if not 0 < self.timeout_s <= MAX_TIMEOUT_S:
            raise UsageError(
                f"--timeout {self.timeout_s:g} is not possible; give seconds, at most {MAX_TIMEOUT_S}, such as 60."
            )
        if self.seed < 0:
            raise UsageError(f"--seed {self.seed} is negative; use a whole number of at least 0.")
        for injection in self.inject:
            if injection.length not in self.lengths:
                raise UsageError(
                    f"--inject {injection.text} is outside the measured lengths {format_lengths(self.lengths)}; "
                    "inject at one of them."
                )
            fused = any(cell.kernel == "fused" for cell in self.cells)
            if fused and injection.place in ATTENTION:
                raise UsageError(
                    f"--inject {injection.text} needs an operation that the fused kernel does not have; "
                    "measure --kernel manual."
                )

    @property
    def visits(self) -> int:
        """Visits in the whole run."""
        return len(self.cells) * self.sweeps * len(self.lengths)

    @property
    def warmup_length(self) -> int:
        """A length that is not measured, so that warming up does not use up any length's first visit."""
        return self.lengths[0] - 1 if self.lengths[0] > 1 else self.lengths[-1] + 1

    @property
    def capacity(self) -> int:
        """Tokens that the fixed buffers hold: one more than the longest length stepped, warm-up included.

        A slice that fills its buffer is contiguous and may take another route than all the others (torch 2.8 to 2.12
        copy every other slice on mps), so no length may fill it.
        """
        return fixed_capacity(self.lengths[0], self.lengths[-1])

    def launches(self) -> tuple[tuple[int, int], ...]:
        """(cell, sweep) in the order of processes: A B, B A, A B, ... so that no cell always runs first.

        Slow changes of the machine then fall on all cells alike.
        """
        cells = range(len(self.cells))
        return tuple(
            (cell, sweep) for sweep in range(self.sweeps) for cell in (cells if sweep % 2 == 0 else reversed(cells))
        )

    def order(self, cell: int, sweep: int) -> tuple[int, ...]:
        """The lengths in this sweep's own shuffled order; a bad minute then hits different lengths in each sweep."""
        shuffled = np.random.default_rng([self.seed, cell, sweep, 3]).permutation(self.lengths)
        return tuple(int(length) for length in shuffled)

    def to_json(self) -> dict[str, Any]:
        """The plan as the run file's header holds it."""
        return {
            "lengths": format_lengths(self.lengths),
            "sweeps": self.sweeps,
            "samples": self.samples,
            "warmup_s": self.warmup_s,
            "order": "shuffled",
            "timeout_s": self.timeout_s,
            "simulate": self.simulate,
            "inject": [injection.text for injection in self.inject],
            "cpus": list(self.cpus),
        }

    @classmethod
    def from_header(
        cls, header: dict[str, Any], cells: tuple[Cell, ...], interpreters: tuple[Interpreter, ...] = ()
    ) -> Plan:
        """The plan of a run file, to continue it."""
        try:
            plan = header["plan"]
            return cls(
                cells=cells,
                lengths=parse_lengths(plan["lengths"]),
                sweeps=int(plan["sweeps"]),
                samples=int(plan["samples"]),
                seed=int(header["seed"]),
                warmup_s=float(plan["warmup_s"]),
                timeout_s=float(plan["timeout_s"]),
                simulate=plan["simulate"],
                inject=tuple(parse_injection(text) for text in plan["inject"]),
                cpus=tuple(int(cpu) for cpu in plan.get("cpus", ())),
                interpreters=interpreters,
            )
        except (KeyError, TypeError, ValueError, AttributeError, UsageError):
            raise RunFileError(
                "The run file's plan is not readable, so it cannot be continued; start a new run."
            ) from None
