"""What is said of decode runs whose truth is known."""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pykvbench.analysis.finding import Floats, Ints, Result
from pykvbench.analysis.synthetic_trajectories import Truth, run
from pykvbench.analysis.trajectory import analyze_trajectories
from pykvbench.record import Run

PROBE = tuple(range(480, 657, 16))
SEEDS = [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))]


def analyse(seed: int = 0, **truth: Any) -> Result:
    return analyze_trajectories(run(Truth(**{"budgets": PROBE, **truth}), seed))


def kinds(result: Result) -> list[str]:
    return [finding.kind for finding in result.findings]


def dear(length: int, ratio: float) -> Any:
    return lambda lengths: np.where(lengths == length, ratio, 1.0)


def slow(ratio: float, first: int = 512, last: int = 624) -> Any:
    return lambda prompt, budget: ratio if first <= budget <= last else 1.0


def growth(lengths: Ints) -> Floats:
    return np.where(lengths % 256 == 1, 3.0, 1.0)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ratio", [1.3, 21.0])
def test_a_slow_length_is_found_in_every_budget(seed: int, ratio: float) -> None:
    result = analyse(seed, by_length=dear(421, ratio))
    assert (result.verdict, kinds(result)) == ("non-monotonic", ["spike"])
    assert result.findings[0].lengths == (421, 421)
    assert result.findings[0].ratio == pytest.approx(ratio, rel=0.05)
    assert result.findings[0].note.endswith(", in each of the 12 budgets that reach it.")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ratio", [1.5, 10.0])
def test_slow_budgets_are_a_state_and_the_contains_test_is_quoted(seed: int, ratio: float) -> None:
    result = analyse(seed, by_budget=slow(ratio))
    assert (result.verdict, kinds(result)) == ("state", ["state"])
    found = result.findings[0]
    assert (found.lengths, found.votes, found.confidence) == ((512, 624), "5/5", "confirmed")
    assert found.ratio == pytest.approx(ratio, rel=0.05)
    assert found.note.startswith("budgets 512 to 624 cost ")
    assert "T(640) = " in found.note
    assert "although the 640-token run contains every step of the " in found.note
    assert found.note.endswith("-token run: not a per-length cost.")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ratio", [1.5, 10.0])
def test_a_slow_half_hour_is_told_from_budgets_in_shuffled_order_only(seed: int, ratio: float) -> None:
    shuffled = analyse(seed, window=(0.4, 0.65, ratio))
    assert (shuffled.verdict, kinds(shuffled)) == ("state", ["state"])
    assert "follows the time of measurement, not the length and not the budget" in shuffled.findings[0].note
    ascending = analyse(seed, window=(0.4, 0.65, ratio), order="ascending")
    assert ascending.verdict == "unresolved"
    assert {finding.kind for finding in ascending.findings} == {"state"}
    assert all(finding.confidence == "apparent" for finding in ascending.findings)
    assert (
        "Budget and time of measurement cannot be told apart: the budgets were run in ascending order; run them "
        "shuffled (the default)." in ascending.findings[0].note
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_slow_budgets_in_ascending_order_are_not_claimed(seed: int) -> None:
    result = analyse(seed, by_budget=slow(10.0), order="ascending")
    assert result.verdict == "unresolved"
    assert "not a per-length cost. Budget and time of measurement cannot be told apart" in result.findings[0].note


@pytest.mark.parametrize("seed", SEEDS)
def test_a_clock_that_sags_is_drift(seed: int) -> None:
    result = analyse(seed, sag=0.1)
    assert (result.verdict, kinds(result)) == ("smooth", ["drift"])
    assert result.findings[0].ratio == pytest.approx(1.1, abs=0.06)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("order", ["shuffled", "ascending"])
def test_nothing_is_smooth(seed: int, order: str) -> None:
    result = analyse(seed, order=order)
    assert (result.verdict, kinds(result)) == ("smooth", [])
    limit = result.cells[0].limit_of_detection
    assert limit is not None
    assert 1.1 < limit < 1.3


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("budgets", "last"), [(PROBE, 513), (tuple(range(128, 769, 128)), 769)])
def test_growth_at_every_256_is_periodic(seed: int, budgets: tuple[int, ...], last: int) -> None:
    result = analyse(seed, budgets=budgets, by_length=growth, cache="chunked")
    found = [finding for finding in result.findings if finding.kind != "drift"]
    assert (result.verdict, [finding.kind for finding in found]) == ("non-monotonic", ["periodic"])
    assert found[0].lengths == (257, last)
    assert found[0].note.startswith(f"lengths with remainder 1 modulo 256 from 257 to {last} cost ")


def test_cold_first_steps_are_kept_apart() -> None:
    result = analyse(cold=(8.0, 3.0, 1.5))
    assert (result.verdict, kinds(result)) == ("smooth", ["first-visit"])
    assert result.findings[0].lengths == (66, 68)


def test_lengths_new_to_a_shared_process_are_kept_apart() -> None:
    told = run(Truth(budgets=(128, 256, 384, 512, 640), order="ascending", history="shared"), 0)
    reached, lines = 0, []
    for line in told.trajectories:
        steps = [ns * 5 if step >= reached else ns for step, ns in enumerate(line["total"])]
        reached = max(reached, len(steps))
        lines.append({**line, "total": steps})
    result = analyze_trajectories(replace(told, trajectories=tuple(lines)))
    assert (result.verdict, kinds(result)) == ("smooth", ["first-visit"])
    assert result.findings[0].ratio == pytest.approx(5.0, rel=0.1)


def test_two_prompts_say_whether_slow_budgets_go_by_budget_or_by_total_length() -> None:
    by_budget = analyse(prompts=(3, 65), by_budget=slow(5.0))
    assert [finding.lengths for finding in by_budget.findings] == [(512, 624)]
    assert by_budget.findings[0].note.startswith("with prompts 3 and 65 budgets 512 to 624 cost ")
    assert by_budget.cells[0].notes == (
        "simulated manual prealloc float32: slow budgets are 512 to 624 with prompt 3, 512 to 624 with prompt 65: "
        "where they begin and end goes by the budget and not by the total length (prompt + budget).",
    )
    by_total = analyse(prompts=(3, 65), by_budget=lambda p, b: 5.0 if 580 <= p + b < 640 else 1.0)
    assert [finding.lengths for finding in by_total.findings] == [(528, 560), (592, 624)]
    assert "goes by the total length (prompt + budget) and not by the budget." in by_total.cells[0].notes[-1]
    coarse = analyse(budgets=(128, 256, 384, 512, 640), prompts=(3, 65), by_budget=slow(5.0))
    assert "cannot be told to go by budget or by total length" in coarse.cells[0].notes[-1]


def test_a_slow_length_is_one_finding_for_two_prompts_and_a_slow_step_is_no_length() -> None:
    result = analyse(prompts=(3, 65), by_length=dear(421, 4.0))
    assert [(finding.kind, finding.lengths) for finding in result.findings] == [("spike", (421, 421))]
    assert result.findings[0].note.endswith("; with prompts 3 and 65.")
    told = run(Truth(budgets=PROBE, prompts=(3, 65)), 0)
    by_step = tuple(edited(line, step=300, ratio=4) for line in told.trajectories)
    result = analyze_trajectories(replace(told, trajectories=by_step))
    assert result.verdict == "unresolved"
    assert [(f.lengths[0], f.confidence) for f in result.findings] == [(303, "apparent"), (365, "apparent")]
    assert result.findings[0].note.endswith("with each prompt at step 300: it goes by the step and not by the length.")


def edited(line: dict[str, Any], step: int, ratio: int, onwards: bool = False) -> dict[str, Any]:
    total = list(line["total"])
    stop = len(total) if onwards else step
    total[step - 1 : stop] = [ns * ratio for ns in total[step - 1 : stop]]
    return {**line, "total": total}


def test_a_state_that_begins_inside_trajectories_is_placed() -> None:
    told = run(Truth(budgets=PROBE), 0)
    lines = (edited(line, 337, 8, True) if 512 <= line["budget"] <= 624 else line for line in told.trajectories)
    result = analyze_trajectories(replace(told, trajectories=tuple(lines)))
    assert (result.verdict, kinds(result)) == ("state", ["state"])
    assert result.findings[0].lengths == (512, 624)
    assert "In 40 trajectories the cost jumps on the way and stays" in result.findings[0].note
    assert "from about step 337 (L = 402) to its end, to 8." in result.findings[0].note


def test_slow_processes_that_follow_nothing_are_unstable() -> None:
    told, rng = run(Truth(budgets=PROBE), 0), np.random.default_rng(100)
    lines = (edited(line, 1, 2, True) if rng.random() < 0.3 else line for line in told.trajectories)
    result = analyze_trajectories(replace(told, trajectories=tuple(lines)))
    assert (result.verdict, kinds(result)) == ("unresolved", ["unstable"])
    assert "follow neither budget nor time" in result.findings[0].note


def test_one_slow_trajectory_is_a_note() -> None:
    told = run(Truth(budgets=PROBE), 0)
    lines = tuple(edited(line, 1, 3, True) if line["order"] == 7 else line for line in told.trajectories)
    result = analyze_trajectories(replace(told, trajectories=lines))
    assert (result.verdict, kinds(result)) == ("smooth", [])
    assert "1 of 60 trajectories cost more than the others" in result.cells[0].notes[0]


@pytest.mark.parametrize(("repeats", "needed"), [(1, 3), (2, 3)])
def test_too_few_repeats_decline_and_say_how_many_are_needed(repeats: int, needed: int) -> None:
    result = analyse(budgets=tuple(range(128, 769, 128)), repeats=repeats, by_budget=slow(5.0))
    assert result.verdict == "unresolved"
    assert [(finding.kind, finding.confidence) for finding in result.findings] == [("state", "apparent")]
    assert result.cells[0].limit_of_detection is None
    assert f"cannot tell, needs {needed} or more repeats of each budget" in result.cells[0].notes[0]


def test_three_repeats_of_four_budgets_cannot_reach_significance() -> None:
    result = analyse(budgets=(128, 256, 384, 512), repeats=3)
    assert result.verdict == "unresolved"
    assert "needs 4 or more repeats" in result.cells[0].notes[0]


def test_one_budget_cannot_part_length_from_budget() -> None:
    result = analyse(budgets=(512,))
    assert result.verdict == "unresolved"
    assert "one budget cannot part length from budget" in result.cells[0].notes[0]


def test_damage_death_and_wrong_results_are_told_and_the_rest_is_analysed() -> None:
    lines = list(run(Truth(), 0).trajectories)
    lines[3] = {**lines[3], "total": lines[3]["total"][:40], "dispatch": lines[3]["dispatch"][:40], "complete": False}
    lines[5] = {**lines[5], "total": [*lines[5]["total"][:-1], 0]}
    lines[6] = {"kind": "trajectory"}
    lines[7] = {**lines[7], "total": [], "dispatch": [], "complete": False}
    lines[8] = {**lines[8], "correct": False}
    result = analyze_trajectories(replace(run(Truth(), 0), trajectories=tuple(lines)))
    said = "\n".join(result.cells[0].notes)
    assert "2 damaged trajectories are left out." in said
    assert "2 trajectories died before the end (" in said
    assert f"budget {lines[3]['budget']} after 40 steps" in said
    assert "1 trajectories gave a wrong result" in said
    assert result.verdict == "unresolved"
    assert sum(len(row.totals_ns) for row in result.cells[0].budgets) == 25
    assert len(result.cells[0].curve.sweeps_ns) == 26


@pytest.mark.parametrize("lines", [(), ({"kind": "trajectory"},)])
def test_nothing_measured_is_unresolved(lines: tuple[dict[str, Any], ...]) -> None:
    result = analyze_trajectories(replace(run(Truth(budgets=(8,)), 0), trajectories=lines))
    assert result.verdict == "unresolved"
    assert "no trajectory was measured" in result.cells[0].notes[-1]


@pytest.mark.parametrize("budgets", [(1,), (1, 2, 3), (16, 17)])
def test_tiny_budgets_do_not_break_it(budgets: tuple[int, ...]) -> None:
    assert analyse(budgets=budgets, prompts=(0,), repeats=3).verdict in ("smooth", "unresolved")


def with_memory(told: Run, live: float, driver: float) -> Run:
    lines = []
    for line in told.trajectories:
        steps = np.arange(line["budget"])
        memory = {"live": (1e8 + live * steps).tolist(), "driver": (2e8 + driver * steps).tolist()}
        lines.append({**line, "memory": memory})
    return replace(told, trajectories=tuple(lines))


def test_memory_beyond_the_cache_is_told_and_the_cache_itself_is_not() -> None:
    told = run(Truth(), 0)
    kv = told.cells[0].geometry.kv_bytes(1)
    result = analyze_trajectories(with_memory(told, kv, 10 * kv))
    assert (result.verdict, kinds(result)) == ("smooth", ["memory-growth"])
    assert result.findings[0].note == (
        "the memory the driver holds grows by 528 MiB from KV length 82 to 833, in many small steps; the new keys and "
        "values take 53 MiB."
    )


def test_the_ratio_to_no_cache_collapses_where_the_cached_run_is_slow() -> None:
    cached, without = run(Truth(by_budget=slow(10.0)), 0), run(Truth(cache="none", base_ns=2e6, slope_ns=3e4), 2)
    lines = (*cached.trajectories, *({**line, "cell": 1} for line in without.trajectories))
    result = analyze_trajectories(replace(cached, cells=(*cached.cells, *without.cells), trajectories=lines))
    assert [round(row.off_ratio or 0.0, 1) for row in result.cells[0].budgets][3] < 3
    assert [row.off_ns for row in result.cells[1].budgets] == [None] * 6
    assert "budget 512 takes 2." in result.cells[0].notes[-1]
    assert result.cells[0].notes[-1].endswith("what the cache saves collapses there.")


def test_the_document_is_the_shared_one_with_a_table_of_budgets() -> None:
    document = analyse(by_budget=slow(10.0)).to_json()
    assert list(document) == ["schema", "verdict", "findings", "limit_of_detection", "smallest_p", "notes", "cells"]
    rows = document["cells"][0]["budgets"]
    assert [row["budget"] for row in rows] == list(PROBE)
    assert [row["budget"] for row in rows if row["slow"]] == list(range(512, 625, 16))
    assert all(len(row["totals_ns"]) == 5 for row in rows)


def test_a_scaled_run_says_the_same() -> None:
    told = run(Truth(by_budget=slow(5.0)), 1)
    scaled = tuple({**line, "total": [ns * 7 for ns in line["total"]]} for line in told.trajectories)
    one, other = analyze_trajectories(told), analyze_trajectories(replace(told, trajectories=scaled))
    assert (kinds(one), one.findings[0].lengths) == (kinds(other), other.findings[0].lengths)
    assert one.findings[0].ratio == pytest.approx(other.findings[0].ratio)


@pytest.mark.slow
def test_a_large_run_is_analysed_in_a_second_of_processor_time() -> None:
    told = run(Truth(budgets=PROBE, prompts=(3, 65)), 0)
    began = time.process_time()
    analyze_trajectories(told)
    assert time.process_time() - began < 1.0


def test_a_ratio_that_one_busy_repeat_lowers_does_not_collapse() -> None:
    cached, without = run(Truth(repeats=3), 0), run(Truth(cache="none", repeats=3, base_ns=2e6, slope_ns=3e4), 2)
    lines = [{**line, "cell": 1} for line in without.trajectories]
    for line in cached.trajectories:
        lines.append(edited(line, 1, 9, True) if line["budget"] == 512 and line["repeat"] < 2 else line)
    result = analyze_trajectories(
        replace(cached, cells=(*cached.cells, *without.cells), trajectories=tuple(lines)), min_ratio=1.10
    )
    assert (result.cells[0].budgets[3].off_ratio or 0.0) < 5
    assert not any("collapses" in note for note in result.cells[0].notes)
    assert not any(row.slow for row in result.cells[0].budgets if result.cells[0].verdict == "smooth")
