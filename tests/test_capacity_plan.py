"""Which loads a capacity run serves, in which order, and what it refuses before anything is written."""

from collections import Counter
from typing import Any

import pytest

from pykvbench.cell import Cell
from pykvbench.errors import UsageError
from pykvbench.experiment.capacity_plan import CapacityPlan, Point, device_memory, parse_policies
from pykvbench.experiment.scheduler import POLICIES
from pykvbench.geometry import Geometry

ONE = 64 * (100 + 16 + 1)  # bytes of a sequence of 100 + 16 tokens: 2 x 1 layer x 1 head x 8 x 4, and a spare row


def plan(**changed: Any) -> CapacityPlan:
    values: dict[str, Any] = {
        "cells": (Cell("cpu", "manual", "prealloc", Geometry(1, 1, 1, 1, 8, "float32")),),
        "contexts": (100, 200),
        "concurrencies": (1, 2, 4),
        "allocators": ("cpu",),
        "memory": (1 << 30,),
        "tokens": 16,
    }
    return CapacityPlan(**{**values, **changed})


def test_without_a_budget_every_load_is_served_once_a_repeat() -> None:
    points = plan().points()
    assert [(point.context, point.concurrency) for point in points] == [(c, n) for c in (100, 200) for n in (1, 2, 4)]
    assert {point.policy for point in points} == {"none"}


def test_only_what_needs_more_than_the_budget_is_served_under_the_policies() -> None:
    limited = [point for point in plan(budget=2 * ONE).points() if point.policy != "none"]
    assert [(p.context, p.concurrency) for p in limited] == [
        (c, n) for c, n in ((100, 4), (200, 2), (200, 4)) for _ in POLICIES
    ]
    assert [plan(budget=2 * ONE).fitting(0, context) for context in (100, 200)] == [2, 1]


def test_every_repeat_visits_all_points_in_an_order_of_its_own() -> None:
    launches = plan(budget=2 * ONE, repeats=3).launches()
    orders = [tuple(point for repeat, point in launches if repeat == r) for r in range(3)]
    assert len(set(orders)) == 3
    assert Counter(orders[0]) == Counter(orders[1]) == Counter(orders[2]) == Counter(plan(budget=2 * ONE).points())
    assert launches == plan(budget=2 * ONE, repeats=3).launches()


def test_sequences_begin_one_row_after_another() -> None:
    assert plan().rows(200, 4) == plan().capacity == 200 + 16 + 1 + 3
    assert plan().needed(Point(0, 100, 4, "none")) == 4 * ONE


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"budget": ONE - 1},
            "A --budget of 7.31 KiB cannot hold one sequence of 100 tokens and 16 more on cpu manual prealloc float32; "
            "give 8KiB or more, or lower --context.",
        ),
        ({"tokens": 1}, "--tokens 1 leaves no time between two tokens; give at least 2, such as 32."),
        ({"repeats": 0}, "--repeats 0 measures nothing; use at least 3, the default."),
        ({"concurrencies": (1, 5000)}, "--concurrency 5000 is beyond 4096 sequences; write fewer."),
        ({"warmup_s": -1.0}, "--warmup -1 is not possible; give seconds from 0 to 600, such as 1."),
        ({"timeout_s": 0.0}, "--timeout 0 is not possible; give seconds, at most 86400, such as 60."),
        ({"seed": -1}, "--seed -1 is negative; use a whole number of at least 0."),
        (
            {"cells": (Cell("cpu", "manual", "prealloc", Geometry(4, 1, 1, 1, 8, "float32")),)},
            "--batch steps sequences in one call, and here each has its own; use --concurrency instead.",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        plan(**changed)
    assert str(refused.value) == message


def test_policies_are_names_in_lists_and_need_a_budget() -> None:
    assert parse_policies((), 1) == POLICIES
    assert parse_policies(("queue, reject", "queue"), 1) == ("queue", "reject")
    with pytest.raises(UsageError, match=r"^--policy wait is unknown; choose one of reject, queue, evict-recompute"):
        parse_policies(("wait",), 1)
    with pytest.raises(UsageError, match=r"--policy queue has nothing to do without a budget; add one, such as"):
        parse_policies(("queue",), None)


def test_a_device_has_its_own_memory() -> None:
    facts = {"memory_bytes": 1 << 34, "gpus": [{"memory_mib": 80 << 10}]}
    assert device_memory("cpu", facts) == device_memory("mlx metal", facts) == 1 << 34
    assert device_memory("cuda", facts) == device_memory("mlx cuda", facts) == 80 << 30
    assert device_memory("cuda", {}) is None
