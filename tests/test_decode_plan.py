import pytest

from pykvbench.cell import Cell
from pykvbench.errors import UsageError
from pykvbench.experiment.decode_plan import DecodePlan, Trajectory
from pykvbench.geometry import geometry

A = Cell("simulated", "manual", "concat", geometry("gpt2"))
B = Cell("simulated", "manual", "none", geometry("gpt2"))


def test_every_trajectory_has_a_process_of_its_own_and_repeats_are_shuffled_apart() -> None:
    launches = DecodePlan((A, B), (4, 8, 16), (3, 5), repeats=2).launches()
    assert len(launches) == 2 * 3 * 2 * 2
    assert all(len(trajectories) == 1 for _, trajectories in launches)
    first, second = launches[:12], launches[12:]
    assert {trajectory.repeat for _, (trajectory,) in first} == {0}
    assert [(cell, t.prompt, t.budget) for cell, (t,) in first] != [(cell, t.prompt, t.budget) for cell, (t,) in second]
    assert {(cell, t.prompt, t.budget) for cell, (t,) in first} == {(cell, t.prompt, t.budget) for cell, (t,) in second}


def test_ascending_fresh_processes_go_through_the_budgets_in_order() -> None:
    launches = DecodePlan((A,), (4, 8), (3,), repeats=2, order="ascending").launches()
    assert [trajectory.budget for _, (trajectory,) in launches] == [4, 4, 8, 8]


def test_a_shared_ascending_process_repeats_the_papers_protocol() -> None:
    ((cell, trajectories),) = DecodePlan((A,), (4, 8), (3,), repeats=5, history="shared", order="ascending").launches()
    assert cell == 0
    assert [trajectory.budget for trajectory in trajectories] == [4] * 8 + [8] * 8
    assert [trajectory.measured for trajectory in trajectories] == ([False] * 3 + [True] * 5) * 2
    assert trajectories[3] == Trajectory(3, 4, 0)


def test_a_shared_shuffled_process_measures_everything_once_a_repeat() -> None:
    ((_, trajectories),) = DecodePlan((A,), (4, 8, 12, 16), (3,), repeats=3, history="shared").launches()
    assert all(trajectory.measured for trajectory in trajectories)
    assert sorted((trajectory.repeat, trajectory.budget) for trajectory in trajectories) == [
        (repeat, budget) for repeat in range(3) for budget in (4, 8, 12, 16)
    ]


def test_buffers_are_as_long_for_every_budget_and_warming_up_stays_outside() -> None:
    plan = DecodePlan((A,), (4, 8), (3, 65))
    assert (plan.longest, plan.warmup_length, plan.capacity) == (73, 74, 75)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"repeats": 0}, "--repeats 0 measures nothing; use at least 3, or leave the default of 5."),
        ({"history": "long"}, "--history long is unknown; choose one of fresh, shared."),
        ({"order": "up"}, "--order up is unknown; choose one of shuffled, ascending."),
    ],
)
def test_an_impossible_plan_says_what_to_change(changes: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError) as error:
        DecodePlan((A,), (4,), (3,), **changes)  # type: ignore[arg-type]
    assert str(error.value) == message


def test_a_model_body_must_have_the_positions() -> None:
    model = Cell("cpu", "manual", "concat", geometry("gpt2"), body="model", model="gpt2")
    with pytest.raises(
        UsageError, match="^--prompt 65 and --budget 1000 need 1065 positions and gpt2 has 1024; lower one"
    ):
        DecodePlan((model,), (1000,), (65,))
