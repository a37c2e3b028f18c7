"""A capacity run's lines as rows: memory, latency and throughput of each load and policy, or why there are none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pykvbench.analysis.capacity_table import CapacityRow, middle
from pykvbench.dispatch.footprint import fitting, footprint, rows_of, whole_sequence
from pykvbench.record import Run

UNLIMITED = "none"
OUTCOMES = {"out-of-memory": "out of memory", "does-not-fit": "does not fit"}


def latencies_ns(line: Mapping[str, Any]) -> dict[str, float]:
    """p50, p95, p99 and max of the time from one token of a sequence to its next, the first from arrival.

    p50 is that of the middle sequence, the others are those of the sequence that fares worst: one user who waits for
    a whole other conversation is 1 in 32 of his own tokens, and lost among everybody's.
    """
    served = [done for done in line["done"] if len(done) == line["tokens"]]
    gaps = np.diff(np.array(served, dtype=np.float64), axis=1, prepend=0.0)  # [sequences, tokens]
    p50, p95, p99 = np.percentile(gaps, [50, 95, 99], axis=1)
    worst = {"p95_ns": p95.max(), "p99_ns": p99.max(), "max_ns": gaps.max()}
    return {"p50_ns": float(np.median(p50)), **{name: float(value) for name, value in worst.items()}}


def read_rows(run: Run, index: int, mine: Sequence[Mapping[str, Any]], limit: int | None) -> Iterable[CapacityRow]:
    """The rows of one cell from its lines, by context, concurrency and policy; `limit` is what all caches may take."""
    plan = run.plan
    budget = plan.get("budget")
    for context in plan.get("contexts") or ():
        for concurrency in plan.get("concurrencies") or ():
            room = _room(run, index, context, concurrency, limit)
            free = _row(run, index, mine, context, concurrency, UNLIMITED, room)
            yield free
            if budget is None or room["needed"] <= budget:
                continue
            for policy in plan.get("policies") or ():
                row = _row(run, index, mine, context, concurrency, policy, room)
                both = row.served and free.served
                yield replace(row, p99_cost=middle(row.p99_ns) / middle(free.p99_ns) if both else None)


def _row(
    run: Run,
    index: int,
    mine: Sequence[Mapping[str, Any]],
    context: int,
    concurrency: int,
    policy: str,
    room: Mapping[str, Any],
) -> CapacityRow:
    """One row from its lines, or from the event that says why there are none."""
    where = (context, concurrency, policy)
    lines = [
        line
        for line in mine
        if (line["context"], line["concurrency"], line["policy"]) == where
        and any(len(done) == line["tokens"] for done in line["done"])
    ]
    if not lines:
        events = [
            event["event"]
            for event in run.events
            if event.get("cell") == index
            and (event.get("context"), event.get("concurrency"), event.get("policy")) == where
        ]
        outcome = next((OUTCOMES[event] for event in events if event in OUTCOMES), "not measured")
        return CapacityRow(context, concurrency, policy, outcome=outcome, held=float("nan"), memory={}, **room)
    latencies = [latencies_ns(line) for line in sorted(lines, key=lambda line: int(line["repeat"]))]
    tails: dict[str, Any] = {name: tuple(latency[name] for latency in latencies) for name in latencies[0]}
    counters = [name for name in lines[0]["peak"] if all(name in line["peak"] for line in lines)]
    moves = [[ns for line in lines for ns in line[name]] for name in ("out", "into")]
    return CapacityRow(
        context=context,
        concurrency=concurrency,
        policy=policy,
        outcome="",
        held=float(np.median([line["held"] for line in lines])),
        memory={
            name: float(np.median([line["peak"][name] - line["before"].get(name, 0) for line in lines]))
            for name in counters
        },
        **tails,
        tokens_per_s=tuple(sum(len(done) for done in line["done"]) / max(line["took"], 1) * 1e9 for line in lines),
        rejected=max(len(line["rejected"]) for line in lines),
        resident=max(int(line.get("resident", 0)) for line in lines),
        moves=float(np.median([len(line["out"]) for line in lines])),
        out_ns=float(np.median(moves[0])) if moves[0] else None,
        into_ns=float(np.median(moves[1])) if moves[1] else None,
        **room,
    )


def _room(run: Run, index: int, context: int, concurrency: int, limit: int | None) -> dict[str, Any]:
    """Bytes that a load needs, and what else would fit: the budget's limit, or the device's memory without one."""
    cell, allocator = run.cells[index], entry(run.plan, "allocators", index)
    tokens = int(run.plan.get("tokens") or 0)
    held = footprint(cell, allocator, context + tokens, rows_of(context, tokens)).allocated

    def needed(longer: int) -> int:
        size = footprint(cell, allocator, context + longer + tokens, rows_of(context + longer, tokens)).allocated
        return size * (concurrency - 1) + whole_sequence(cell, allocator, context + longer, tokens)

    answer: dict[str, Any] = {
        "kv": cell.geometry.kv_bytes(context + tokens) * concurrency,
        "needed": held * (concurrency - 1) + whole_sequence(cell, allocator, context, tokens),
    }
    if limit is None:
        return answer
    fits = fitting(cell, allocator, context, tokens, limit)
    if needed(0) > limit:
        return {**answer, "more_sequences": 0, "more_tokens": 0}
    low, high = 0, limit // max(1, cell.geometry.kv_bytes(1) * concurrency) + 1  # needed(low) fits, needed(high) not
    while high - low > 1:
        tried = (low + high) // 2
        low, high = (tried, high) if needed(tried) <= limit else (low, tried)
    return {**answer, "more_sequences": fits - concurrency, "more_tokens": low}


def entry(plan: Mapping[str, Any], name: str, index: int) -> Any:
    """What a plan says of one cell, None where it does not."""
    values = plan.get(name)
    return values[index] if isinstance(values, list) and index < len(values) else None
