"""Bandwidth against what a copy and a sum reach, and what is faster than that."""

import numpy as np
import pytest
from compared import LENGTHS, run
from reported import curve

from pykvbench.analysis.ceiling import bandwidth, ceiling_of, too_fast
from pykvbench.analysis.pairs import compare_run
from pykvbench.analysis.synthetic import stairs
from pykvbench.analysis.verdict import analyze_run
from pykvbench.experiment.ceiling import sizes
from pykvbench.geometry import geometry

SHAPE = geometry("gpt2", num_layers=2)
PROBES = [
    {"what": "copy", "bytes": 1 << 20, "bytes_per_s": 40e9},
    {"what": "sum", "bytes": 6 << 20, "bytes_per_s": 30e9},
    {"what": "copy", "bytes": 256 << 20, "bytes_per_s": 8e9},
    {"what": "sum", "bytes": 256 << 20, "bytes_per_s": 9e9},
]
EVENT = {"event": "ceiling", "cell": 0, "probes": PROBES}


def test_the_best_of_each_size_stands_with_its_bytes() -> None:
    ceiling = ceiling_of(run([stairs(LENGTHS)], events=[EVENT]), 0)
    assert ceiling is not None
    assert (ceiling.working_set, ceiling.working_set_bytes) == (40e9, 1 << 20)
    assert (ceiling.memory, ceiling.memory_bytes) == (9e9, 256 << 20)
    assert ceiling.highest == 40e9


def test_cells_of_one_backend_share_a_ceiling_and_others_have_none() -> None:
    base = stairs(LENGTHS)
    both = run([base, base], events=[EVENT])
    assert ceiling_of(both, 0) is not None
    assert ceiling_of(both, 1) is None
    assert ceiling_of(run([base, base], backends=("cpu", "cpu"), events=[EVENT]), 1) is not None


@pytest.mark.parametrize("probes", [None, [], [{"what": "copy"}], [{"bytes": 0, "bytes_per_s": 1}], [1], "x"])
def test_damaged_probes_are_no_ceiling(probes: object) -> None:
    event = {"event": "ceiling", "cell": 0, "probes": probes}
    assert ceiling_of(run([stairs(LENGTHS)], events=[event]), 0) is None


def test_bandwidth_is_bytes_of_k_and_v_over_the_time_of_a_step() -> None:
    assert SHAPE.kv_bytes(512) == 2 * 2 * 12 * 512 * 64 * 4
    assert bandwidth(curve({512: 1000.0}), SHAPE)[0] == pytest.approx(SHAPE.kv_bytes(512) / 1e-3)


def test_faster_than_the_ceiling_is_an_error_of_measurement() -> None:
    lengths = np.arange(380, 531)
    possible = run([np.array([SHAPE.kv_bytes(int(n)) / 40 for n in lengths])], events=[EVENT])  # 40 GB/s
    impossible = run([np.array([SHAPE.kv_bytes(int(n)) / 200 for n in lengths])], events=[EVENT])
    assert not any("error of measurement" in note for note in analyze_run(possible).cells[0].notes)
    result = analyze_run(impossible).cells[0]
    assert result.verdict == "unresolved"
    (note,) = [note for note in result.notes if "error of measurement" in note]
    assert "K and V of 151 lengths from 380 to 530 would have been read at up to 2" in note
    assert "and no copy or sum here goes beyond 40 GB/s: an error of measurement, so do not use these times." in note


def test_one_length_that_is_too_fast_is_named() -> None:
    ceiling = ceiling_of(run([stairs(LENGTHS)], events=[EVENT]), 0)
    assert ceiling is not None
    costs = {length: SHAPE.kv_bytes(length) / (100e3 if length == 421 else 10e3) for length in range(420, 423)}
    assert too_fast(curve(costs), SHAPE, ceiling).startswith("K and V of length 421 would have been read at up to 100")


def test_a_comparison_tells_both_sides_share() -> None:
    base = stairs(LENGTHS)
    (comparison,) = compare_run(run([base, base], events=[EVENT])).comparisons
    assert comparison.first.ceiling is not None
    assert comparison.second.ceiling is None


def test_probes_are_as_large_as_the_caches_and_much_larger() -> None:
    assert sizes(SHAPE, (128, 512)) == [SHAPE.kv_bytes(128), SHAPE.kv_bytes(512), 128 << 20]
    large = geometry("llama-3-8b", batch=8)
    assert sizes(large, (8192,)) == [1 << 30]
