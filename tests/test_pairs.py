"""Runs against runs: what is refused, what is shown, and where a finding appeared."""

from typing import Any

import numpy as np
import pytest
from compared import LENGTHS, run, versions

from pykvbench.analysis.pairs import Named, compare_run, compare_runs
from pykvbench.analysis.synthetic import Noise, stairs
from pykvbench.errors import UsageError

BASE = stairs(LENGTHS)[::5]
FEW = LENGTHS[::5]


def measured(**changes: Any) -> Named:
    name = changes.pop("name", "after")
    return Named(name, run([BASE], **{"lengths": FEW, **changes}))


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({"num_layers": 4}, "num_layers (2 and 4)"),
        ({"dtype": "float16"}, "dtype (float32 and float16)"),
        ({"kernel": "fused"}, "kernel (manual and fused)"),
        ({"cache": "concat"}, "cache (prealloc and concat)"),
        ({"plan": {"samples": 7}}, "samples (3 and 7)"),
        ({"plan": {"warmup_s": 0.0}}, "warmup_s (1.0 and 0.0)"),
        ({"plan": {"inject": ["421:2x"]}}, "inject (not set and ['421:2x'])"),
        ({"machine": {"cpu": "B"}}, "machine cpu (A and B)"),
        ({"machine": {"os": "macOS"}}, "machine os (Linux and macOS)"),
        ({"machine": {"variables": {"OMP_NUM_THREADS": "1"}}}, "variable OMP_NUM_THREADS (not set and 1)"),
        (
            {"lengths": FEW + 1000, "plan": {"lengths": "1380:1530:5"}},
            "lengths without overlap (380:530 and 1380:1530:5)",
        ),
        ({"machine": {"cpu": "B"}, "kernel": "fused"}, "kernel (manual and fused); machine cpu (A and B)"),
    ],
)
def test_unfair_pairs_are_refused_with_exactly_the_keys_that_differ(changes: dict[str, Any], keys: str) -> None:
    with pytest.raises(UsageError) as refused:
        compare_runs([measured(name="before"), measured(**changes)])
    assert str(refused.value) == (
        f"before and after were not measured alike: they differ in {keys}. "
        "Measure again with the same, or compare them with --anyway."
    )


def test_power_counts_where_both_tell_it() -> None:
    battery, mains, silent = ({"power_source": "battery"}, {"power_source": "AC"}, {})
    with pytest.raises(UsageError, match=r"differ in machine power_source \(battery and AC\)"):
        compare_runs([measured(name="a", machine=battery), measured(name="b", machine=mains)])
    assert compare_runs([measured(name="a", machine=battery), measured(name="b", machine=silent)]).comparisons


def test_anyway_compares_and_still_says_what_differs() -> None:
    report = compare_runs([measured(name="before"), measured(machine={"cpu": "B"})], anyway=True)
    assert report.comparisons[0].verdict == "SAME"
    assert (
        "before and after were not measured alike: they differ in machine cpu (A and B). "
        "What follows may be due to that." in report.notes
    )


def test_versions_are_what_one_compares_and_are_shown() -> None:
    report = compare_runs([measured(events=versions("2.12.0")), measured(events=versions("2.13.0"))])
    (comparison,) = report.comparisons
    assert comparison.first.name == "cpu manual prealloc float32, torch 2.12.0"
    assert comparison.second.name == "cpu manual prealloc float32, torch 2.13.0"
    assert [(d.key, d.first, d.second) for d in comparison.differences] == [
        ("framework", "torch 2.12.0", "torch 2.13.0")
    ]


def test_runs_of_one_version_are_called_by_their_files_and_equal_names_are_numbered() -> None:
    two = compare_runs([measured(name="x"), measured(name="y")])
    assert two.runs == ("x", "y")
    same = compare_runs([measured(name="x"), measured(name="x")])
    assert same.runs == ("x (1)", "x (2)")


def test_a_table_by_version_shows_where_a_finding_appeared_and_went() -> None:
    base = stairs(LENGTHS)
    spiked = np.where(LENGTHS == 421, 20 * base, base)
    runs = [
        Named(name, run([curve], seed=seed, events=versions(name), noise=noise))
        for seed, (name, curve, noise) in enumerate(
            [
                ("2.11.0", base, Noise(window=0)),
                ("2.12.0", spiked, Noise(window=0)),
                ("2.13.0", base, Noise(window=0)),
                ("2.14.0", base, Noise(sample=3.0)),
            ]
        )
    ]
    report = compare_runs(runs)
    assert report.runs == ("torch 2.11.0", "torch 2.12.0", "torch 2.13.0", "torch 2.14.0")
    row = next(row for row in report.history if row.lengths == (421, 421))
    assert row.kind == "spike"
    assert row.entries[0] == row.entries[2] == "no"
    assert 15 < float(row.entries[1].removesuffix("x")) < 25
    assert row.entries[3] == "cannot tell"
    assert len(report.comparisons) == 3


def test_two_runs_have_no_table() -> None:
    assert compare_runs([measured(name="a"), measured(name="b")]).history == ()


def test_every_pair_of_a_runs_cells_is_compared() -> None:
    report = compare_run(run([BASE, BASE, BASE], lengths=FEW, backends=("cpu", "mlx-cpu", "mlx")))
    pairs = [(c.first.name.split()[0], c.second.name.split()[0]) for c in report.comparisons]
    assert pairs == [("cpu", "mlx-cpu"), ("cpu", "mlx"), ("mlx-cpu", "mlx")]
    assert all(comparison.paired for comparison in report.comparisons)


def test_one_cell_alone_is_refused() -> None:
    with pytest.raises(UsageError, match="The run has one cell, so there is nothing to compare; measure two, such as"):
        compare_run(run([BASE], lengths=FEW))


def test_a_cell_without_counterpart_is_noted_and_nothing_in_common_is_refused() -> None:
    two, one = run([BASE, BASE], lengths=FEW), run([BASE], lengths=FEW)
    report = compare_runs([Named("two", two), Named("one", one)])
    assert len(report.comparisons) == 1
    assert "one has no cell mlx-cpu manual prealloc float32." in report.notes
    others = run([BASE, BASE], lengths=FEW, backends=("cuda", "mlx"))
    with pytest.raises(UsageError, match="The runs have nothing to compare: "):
        compare_runs([Named("two", two), Named("others", others)])


def test_single_cells_of_different_backends_are_counterparts() -> None:
    report = compare_runs([measured(name="torch"), measured(name="mlx", backends=("mlx-cpu",))])
    assert [d.key for d in report.comparisons[0].differences] == ["backend"]
