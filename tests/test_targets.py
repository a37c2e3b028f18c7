"""Which findings are contrasted, and against which neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from pykvbench.analysis.finding import CellResult, Curve, Finding, Result
from pykvbench.analysis.synthetic_contrasts import cell
from pykvbench.analysis.targets import targets
from pykvbench.record import Run, Visits
from pykvbench.target import Target

LENGTHS = np.arange(400, 451)


def finding(kind: str, first: int, last: int, ratio: float = 2.0, confidence: str = "confirmed") -> Finding:
    return Finding(kind, (first, last), ratio, "5/5", 1e-6, confidence, "")


def chosen(*findings: Finding, slow: dict[int, float] | None = None) -> tuple[tuple[Target, ...], tuple[str, ...]]:
    cost = np.full(len(LENGTHS), 100.0)
    for length, ratio in (slow or {}).items():
        cost[length == LENGTHS] *= ratio
    curve = Curve(LENGTHS, np.tile(cost, (5, 1)), cost, np.full(len(LENGTHS), 100.0), None, None)
    result = Result((CellResult("simulated", "non-monotonic", findings, 1.1, 1e-6, (), curve),))
    empty: dict[str, Any] = {name: np.zeros(0) for name in Visits.__dataclass_fields__ if name != "memory"}
    visits = Visits(**{**empty, "length": LENGTHS}, memory={})
    object.__setattr__(visits, "cell", np.zeros(len(LENGTHS)))
    found = targets(Run({}, (cell(),), visits, (), (), None, ()), result)
    return found.chosen, found.left_out


def test_a_spike_is_compared_with_four_neighbours_a_side() -> None:
    (one,), left_out = chosen(finding("spike", 421, 421))
    assert one.flagged == (421,)
    assert one.controls == (417, 418, 419, 420, 422, 423, 424, 425)
    assert one.near == (420, 422)
    assert left_out == ()


def test_neighbours_that_another_finding_flags_are_no_controls() -> None:
    first, second = chosen(finding("spike", 421, 421), finding("regime", 423, 430))[0]
    assert first.controls == (417, 418, 419, 420, 422)
    assert second.flagged == (423, 424, 430)
    assert second.controls == (419, 420, 422, 431, 432, 433, 434)


def test_a_spike_on_the_last_length_has_neighbours_before_it_only() -> None:
    (one,), _ = chosen(finding("spike", 450, 450))
    assert one.controls == (446, 447, 448, 449)


def test_of_teeth_only_the_slow_ones_are_flagged() -> None:
    slow = {404: 2.0, 420: 2.0, 436: 2.2}
    (one,), _ = chosen(finding("periodic", 404, 436), slow=slow)
    assert one.flagged == (404, 420, 436)
    assert 412 not in one.controls
    assert one.near == (403, 405, 419, 421, 435, 437)


def test_a_step_is_its_dear_side_against_its_cheap_side() -> None:
    (one,), _ = chosen(finding("step", 420, 421, 0.5))
    assert (one.flagged, one.ratio) == ((418, 419, 420), 2.0)
    assert one.controls == (421, 422, 423, 424)


def test_only_confirmed_findings_of_some_lengths_are_contrasted() -> None:
    assert chosen(finding("spike", 421, 421, confidence="apparent"))[0] == ()
    assert chosen(finding("first-visit", 400, 450, 3.0))[0] == ()
    assert chosen(finding("drift", 400, 450))[0] == ()
    assert chosen(finding("first-visit", 421, 421, 3.0))[0][0].kind == "first-visit"


def test_the_largest_three_are_contrasted_and_the_rest_is_said() -> None:
    spikes = [finding("spike", length, length, ratio) for length, ratio in ((405, 2), (415, 5), (425, 4), (435, 3))]
    found, left_out = chosen(*spikes)
    assert [one.lengths for one in found] == [(415, 415), (425, 425), (435, 435)]
    assert left_out == ("simulated: the 3 largest of 4 findings are attributed.",)


def test_a_target_reads_back() -> None:
    (one,), _ = chosen(finding("spike", 421, 421))
    assert Target.from_json(one.to_json()) == one
