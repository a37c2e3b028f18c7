"""Memory that every new length leaves behind, and memory that only looks so."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from pykvbench.analysis.growth import growth_findings, steady_rate
from pykvbench.record import Visits

KIB, MIB = 1 << 10, 1 << 20
Series = npt.NDArray[np.float64]
LENGTHS = np.arange(380, 531)


def visits(memory: Callable[[int, npt.NDArray[np.int64]], dict[str, Series]], processes: int = 5) -> Visits:
    """Sweeps in shuffled order; memory(process, lengths in order) gives the counters after each visit."""
    orders = [np.random.default_rng(process).permutation(LENGTHS) for process in range(processes)]
    counters = [memory(process, order) for process, order in enumerate(orders)]
    n, process = processes * len(LENGTHS), np.repeat(np.arange(processes), len(LENGTHS))
    zeros = np.zeros(n, np.int64)
    return Visits(
        **dict.fromkeys(("cell", "order", "at", "gap"), zeros),
        **dict.fromkeys(("first", "second", "dispatch", "total"), np.ones((n, 2), np.int64)),
        sweep=process,
        process=process,
        length=np.concatenate(orders),
        error=np.zeros(n),
        correct=np.ones(n, np.bool_),
        memory={name: np.concatenate([counter[name] for counter in counters]) for name in counters[0]},
    )


def leak(process: int, order: npt.NDArray[np.int64]) -> dict[str, Series]:
    """55 KB kept a length, in whole pages, on top of what a young process touches for the first time."""
    visit = np.arange(len(order))
    touched = 300 * MIB + 1.5 * MIB * (1 - np.exp(-visit / 8))
    return {"rss": np.floor((touched + 55_000 * visit) / 4096) * 4096}


def test_a_graph_kept_for_every_length_is_found_in_the_rss_alone() -> None:
    (finding,) = growth_findings(visits(leak))
    assert (finding.kind, finding.lengths, finding.votes) == ("memory-growth", (380, 530), "5/5")
    assert (finding.ratio, finding.p, finding.confidence) == (None, None, "confirmed")
    assert finding.note == (
        "the process grows, beyond its caches and its pool of freed blocks, by 54 KiB at each new length in 5 of 5 "
        "processes: something is kept for every shape, such as a compiled graph, and a long generation meets a new "
        "shape at every token."
    )


def test_the_driver_and_live_tensors_are_judged_too() -> None:
    def memory(process: int, order: npt.NDArray[np.int64]) -> dict[str, Series]:
        visit, caches = np.arange(len(order)), order * 12_288.0
        return {"live": caches + 20 * KIB * visit, "driver": 64 * MIB + 64 * KIB * visit, "caches": caches}

    live, driver = growth_findings(visits(memory))
    assert live.note.startswith("live tensors grow by 20 KiB at each new length in 5 of 5 processes: ")
    assert driver.note.startswith("the memory the driver holds grows by 64 KiB at each new length in 5 of 5 processes")


def test_caches_as_long_as_the_length_and_a_pool_are_no_growth() -> None:
    def memory(process: int, order: npt.NDArray[np.int64]) -> dict[str, Series]:
        visit, caches, pooled = np.arange(len(order)), order * 12_288.0, np.arange(len(order)) * 160.0 * KIB
        rss = 300 * MIB + caches + pooled + 64 * KIB * (visit % 3)
        return {"live": caches, "rss": rss, "caches": caches, "pooled": pooled}

    assert list(growth_findings(visits(memory))) == []


def test_growth_in_two_of_five_processes_is_not_the_rule() -> None:
    def memory(process: int, order: npt.NDArray[np.int64]) -> dict[str, Series]:
        return leak(process, order) if process < 2 else {"rss": np.full(len(order), 300.0 * MIB)}

    assert list(growth_findings(visits(memory))) == []


def test_processes_that_miss_the_counter_or_saw_few_lengths_do_not_count() -> None:
    assert list(growth_findings(visits(lambda process, order: {"rss": np.full(len(order), np.nan)}))) == []
    assert list(growth_findings(visits(lambda process, order: {"peak": np.arange(len(order)) * 1e6}))) == []


@pytest.mark.parametrize(
    ("series", "rate"),
    [
        (np.arange(151) * 64.0 * KIB, 64 * KIB),
        (np.arange(8) * 64.0 * KIB, 64 * KIB),
        (np.arange(151) * 15.0 * KIB, None),  # below what is worth a word
        (20 * MIB * (1 - np.exp(-np.arange(151) / 15)), None),  # touched for the first time, then no more
        (np.where(np.arange(151) > 70, 32.0 * MIB, 0), None),  # one block
        (-np.arange(151) * 64.0 * KIB, None),
    ],
)
def test_only_growth_all_along_counts(series: Series, rate: float | None) -> None:
    assert steady_rate(series) == (None if rate is None else pytest.approx(rate))
