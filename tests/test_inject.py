"""Injected work: how it is written, where it acts, and how much of it there is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pykvbench.cell import Cell
from pykvbench.drivers.opening import open_driver, open_parts
from pykvbench.drivers.parts import STEP, Part
from pykvbench.errors import UsageError
from pykvbench.experiment import inject
from pykvbench.experiment.inject import Injection, Injector, parse_injection, undisturbed
from pykvbench.experiment.plan import Plan
from pykvbench.geometry import Geometry

CELL = Cell("simulated", "manual", "prealloc", Geometry(1, 1, 1, 1, 8, "float32"))


@pytest.mark.parametrize(
    ("text", "injection"),
    [
        ("421:1.3x", Injection(421, 1.3)),
        ("421:1.5x@device", Injection(421, 1.5, device=True)),
        ("421:3x@pv", Injection(421, 3, "pv")),
        ("421:3x@pv+device/3", Injection(421, 3, "pv", True, 3)),
        ("421:2x@first", Injection(421, 2, "first")),
        ("421:2x@alloc", Injection(421, 2, "alloc")),
        ("421:2x/3", Injection(421, 2, every=3)),
    ],
)
def test_an_injection_reads_back_as_it_was_written(text: str, injection: Injection) -> None:
    assert parse_injection(text) == injection
    assert injection.text == text


def test_the_order_of_words_does_not_matter() -> None:
    assert parse_injection("421:2x@device+qk") == parse_injection("421:2x@qk+device")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "421:2x@gpu",
            "--inject 421:2x@gpu: gpu is no place; choose among append, qk, softmax, pv, first, alloc, device.",
        ),
        (
            "421:2x@pv+",
            "--inject 421:2x@pv+: nothing is no place; choose among append, qk, softmax, pv, first, alloc, device.",
        ),
        ("421:2x@pv+qk", "--inject 421:2x@pv+qk names pv and qk; give each an --inject of its own."),
        (
            "421:2x@PV",
            "--inject 421:2x@PV is not understood; write LENGTH:RATIOx with a ratio above 1, such as 421:1.3x.",
        ),
        (
            "421:2x/0",
            "--inject 421:2x/0 is not understood; write LENGTH:RATIOx with a ratio above 1, such as 421:1.3x.",
        ),
    ],
)
def test_a_place_that_is_none_says_which_there_are(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_injection(text)
    assert str(error.value) == sentence


def test_an_operation_is_not_injected_into_a_fused_kernel() -> None:
    with pytest.raises(UsageError) as error:
        Plan((replace(CELL, kernel="fused"),), (420, 421), inject=(parse_injection("421:2x@qk"),))
    assert str(error.value) == (
        "--inject 421:2x@qk needs an operation that the fused kernel does not have; measure --kernel manual."
    )


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("9:2x", {"part:pv": 0, "whole:manual": 0, "outputs:preallocated": 0}),
        ("9:2x@pv", {"part:pv": 1, "part:qk": 0, "whole:manual": 1, "kernel:fused": 0, "outputs:preallocated": 1}),
        ("9:2x@append", {"part:append": 1, "whole:manual": 0}),
        ("9:2x@alloc", {"part:pv": 1 / 3, "part:append": 0, "whole:manual": 1, "outputs:preallocated": 0}),
    ],
)
def test_work_comes_with_the_parts_that_hold_it(text: str, shares: dict[str, float]) -> None:
    parts, injection = open_parts(CELL, 20, 0), parse_injection(text)
    assert {name: injection.share(parts[name]) for name in shares} == shares
    assert injection.share(Part(lambda _: None, lambda: None, STEP)) == 1


def spun(monkeypatch: pytest.MonkeyPatch, text: str, process: int, calls: int, length: int = 9) -> list[int]:
    """What is spun on the host in successive calls of a whole step."""
    found: list[int] = []
    monkeypatch.setattr(inject, "_spin", found.append)
    driver = open_driver(CELL, 20, 0, "noise=0%,base=100us,slope=0ns")
    part = Part(driver.reset, driver.step, STEP)
    injector = Injector(driver, [parse_injection(text)], process, 5)
    for _ in range(calls):
        part.reset(length - 1)
        injector.step("whole", part, length)()
        driver.sync(None)
    return found


def test_it_acts_in_every_call_at_its_length_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(spun(monkeypatch, "9:3x", 1, 3)) == 3
    assert spun(monkeypatch, "9:3x", 1, 3, length=8) == []


def test_first_acts_in_the_first_call_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(spun(monkeypatch, "9:3x@first", 1, 3)) == 1


def test_every_third_process_is_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [len(spun(monkeypatch, "9:3x/3", process, 1)) for process in range(1, 7)] == [0, 0, 1, 0, 0, 1]


def test_the_amount_is_what_the_undisturbed_step_takes_times_the_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    amount = spun(monkeypatch, "9:3x", 1, 1)[0]
    assert amount >= 200_000  # the step takes 100 us on the device, and its dispatch and wait besides


def test_work_for_the_device_comes_back_with_the_result() -> None:
    driver = open_driver(CELL, 20, 0, "noise=0%,base=100us,slope=0ns")
    part = Part(driver.reset, driver.step, STEP)
    step = Injector(driver, [parse_injection("9:2x@device")], 1, 5).step("whole", part, 9)
    part.reset(8)
    result = step()
    driver.sync(result)
    assert isinstance(result, tuple)
    assert undisturbed(result) == 9
