"""Seeded decode runs with a known truth: what the analysis of trajectories is tested on.

A step costs `base_ns + slope_ns * L` times what the truth adds; on top lie lognormal noise, stalls of single steps, and
levels that differ between processes. Trajectories follow one another with a pause for starting a process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pykvbench.analysis.finding import Floats, Ints
from pykvbench.cell import Cell
from pykvbench.geometry import geometry
from pykvbench.record import Run, Visits

START_NS = 200_000_000  # between two trajectories


def _nothing(lengths: Ints) -> Floats:
    return np.ones(len(lengths))


def _alike(prompt: int, budget: int) -> float:
    return 1.0


@dataclass(frozen=True)
class Truth:
    """What is true of a run; the defaults are those under which operating characteristics are stated."""

    budgets: tuple[int, ...] = tuple(range(128, 769, 128))
    prompts: tuple[int, ...] = (65,)
    repeats: int = 5
    order: str = "shuffled"
    history: str = "fresh"
    cache: str = "prealloc"
    base_ns: float = 300_000.0
    slope_ns: float = 500.0
    by_length: Callable[[Ints], Floats] = _nothing  # factor at each KV length
    by_budget: Callable[[int, int], float] = _alike  # factor of a (prompt, budget)
    window: tuple[float, float, float] = (0.0, 0.0, 1.0)  # from and to, as shares of the run's time, and the factor
    sag: float = 0.0  # by how much everything is slower at the end of the run than at its start
    sample: float = 0.03  # lognormal sigma of one step
    process: float = 0.03  # lognormal sigma of a process
    stalls: float = 0.01  # share of steps that take 2 to 20 times as long
    cold: tuple[float, ...] = ()  # factors of a trajectory's first steps


def run(truth: Truth, seed: int) -> Run:
    """A run of one cell in which this was true."""
    rng = np.random.default_rng(seed)
    todo = [(p, b, r) for p in truth.prompts for b in truth.budgets for r in range(truth.repeats)]
    if truth.order == "shuffled":
        todo = [todo[i] for i in rng.permutation(len(todo))]
    cost = [truth.base_ns + truth.slope_ns * np.arange(p + 1, p + b + 1) for p, b, _ in todo]
    spent = np.cumsum([0.0, *(steps.sum() + START_NS for steps in cost)])
    lines, at = [], 0
    for place, (prompt, budget, repeat) in enumerate(todo):
        share = (spent[place] + np.cumsum(cost[place])) / spent[-1]
        steps = cost[place] * truth.by_length(np.arange(prompt + 1, prompt + budget + 1))
        steps *= truth.by_budget(prompt, budget) * (1.0 + truth.sag * share)
        steps[(share >= truth.window[0]) & (share < truth.window[1])] *= truth.window[2]
        steps[: len(truth.cold)] *= truth.cold[:budget]
        steps *= np.exp(rng.normal(0.0, truth.sample, budget) + rng.normal(0.0, truth.process))
        stalled = rng.random(budget) < truth.stalls
        steps[stalled] *= rng.uniform(2.0, 20.0, int(stalled.sum()))
        fresh = truth.history == "fresh"
        lines.append(_line(prompt, budget, repeat, place, 0 if fresh else place, place if fresh else 0, at, steps))
        at += int(steps.sum()) + START_NS
    return as_run(truth, seed, lines)


def as_run(truth: Truth, seed: int, lines: list[dict[str, Any]]) -> Run:
    """The run that holds these trajectories."""
    plan = {
        "budgets": list(truth.budgets),
        "prompts": list(truth.prompts),
        "repeats": truth.repeats,
        "warmups": 0,
        "history": truth.history,
        "order": truth.order,
    }
    cells = (Cell("simulated", "manual", truth.cache, geometry("gpt2")),)
    header = {"command": "decode", "seed": seed, "plan": plan}
    return Run(header, cells, _no_visits(), tuple(lines), (), {"status": "complete"}, ())


def _line(
    prompt: int, budget: int, repeat: int, order: int, place: int, process: int, at: int, steps: Floats
) -> dict[str, Any]:
    total = [int(ns) for ns in steps]
    return {
        "kind": "trajectory",
        "cell": 0,
        "process": process,
        "repeat": repeat,
        "place": place,
        "order": order,
        "budget": budget,
        "prompt": prompt,
        "at": at,
        "dispatch": [ns // 10 for ns in total],
        "total": total,
        "gap": [0] * budget,
        "memory": {},
        "tokens": None,
        "error": None,
        "correct": True,
        "complete": True,
    }


def _no_visits() -> Visits:
    none = np.zeros(0, dtype=np.int64)
    pairs = np.zeros((0, 2), dtype=np.int64)
    samples = np.zeros((0, 1), dtype=np.int64)
    truths = np.zeros(0, dtype=np.bool_)
    return Visits(
        none, none, none, none, none, none, none, pairs, pairs, samples, samples, np.zeros(0), truths, memory={}
    )
