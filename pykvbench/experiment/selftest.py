"""The instrument tested on this machine: a run with extra work at a few of its lengths, and its attribution."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np

from pykvbench import record
from pykvbench.analysis.selftest import Injected
from pykvbench.analysis.targets import targets
from pykvbench.analysis.verdict import analyze_run
from pykvbench.cell import Cell
from pykvbench.experiment import attribution, run
from pykvbench.experiment.fitness import Fitness, fitness
from pykvbench.experiment.inject import Injection
from pykvbench.experiment.plan import Plan
from pykvbench.experiment.supervisor import Report
from pykvbench.operations import OPERATIONS
from pykvbench.record import Run

FIRST, COUNT = 193, 48  # lengths; few, since a process costs its start-up whatever it measures
SWEEPS, SAMPLES, WARMUP_S = 5, 7, 0.2
_APART = 5  # lengths between injections at least, so that each has neighbours that are not slow
SMALL, LARGE = (1.1, 1.25, 1.5), (3.0, 6.0, 21.0)  # to be found; to be found and attributed


@dataclass(frozen=True)
class Measured:
    """What a self test measured: the device's fitness, the run, and what was injected into it."""

    fitness: Fitness
    run: Run
    injected: tuple[Injected, ...]


def measure(cell: Cell, seed: int, simulate: str | None, facts: Mapping[str, Any], report: Report) -> Measured:
    """Inspect the device, then measure the run and attribute its largest findings.

    The lengths at which nothing is injected are the negative control: visited in the same processes, in the same
    shuffled orders. A run of its own for them would cost five more starts of the framework.

    Raises UsageError when the backend is not there.
    """
    injections = choose(seed)
    plan = Plan(
        cells=(cell,),
        lengths=tuple(range(FIRST, FIRST + COUNT)),
        sweeps=SWEEPS,
        samples=SAMPLES,
        seed=seed,
        warmup_s=WARMUP_S,
        simulate=simulate,
        inject=injections,
    )
    device = fitness(cell.backend)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        run.start(plan, path, [], facts, report)
        measured = record.read(path)
        found = targets(measured, analyze_run(measured))
        if found.chosen:
            attribution.attribute(measured, path, found.chosen, found.left_out, report)
        return Measured(device, record.read(path), tuple(map(_injected, injections)))


def choose(seed: int) -> tuple[Injection, ...]:
    """Extra work at random lengths: small on host and device, and large on the host, the device and in one operation.

    The last lengths stay free: an excess needs longer lengths to stand out from.
    """
    rng = np.random.default_rng([seed, 17])
    lengths = _irregular(rng, len(SMALL) + len(LARGE))
    operation = str(rng.choice(OPERATIONS))
    places = [("", False), ("", True), ("", bool(rng.integers(2))), ("", True), (operation, False), ("", False)]
    ratios = [*rng.permutation(SMALL).tolist(), *rng.permutation(LARGE).tolist()]
    return tuple(
        Injection(int(length), float(ratio), place, on_device)
        for length, ratio, (place, on_device) in zip(lengths, ratios, places, strict=True)
    )


def _irregular(rng: np.random.Generator, count: int) -> list[int]:
    """Lengths apart from each other of which no three are evenly spaced: those would rightly be called periodic."""
    while True:
        drawn = rng.choice(np.arange(FIRST + 1, FIRST + COUNT - 4), count, replace=False)
        gaps = [abs(int(b) - int(a)) for a, b in combinations(drawn, 2)]
        if min(gaps) >= _APART and not any(2 * b == a + c for a, b, c in permutations(drawn.tolist(), 3)):
            return [int(length) for length in drawn]


def _injected(injection: Injection) -> Injected:
    return Injected(injection.length, injection.ratio, injection.place or ("device" if injection.device else "host"))
