"""Any file that can be analysed: a run file, or a plain table of lengths and times."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pykvbench import record
from pykvbench.analysis.capacity import analyze_capacity
from pykvbench.analysis.finding import Result
from pykvbench.analysis.reuse import analyze_reuse
from pykvbench.analysis.sentences import counted
from pykvbench.analysis.series import analyze_series
from pykvbench.analysis.table import read_table
from pykvbench.analysis.trajectory import analyze_trajectories
from pykvbench.analysis.verdict import analyze_run
from pykvbench.errors import RunFileError
from pykvbench.record import Run
from pykvbench.sizes import format_size


def analyze_file(path: str | os.PathLike[str], min_ratio: float = 1.10) -> tuple[Run | None, Result]:
    """Analyse a run file or a CSV table; the run is None for a table.

    Raises RunFileError, with the remedy, for anything that is neither.
    """
    try:
        with open(path, "rb") as file:
            first = file.readline(1 << 22)
    except OSError as error:
        raise RunFileError(f"{path} cannot be read ({error.strerror}); name a run file or a CSV table.") from None
    if not record.is_run(first):
        return None, analyze_series(read_table(path), min_ratio)
    run = record.read(path)
    if run.is_capacity:
        return run, analyze_capacity(run)
    if run.is_reuse:
        return run, analyze_reuse(run)
    return run, (analyze_trajectories if run.is_decode else analyze_run)(run, min_ratio)


def describe(run: Run | None) -> tuple[str, ...]:
    """Lines that say what was measured and how: geometry, plan, and every default that applied."""
    if run is None:
        return ()
    shape = run.cells[0].geometry
    grouped = f" sharing {shape.num_kv_heads} KV heads" if shape.queries_per_kv_head > 1 else ""
    layers = counted(shape.num_layers, "layer")
    batch = f", batch {shape.batch}" if shape.batch > 1 else ""
    return (f"{layers}, {counted(shape.num_heads, 'head')} x {shape.head_dim}{grouped}{batch}", _experiment(run))


def _experiment(run: Run) -> str:
    plan, seed = run.plan, f"seed {run.header.get('seed')}"
    if run.is_capacity:
        return _capacity(plan, seed)
    if run.is_reuse:
        return (
            f"prompts of {plan.get('lengths')} tokens computed in chunks of {plan.get('chunk')}, {plan.get('repeats')} "
            f"repeats, shuffled order, fresh process each, {seed}"
        )
    if not run.is_decode:
        return (
            f"lengths {plan.get('lengths')}, {plan.get('sweeps')} sweeps x {plan.get('samples')} samples, shuffled "
            f"order, fresh process each, {seed}"
        )
    budgets, prompts = (", ".join(str(value) for value in plan.get(name) or ()) for name in ("budgets", "prompts"))
    process = "one process" if plan.get("history") == "shared" else "fresh process each"
    repeats, order = plan.get("repeats"), plan.get("order")
    return f"budgets {budgets} after prompts of {prompts}, {repeats} repeats, {order} order, {process}, {seed}"


def _capacity(plan: Mapping[str, Any], seed: str) -> str:
    contexts, numbers = (
        ", ".join(str(value) for value in plan.get(name) or ()) for name in ("contexts", "concurrencies")
    )
    budget = plan.get("budget")
    limit = f"; a budget of {format_size(budget)}, slices of {plan.get('slice')} tokens" if budget else ""
    return (
        f"{numbers} sequences of {contexts} tokens, each due {plan.get('tokens')} more, served round-robin{limit}; "
        f"{plan.get('repeats')} repeats, shuffled order, fresh process each, {seed}"
    )
