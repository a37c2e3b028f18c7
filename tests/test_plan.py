import pytest

from pykvbench.cell import Cell
from pykvbench.errors import RunFileError, UsageError
from pykvbench.experiment.inject import Injection, parse_injection
from pykvbench.experiment.plan import Plan
from pykvbench.geometry import geometry

A = Cell("simulated", "manual", "prealloc", geometry("gpt2"))
B = Cell("simulated", "fused", "prealloc", geometry("gpt2"))


def test_cells_are_interleaved_a_b_b_a() -> None:
    assert Plan((A, B), (1, 2), sweeps=3).launches() == ((0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2))


def test_every_sweep_has_its_own_order_and_the_seed_repeats_it() -> None:
    plan = Plan((A, B), tuple(range(380, 531)))
    orders = [plan.order(cell, sweep) for cell, sweep in plan.launches()]
    assert len(set(orders)) == len(orders)
    assert all(sorted(order) == list(plan.lengths) for order in orders)
    assert orders == [Plan((A, B), plan.lengths).order(cell, sweep) for cell, sweep in plan.launches()]
    assert plan.order(0, 0) != Plan((A, B), plan.lengths, seed=1).order(0, 0)


def test_warming_up_never_uses_up_a_first_visit() -> None:
    assert (Plan((A,), (380, 400)).warmup_length, Plan((A,), (380, 400)).capacity) == (379, 401)
    assert (Plan((A,), (1, 9)).warmup_length, Plan((A,), (1, 9)).capacity) == (10, 11)


def test_a_plan_survives_the_run_file() -> None:
    plan = Plan((A, B), (3, 5, 8), 4, 3, 7, 0.5, 9.5, "421=2x", (Injection(5, 1.5),))
    assert Plan.from_header({"seed": 7, "plan": plan.to_json()}, (A, B)) == plan


def test_an_unreadable_plan_is_refused() -> None:
    with pytest.raises(RunFileError, match="cannot be continued"):
        Plan.from_header({"seed": 7, "plan": {"lengths": 5}}, (A,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sweeps": 0}, "--sweeps 0 measures nothing; use at least 3, or leave the default of 5."),
        ({"samples": 0}, "--samples 0 measures nothing; use an odd number of at least 3, such as 7."),
        ({"warmup_s": -1.0}, "--warmup -1 is not possible; give seconds from 0 to 600, such as 1."),
        ({"timeout_s": 0.0}, "--timeout 0 is not possible; give seconds, at most 86400, such as 60."),
        ({"timeout_s": float("inf")}, "--timeout inf is not possible; give seconds, at most 86400, such as 60."),
        ({"timeout_s": 1e300}, "--timeout 1e+300 is not possible; give seconds, at most 86400, such as 60."),
        ({"seed": -1}, "--seed -1 is negative; use a whole number of at least 0."),
        ({"inject": (Injection(9, 2),)}, "--inject 9:2x is outside the measured lengths 1,2; inject at one of them."),
    ],
)
def test_an_impossible_plan_says_what_to_change(changes: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError) as error:
        Plan((A,), (1, 2), **changes)  # type: ignore[arg-type]
    assert str(error.value) == message


def test_injections_read_back() -> None:
    assert parse_injection("421:1.3x") == Injection(421, 1.3)
    assert parse_injection("421:1.3x").text == "421:1.3x"


@pytest.mark.parametrize("text", ["421", "421:1x", "0:2x", "421:2", "x:2x", "421:-2x", ""])
def test_a_bad_injection_says_what_to_write(text: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_injection(text)
    assert (
        str(error.value)
        == f"--inject {text} is not understood; write LENGTH:RATIOx with a ratio above 1, such as 421:1.3x."
    )
