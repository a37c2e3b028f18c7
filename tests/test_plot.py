import re
from collections import namedtuple
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from matplotlib.figure import Figure
from reported import cell_result, curve, finding, run, spike

from pykvbench.analysis.finding import CellResult, Result
from pykvbench.errors import UsageError
from pykvbench.report import numbers, panel, plot
from pykvbench.report.labels import Spot, spots
from pykvbench.report.thin import thin

Landmark = namedtuple("Landmark", "length what")


def spiked(label: str = "cpu manual prealloc float32") -> CellResult:
    costs = {length: 2045.0 if length == 421 else 96.0 for length in range(380, 531)}
    return cell_result(curve(costs, noise=0.01), spike(421), label=label, verdict="non-monotonic")


def words(path: Path) -> str:
    """The text of an SVG: matplotlib keeps each string in a comment beside its outlines."""
    return "\n".join(re.findall(r"<!-- (.*?) -->", path.read_text()))


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".PNG"])
def test_the_suffix_chooses_the_format_and_equal_results_give_equal_files(tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    for path in (first, second):
        plot.draw(run([spiked()]), Result((spiked(),)), path)
    assert first.read_bytes()[:5] in (b"\x89PNG\r", b"<?xml", b"%PDF-")
    assert first.read_bytes() == second.read_bytes()
    assert not re.search(rb"Date|Software|Creator|matplotlib \d|/home|/tmp", first.read_bytes())


def test_the_picture_says_cell_geometry_verdict_finding_and_landmarks(tmp_path: Path) -> None:
    path = tmp_path / "run.svg"
    marks = [Landmark(512, "route changes"), Landmark(384, "a multiple of 128"), Landmark(640, "beyond the range")]
    plot.draw(run([spiked()]), Result((spiked(),)), path, marks)
    said = words(path)
    assert "cpu manual prealloc float32   batch 1, 12 layers, 12 heads of 64" in said
    assert "non-monotonic: 421 (21.3x) costs more than longer lengths do." in said
    assert " 421: 21.3x" in said
    assert "1: a multiple of 128 (at 384)\n2: route changes (at 512)" in said
    assert "time per step (us)" in said
    assert "when it was measured (seconds since the run began)" in said
    assert "beyond the range" not in said
    assert "SIMULATED" not in said


def test_a_table_has_no_second_panel_and_no_first_calls(tmp_path: Path) -> None:
    path = tmp_path / "table.svg"
    cell = cell_result(curve({2**k: 96.0 + 2**k for k in range(6, 16)}, sweeps=1, first_us=None), label="table.csv")
    plot.draw(None, Result((cell,)), path)
    said = words(path)
    assert "when it was measured" not in said
    assert "first call" not in said
    assert [str(2**k) for k in range(6, 16)] == [line for line in said.splitlines() if line.isdigit()][:10]


def test_simulated_times_are_called_so(tmp_path: Path) -> None:
    path = tmp_path / "run.svg"
    cell = spiked("simulated manual prealloc float32")
    plot.draw(run([cell]), Result((cell,)), path)
    assert "SIMULATED DEVICE: programmed times, not a measurement" in words(path)


def test_injected_work_is_said_in_the_picture(tmp_path: Path) -> None:
    path = tmp_path / "run.svg"
    cell = spiked("cpu manual prealloc float32")
    measured = run([cell])
    measured.header["plan"]["inject"] = ["421:3x@pv"]
    plot.draw(measured, Result((cell,)), path)
    assert "EXTRA WORK INJECTED at 421:3x@pv: a test of the instrument" in words(path)


def test_what_the_panels_cannot_show_is_said(tmp_path: Path) -> None:
    path = tmp_path / "run.svg"
    costs = curve(dict.fromkeys(range(380, 531), 96.0))
    cell = cell_result(costs, finding("drift", 380, 530, 1.07), finding("comb", 384, 512, 1.2))
    plot.draw(run([cell]), Result((cell,)), path)
    assert "Also found: drift 1.07x, comb 1.20x. First calls are off the scale: 1.30 ms at the median." in words(
        path
    ).replace("\n", " ")


def test_each_cell_has_a_row_and_cells_without_times_have_none(tmp_path: Path) -> None:
    one, two = tmp_path / "one.png", tmp_path / "two.png"
    cells = (spiked(), spiked("mlx manual prealloc float32"), cell_result(curve({}, sweeps=0), label="mps"))
    plot.draw(None, Result(cells[:1]), one)
    plot.draw(None, Result(cells), two)
    heights = [matplotlib.image.imread(path).shape[0] for path in (one, two)]
    assert 1.8 < heights[1] / heights[0] < 2


def test_kinds_of_landmark_beyond_eight_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "run.svg"
    plot.draw(None, Result((spiked(),)), path, [Landmark(400 + i, f"change {i}") for i in range(11)])
    assert "8: change 7 (at 407)\nand 3 other changes in this range" in words(path)


def test_a_finding_whose_times_are_missing_is_still_drawn(tmp_path: Path) -> None:
    costs = curve(dict.fromkeys(range(380, 531), 96.0))
    costs.sweeps_ns[:, 41] = costs.median_ns[41] = np.nan
    cell = cell_result(costs, finding("wrong-result", 421, 421, None))
    plot.draw(None, Result((cell,)), tmp_path / "run.svg")
    assert " wrong-result 421" in words(tmp_path / "run.svg")


@pytest.mark.parametrize("name", ["run.gif", "run", "run.png.txt"])
def test_an_unknown_suffix_is_refused_with_the_remedy(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"let its name end in \.png, \.svg or \.pdf\.$"):
        plot.draw(None, Result((spiked(),)), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_an_unwritable_path_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"cannot be written \(No such file or directory\); name another file with -o\.$"
    ):
        plot.draw(None, Result((spiked(),)), tmp_path / "missing" / "run.png")


def test_nothing_to_draw_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to draw"):
        plot.draw(None, Result((cell_result(curve({}, sweeps=0)),)), tmp_path / "run.png")


def test_labels_stand_clear_of_the_data_and_inside_the_panel() -> None:
    costs = {length: 150.0 if length in (381, 402, 404, 406, 529, 530) else 96.0 for length in range(380, 531)}
    found = [spike(length, 1.5) for length in (381, 402, 404, 406, 529, 530)]
    figure = Figure(figsize=(9, 3.3))
    axes = figure.add_subplot()
    panel.against_length(axes, cell_result(curve(costs), *found), numbers.MICROSECONDS, [], points=500)
    figure.draw_without_rendering()
    labels = [text for text in axes.texts if text.get_text().strip()]
    boxes = [label.get_window_extent().transformed(axes.transData.inverted()) for label in labels]
    assert len(labels) == 6
    assert min(box.y0 for box in boxes) > 150
    assert all(not a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(axes.get_xlim()[0] <= box.x0 and box.x1 <= axes.get_xlim()[1] for box in boxes)


def test_labels_go_down_a_row_and_turn_at_the_right_edge() -> None:
    assert spots([0.10, 0.12, 0.50], [0.1, 0.1, 0.1], 5) == [Spot(0, True), Spot(1, True), Spot(0, True)]
    assert spots([0.97, 0.99], [0.1, 0.1], 5) == [Spot(1, False), Spot(0, False)]
    assert spots([0.85, 0.97], [0.13, 0.13], 5) == [Spot(1, False), Spot(0, False)]  # clear of the line at 0.97
    assert spots([0.5, 0.5, 0.5], [0.1, 0.1, 0.1], 1)[2] is None


def test_thinning_keeps_every_column_s_extremes_and_few_points_as_they_are() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.permutation(200_000), rng.lognormal(size=200_000)
    y[[7, 70_000]] = 1e6, 1e-6
    y[500] = np.nan
    kept = thin(x, y, 20_000)
    assert 15_000 < len(kept) <= 20_000
    assert {7, 70_000} <= set(kept.tolist())
    assert 500 not in kept
    for low in range(0, 200_000, 20_000):
        inside = (x >= low) & (x < low + 20_000)
        assert np.nanmax(y[inside]) in y[kept]
        assert np.nanmin(y[inside]) in y[kept]
    assert thin(np.arange(4), np.array([1.0, np.nan, 2.0, 3.0]), 3).tolist() == [0, 2, 3]


def test_many_lengths_are_drawn_with_few_dots(tmp_path: Path) -> None:
    costs = {length: 9000.0 if length == 12_345 else 96.0 for length in range(1, 40_001)}
    cell = cell_result(curve(costs, noise=0.01), spike(12_345, 93.0), verdict="non-monotonic")
    path = tmp_path / "many.svg"
    plot.draw(run([cell], samples=1), Result((cell,)), path)
    assert " 12345: 93.0x" in words(path)
    assert path.stat().st_size < 2_000_000
