"""The table of a decode run, as exact text."""

from dataclasses import replace

import numpy as np
import pytest

from pykvbench.analysis.finding import BudgetRow, CellResult, Curve, Finding, Result
from pykvbench.analysis.synthetic_trajectories import Truth, run
from pykvbench.analysis.trajectory import analyze_trajectories
from pykvbench.report import trajectory_table

PAPER = ((128, 1.4, 6.8), (256, 2.9, 20.6), (384, 5.1, 42.7), (512, 83.2, 161.6), (640, 8.8, 139.0), (768, 9.7, 196.6))
STATE = Finding(
    "state", (512, 512), 10.1, "5/5", 4e-5, "confirmed", "budget 512 costs 10.1x what the same lengths cost elsewhere."
)


def paper_result(*, off: bool = True, verdict: str = "state", label: str = "mps manual concat float32") -> Result:
    rows = tuple(
        BudgetRow(
            prompt=65,
            budget=budget,
            totals_ns=(on * 1e9,) * 5,
            slow=budget == 512,
            memory={"live": 2.0**20 * (1400 + budget / 5), "driver": 2.0**20 * 3000},
            off_ns=without * 1e9 if off else None,
        )
        for budget, on, without in PAPER
    )
    lengths = np.arange(66, 834)
    flat = np.ones(len(lengths))
    curve = Curve(lengths, flat[None, :], flat, flat, None, None)
    findings = (STATE,) if verdict == "state" else ()
    note = f"{label}: 1 trajectory died."
    return Result((CellResult(label, verdict, findings, 1.19, 4e-5, (note,), curve, rows),), ("Other load ran.",))


def test_the_papers_table() -> None:
    assert trajectory_table.render(paper_result(), header=("24 layers, 16 heads x 64",), width=80) == (
        "24 layers, 16 heads x 64\n"
        "\n"
        "mps manual concat float32, prompt 65: 6 budgets, 5 repeats\n"
        "          total  a token  no cache   ratio  live  driver\n"
        "  budget      s       ms         s  off/on   MiB     MiB\n"
        "     128    1.4       11       6.8   4.86x  1426    3000\n"
        "     256    2.9       11      20.6   7.10x  1451    3000\n"
        "     384    5.1       13      42.7   8.37x  1477    3000\n"
        "   * 512   83.2      162     161.6   1.94x  1502    3000\n"
        "     640    8.8       14     139.0   15.8x  1528    3000\n"
        "     768    9.7       13     196.6   20.3x  1554    3000\n"
        "\n"
        "state at budget 512: 10.1x, 5/5, p = 4e-5, confirmed. Budget 512 costs 10.1x\n"
        "  what the same lengths cost elsewhere.\n"
        "Note: 1 trajectory died.\n"
        "The smallest excess this run could have confirmed: 1.19x (smallest attainable p\n"
        "  4e-5).\n"
        "\n"
        "Note: Other load ran.\n"
        "\n"
        "Verdict: state: budget 512 costs 10.1x what the same lengths cost elsewhere.\n"
    )


def test_columns_that_nothing_fills_are_left_out() -> None:
    result = paper_result(off=False)
    rows = tuple(replace(row, memory={}) for row in result.cells[0].budgets)
    assert trajectory_table.table(rows)[:3] == [
        "          total  a token",
        "  budget      s       ms",
        "     128    1.4       11",
    ]
    (*_, last) = trajectory_table.table([replace(rows[0], memory={"rss": 2.0**30})])
    assert last.split() == ["128", "1.4", "11", "1024"]


def test_repeats_that_died_are_counted_and_an_empty_row_is_a_dash() -> None:
    rows = list(paper_result(off=False).cells[0].budgets)
    rows[5] = replace(rows[5], totals_ns=(), memory={})
    assert trajectory_table.table(rows)[0].split()[-1] == "whole"
    assert trajectory_table.table(rows)[-1].split() == ["768", "-", "-", "-", "-", "0"]


@pytest.mark.parametrize("width", [40, 60, 100])
def test_words_keep_to_the_width_and_colour_is_only_for_the_verdict(width: int) -> None:
    result = paper_result()
    plain = trajectory_table.render(result, width=width)
    outside = [line for line in plain.splitlines() if not line.startswith("  ")]
    assert max(len(line) for line in outside) <= width
    coloured = trajectory_table.render(result, width=width, colour=True)
    assert coloured.count("\033[1m") == coloured.count("\033[0m") == 1
    assert coloured.replace("\033[1m", "").replace("\033[0m", "") == plain


def test_verdicts_of_runs_in_one_sentence() -> None:
    def said(**truth: object) -> str:
        result = analyze_trajectories(run(Truth(**truth), 0))  # type: ignore[arg-type]
        return trajectory_table.run_verdict(result)

    assert said() == (
        "smooth: no length from 66 to 833 costs more than a longer one beyond 1.20x, and it costs the same in every "
        "budget."
    )
    assert said(by_length=lambda lengths: np.where(lengths == 421, 21.0, 1.0)) == (
        "non-monotonic: 421 (21.0x) costs more than longer lengths do."
    )
    assert said(by_budget=lambda prompt, budget: 10.0 if budget == 512 else 1.0) == (
        "state: budget 512 costs 9.97x what the same lengths cost in the other budgets, in 5 of 5 repeats: T(640) = "
        "340 ms < T(512) = 2.66 s although the 640-token run contains every step of the 512-token run: not a "
        "per-length cost."
    )
    assert said(window=(0.5, 0.75, 10.0), order="ascending").endswith(
        "the budgets were run in ascending order; run them shuffled (the default)."
    )


def test_two_cells_and_nothing_measured() -> None:
    one = paper_result()
    other = paper_result(verdict="smooth", label="cpu manual concat float32")
    text = trajectory_table.render(Result((*one.cells, *other.cells)))
    assert "Verdict: state: in 1 of 2 cells (mps manual concat float32).\n" in text
    assert "  cpu manual concat float32: smooth: no length from 66 to 833" in text
    empty = analyze_trajectories(replace(run(Truth(budgets=(8,)), 0), trajectories=()))
    assert trajectory_table.render(empty).startswith("simulated manual prealloc float32: nothing measured\n")
    assert "Verdict: unresolved: nothing was measured.\n" in trajectory_table.render(empty)
