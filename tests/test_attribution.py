"""Attribution names the cause that was put into contrasts, and none where there is none."""

from __future__ import annotations

import pytest

from pykvbench.analysis.cause import cause, sentence, workaround
from pykvbench.analysis.evidence import Evidence, gather
from pykvbench.analysis.synthetic_contrasts import CAUSES, cell, lines, target

NAMED = {
    "dispatch": "dispatch: host work of the step outside its operations",
    "device": "completion: device work of the step outside its operations",
    "append": "append",
    "qk": "QK^T",
    "softmax": "softmax",
    "pv": "PV",
    "first": "first call at this length in a process",
    "alloc": "allocation of outputs",
    "third": "PV, in some processes only (3 of 9)",
    "null": None,
}


def evidence(what: str, seed: int, ratio: float = 1.5, backend: str = "simulated") -> Evidence:
    processes = 9 if what == "third" else 5
    made = lines(what, seed, ratio, backend, processes=processes)
    return gather(made, target(what, ratio), cell(backend))


@pytest.mark.parametrize("what", CAUSES)
def test_19_of_20_seeds_name_the_cause_and_none_names_another(what: str) -> None:
    named = [cause(evidence(what, seed)) for seed in range(20)]
    assert named.count(NAMED[what]) >= 19
    assert set(named) <= {NAMED[what], None}


@pytest.mark.slow
@pytest.mark.parametrize("what", [one for one in CAUSES if one not in ("first", "third", "device")])
def test_where_the_call_waits_for_its_work_causes_are_the_same(what: str) -> None:
    named = [cause(evidence(what, seed, backend="cpu")) for seed in range(20)]
    assert named.count(NAMED[what]) >= 19


def test_no_cause_is_named_when_the_finding_is_larger_than_what_came_back() -> None:
    made = lines("null", 3)
    found = gather(made, target("null", 21.0), cell())
    assert cause(found) is None
    assert found.outcome("processes") == "absent"
    assert sentence(found).endswith("0/5 processes; it did not come back; unexplained.")


def test_a_sentence_says_where_it_is_what_makes_it_go_and_what_does_not() -> None:
    found = evidence("pv", 0, 21.0)
    assert sentence(found, "route 1-pass on both sides") == (
        "L = 421: 21.2x, 5/5 processes; all of it in PV; in completion; gone when padded to a multiple of 32, when "
        "padded to a multiple of 64 and in fused attention; still there when K and V are contiguous, with another "
        "capacity, with preallocated outputs, in float16 and with one layer; route 1-pass on both sides."
    )
    assert workaround(found) == "use the framework's fused attention"


def test_what_no_contrast_explains_is_unexplained() -> None:
    spread = [line for name in ("qk", "softmax") for line in lines(name, 1) if line["round"] % 2 == (name == "qk")]
    found = gather(spread, target("qk", 1.5), cell())
    assert cause(found) is None
    assert sentence(found).endswith("unexplained.")


def test_without_contrasts_nothing_is_measured() -> None:
    found = gather([], target("pv", 1.5), cell())
    assert cause(found) is None
    assert {one.outcome for one in found.contrasts} == {"not measured"}
    assert sentence(found) == "L = 421: the contrasts were not measured; unexplained."


def test_a_cell_that_grows_its_cache_is_told_so() -> None:
    made = lines("append", 2, 3.0)
    made += [{**line, "variant": "cache:prealloc"} for line in lines("null", 5) if line["variant"] == "whole"]
    found = gather(made, target("append", 3.0), cell(cache="chunked"))
    assert cause(found) == "append: the cache grows"
    assert workaround(found) == "keep the cache in a fixed buffer"
    assert "gone under prealloc" in sentence(found)
