"""What is said of a capacity run, on lines that the scheduler makes on a device of constant times."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pykvbench.analysis.capacity import analyze_capacity
from pykvbench.analysis.capacity_pairs import compare_capacity
from pykvbench.analysis.capacity_rows import latencies_ns
from pykvbench.analysis.capacity_table import CapacityRow
from pykvbench.analysis.knee import find_knee, limit_of
from pykvbench.analysis.pairs import Named
from pykvbench.cell import Cell
from pykvbench.dispatch.footprint import footprint, rows_of, whole_sequence
from pykvbench.errors import RunFileError, UsageError
from pykvbench.experiment.capacity_plan import CapacityPlan
from pykvbench.experiment.scheduler import Load, serve
from pykvbench.geometry import Geometry
from pykvbench.record import Run, Visits
from pykvbench.report import capacity_text

CELL = Cell("cpu", "manual", "prealloc", Geometry(1, 1, 1, 1, 8, "float32"))
CONTEXT, TOKENS = 100, 16
ONE = whole_sequence(CELL, "cpu", CONTEXT, TOKENS)


class Constant:
    """A device whose steps and moves take the same time whatever they do."""

    def __init__(self, step_ns: int, move_ns: int) -> None:
        self.step_ns, self.move_ns = step_ns, move_ns

    def fill(self, number: int) -> None:
        pass

    def step(self, number: int) -> int:
        return self.step_ns

    def leave(self, number: int) -> int:
        return self.move_ns

    enter = leave

    def end(self, number: int) -> None:
        pass


def run(budget: int | None = None, repeats: int = 3, noise: float = 0.01, slower: float = 1.0, cells: int = 1) -> Run:
    """Steps of 1 ms and moves of 5 ms, with noise between repeats; four sequences fit into 4 * ONE."""
    plan = CapacityPlan(
        cells=(CELL, replace(CELL, cache="padded"))[:cells],
        contexts=(CONTEXT,),
        concurrencies=(1, 2, 3, 4, 5, 6),
        allocators=("cpu",) * cells,
        memory=(1 << 30,) * cells,
        budget=budget,
        tokens=TOKENS,
        repeats=repeats,
    )
    rng, lines = np.random.default_rng(1), []
    for order, (repeat, point) in enumerate(plan.launches()):
        cell, room = plan.cells[point.cell], rows_of(CONTEXT, TOKENS)
        size = footprint(cell, "cpu", CONTEXT + TOKENS, room)
        load = Load(point.concurrency, CONTEXT, TOKENS, lambda n, size=size: size.allocated, lambda n: 0)
        step = round(1e6 * slower * (1 + point.cell) * float(np.exp(noise * rng.standard_normal())))
        served = serve(load, point.policy, None if point.policy == "none" else budget, Constant(step, 5_000_000))
        digests = [f"{number:x}" for number in range(point.concurrency)]
        lines.append(
            {
                "cell": point.cell,
                "context": CONTEXT,
                "concurrency": point.concurrency,
                "policy": point.policy,
                "repeat": repeat,
                "order": order,
                "tokens": TOKENS,
                "took": served.took_ns,
                "done": served.done,
                "rejected": list(served.rejected),
                "out": served.out_ns,
                "into": served.in_ns,
                "resident": served.most_resident,
                "held": served.most_held,
                "predicted": size.to_json(),
                "before": {"rss": 1000},
                "peak": {"rss": 3000, "caches": served.most_held},
                "correct": True,
                "outputs": digests,
                "alone": digests,
            }
        )
    header = {"command": "capacity", "plan": plan.to_json()}
    return Run(header, plan.cells, _no_visits(), (), (), {"status": "complete"}, (), (), tuple(lines))


def _no_visits() -> Visits:
    nothing = np.zeros(0)
    return Visits(**{name: {} if name == "memory" else nothing for name in Visits.__dataclass_fields__})  # type: ignore


def changed(before: Run, **values: Any) -> Run:
    """The same run with its lines' values replaced."""
    return replace(before, servings=tuple({**line, **values} for line in before.servings))


def test_latency_is_from_token_to_token_and_the_worst_sequence_decides_the_tail() -> None:
    line = {"tokens": 4, "rejected": [2], "done": [[10, 20, 30, 40], [100, 110, 120, 130], []]}
    found = latencies_ns(line)
    assert (found["p50_ns"], found["max_ns"]) == (10, 100)
    assert found["p99_ns"] == pytest.approx(np.percentile([100, 10, 10, 10], 99))


def test_without_a_budget_nothing_breaks() -> None:
    result = analyze_capacity(run())
    assert result.verdict == "smooth"
    assert result.findings == ()
    assert result.cells[0].limit_of_detection == pytest.approx(2.0, rel=0.1)
    (table,) = result.to_json()["capacity"]
    assert [row["concurrency"] for row in table["rows"]] == [1, 2, 3, 4, 5, 6]
    assert table["rows"][5]["p50_ns"] == pytest.approx(6e6, rel=0.1)
    assert table["rows"][5]["tokens_per_s"] == pytest.approx(1000, rel=0.1)


def test_memory_is_linear_in_context_times_concurrency_as_predicted_and_measured() -> None:
    rows = analyze_capacity(run()).cells[0].capacity.rows  # type: ignore[union-attr]
    assert [row.held / row.concurrency for row in rows] == [ONE] * 6
    assert [row.memory["caches"] / row.concurrency for row in rows] == [ONE] * 6
    assert {row.memory["rss"] for row in rows} == {2000}  # above what was there before


@pytest.mark.parametrize("policy", ["queue", "evict-recompute", "spill-host", "spill-disk"])
def test_under_a_budget_p99_leaves_p50_at_the_predicted_concurrency(policy: str) -> None:
    result = analyze_capacity(run(budget=4 * ONE))
    assert result.verdict == "state"
    (knee,) = [knee for knee in result.cells[0].capacity.knees if knee.policy == policy]  # type: ignore[union-attr]
    assert (knee.predicted, knee.at, knee.low, knee.high) == (5, 5, 5, 5)
    (finding,) = [finding for finding in result.findings if f"under {policy}," in finding.note]
    assert (finding.kind, finding.confidence, finding.votes) == ("knee", "confirmed", "3/3")
    assert "p99 leaves p50 from 5 sequences of 100 tokens on: " in finding.note
    assert finding.note.endswith("; the budget holds 4 sequences side by side.")


def test_reject_keeps_the_tail_and_says_whom_it_refused() -> None:
    result = analyze_capacity(run(budget=4 * ONE))
    table = result.cells[0].capacity
    assert table is not None
    (knee,) = [knee for knee in table.knees if knee.policy == "reject"]
    assert knee.at is None
    assert [row.rejected for row in table.rows if row.policy == "reject"] == [1, 2]
    assert any("reject refused up to 2 sequences of a load" in note for note in result.cells[0].notes)


def test_what_else_would_fit() -> None:
    rows = [row for row in analyze_capacity(run(budget=4 * ONE)).cells[0].capacity.rows if row.policy == "none"]  # type: ignore[union-attr]
    assert [row.more_sequences for row in rows] == [3, 2, 1, 0, 0, 0]
    for row in rows[:4]:
        more = row.more_tokens or 0
        for tokens, fits in ((more, True), (more + 1, False)):
            needed = row.concurrency * whole_sequence(CELL, "cpu", CONTEXT + tokens, TOKENS)
            assert (needed <= 4 * ONE) is fits


def test_a_sequence_that_gives_something_else_than_alone_is_a_wrong_result() -> None:
    good = run(budget=4 * ONE)
    lines = [dict(line) for line in good.servings]
    spilled = next(line for line in lines if line["policy"] == "spill-disk")
    spilled["outputs"] = [*spilled["outputs"][:-1], "other"]
    result = analyze_capacity(replace(good, servings=tuple(lines)))
    assert result.verdict == "unresolved"
    (wrong,) = [finding for finding in result.findings if finding.kind == "wrong-result"]
    assert wrong.note.startswith(f"sequence {len(spilled['outputs']) - 1} gave other outputs than alone: ")


def test_missing_tokens_are_a_wrong_result() -> None:
    good = run()
    short = {**good.servings[0], "done": [done[:-1] for done in good.servings[0]["done"]]}
    result = analyze_capacity(replace(good, servings=(short, *good.servings[1:])))
    assert any("sequence 0 got 15 of 16 tokens" in finding.note for finding in result.findings)


def test_running_out_of_memory_is_a_row_that_says_so() -> None:
    good = run()
    gone = tuple(line for line in good.servings if line["concurrency"] != 6)
    event = {"event": "out-of-memory", "cell": 0, "context": CONTEXT, "concurrency": 6, "policy": "none"}
    result = analyze_capacity(replace(good, servings=gone, events=(event,)))
    row = result.cells[0].capacity.rows[-1]  # type: ignore[union-attr]
    assert (row.outcome, row.served) == ("out of memory", False)
    assert "out of memory" in capacity_text.render(result)
    assert result.verdict == "smooth"


def test_caches_that_take_more_than_predicted_are_said() -> None:
    good = analyze_capacity(run())
    assert any("in all 6 rows the caches took what was predicted" in note for note in good.cells[0].notes)
    result = analyze_capacity(changed(run(), peak={"caches": 10 * ONE + (1 << 20)}))
    assert any("more apart than rounding explains" in note for note in result.cells[0].notes)


def test_one_repeat_has_no_interval_and_confirms_nothing() -> None:
    result = analyze_capacity(run(budget=4 * ONE, repeats=1))
    assert result.verdict == "unresolved"
    assert {finding.confidence for finding in result.findings} == {"apparent"}
    assert "no interval below 3 repeats" in capacity_text.render(result, width=200)
    assert result.to_json()["limit_of_detection"] is None


def test_an_edited_plan_is_refused_in_a_sentence() -> None:
    good = run()
    with pytest.raises(RunFileError, match="plan is not readable"):
        analyze_capacity(replace(good, header={"command": "capacity", "plan": {}}))


def row(concurrency: int, *ratios: float) -> CapacityRow:
    """A row whose repeats have these p99 / p50."""
    return CapacityRow(100, concurrency, "none", "", 1, 1, 1.0, {}, p50_ns=(1.0,) * len(ratios), p99_ns=tuple(ratios))


def test_one_noisy_concurrency_below_is_no_knee() -> None:
    rows = [row(1, 5.0, 5.1, 5.2), row(2, 1.1, 1.1, 1.1), row(4, 1.1, 1.2, 1.1), row(8, 9.0, 9.1, 9.2)]
    knee = find_knee(rows, "none", None)
    assert knee is not None
    assert (knee.at, knee.low, knee.high, knee.votes) == (8, 8, 8, (3, 3))


def test_repeats_that_disagree_widen_the_knee() -> None:
    rows = [row(1, 1.0, 1.0, 1.0), row(2, 1.2, 3.0, 1.5), row(4, 1.5, 2.5, 3.5), row(8, 9.0, 9.1, 9.2)]
    knee = find_knee(rows, "none", None)
    assert knee is not None
    assert (knee.low, knee.at, knee.high) == (2, 4, 8)


def test_two_runs_are_compared_load_by_load() -> None:
    report = compare_capacity([Named("before", run()), Named("after", run(slower=1.3))])
    assert {comparison.verdict for comparison in report.comparisons} == {"SLOWER"}
    assert [comparison.lengths.tolist() for comparison in report.comparisons] == [[1, 2, 3, 4, 5, 6]] * 2
    assert report.comparisons[0].first.name == "cpu manual prealloc float32, before, 100 tokens, no limit, p50"
    assert report.is_slower_by(0.05)


def test_the_cells_of_one_run_are_compared_with_each_other() -> None:
    report = compare_capacity([Named("run", run(cells=2))])
    assert {comparison.verdict for comparison in report.comparisons} == {"SLOWER"}
    assert all(comparison.paired for comparison in report.comparisons)


def test_runs_that_cannot_be_compared_say_why() -> None:
    with pytest.raises(UsageError, match="The run has one cell"):
        compare_capacity([Named("run", run())])
    with pytest.raises(UsageError, match=r"they differ in budget \(not set and 46\d\d\)|they differ in budget"):
        compare_capacity([Named("a", run(budget=4 * ONE)), Named("b", run(budget=5 * ONE))])
    other = replace(run(), header={"command": "attn"})
    with pytest.raises(UsageError, match="can only be compared with another"):
        compare_capacity([Named("a", run()), Named("b", other)])


def test_how_many_fit_is_said_also_when_every_load_measured_is_too_large() -> None:
    result = analyze_capacity(run(budget=ONE))
    assert result.to_json()["capacity"][0]["fits"] == [{"context": CONTEXT, "sequences": 1}]
    assert "holds 1 sequence of 100 tokens and those it is due." in capacity_text.render(result, width=200)


def test_the_machines_own_tail_is_not_taken_for_a_knee() -> None:
    noisy = [row(1, 1.4, 1.4, 1.4), row(2, 2.2, 2.3, 2.2), row(4, 2.2, 2.3, 2.4)]
    assert limit_of(noisy) == pytest.approx(2.8)
    knee = find_knee([*noisy, row(8, 9.0, 9.1, 9.2)], "queue", 5, limit_of(noisy))
    assert knee is not None
    assert (knee.at, knee.low, knee.high) == (8, 8, 8)
    assert (limit_of([row(1, 1.0)]), limit_of([row(1, 14.0)]), limit_of([])) == (2.0, 4.0, 2.0)
