"""The scheduler on an engine without a device: who is served when, what is held, and that no token is lost."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykvbench.experiment.scheduler import POLICIES, SLICE, SWAPPING, Load, Served, serve

STEP, OUT, IN = 10, 100, 1000


@dataclass
class Fake:
    """Steps of 10 ns, moves out of 100 and back of 1000; keeps what it was told, and who is in memory."""

    load: Load
    budget: int | None = None
    log: list[tuple[str, int]] = field(default_factory=list)
    inside: set[int] = field(default_factory=set)
    length: dict[int, int] = field(default_factory=dict)

    def fill(self, number: int) -> None:
        assert number not in self.length
        self.length[number] = self.load.context
        self.enter(number)

    def step(self, number: int) -> int:
        assert number in self.inside
        self.length[number] += 1
        growth = self.load.growth(self.length[number])
        held = sum(self.load.held(self.length[other]) for other in self.inside)
        assert self.budget is None or held + growth <= self.budget
        self.log.append(("step", number))
        return STEP

    def leave(self, number: int) -> int:
        self.inside.remove(number)
        self.log.append(("leave", number))
        return OUT

    def enter(self, number: int) -> int:
        assert number not in self.inside
        self.inside.add(number)
        self.log.append(("enter", number))
        return IN

    def end(self, number: int) -> None:
        self.inside.remove(number)


def load(sequences: int, tokens: int = 4, context: int = 10, grows: bool = False) -> Load:
    return Load(sequences, context, tokens, (lambda n: n) if grows else (lambda n: 100), lambda n: 1 if grows else 0)


def served(what: Load, policy: str, budget: int | None) -> tuple[Served, Fake]:
    engine = Fake(what, budget)
    result = serve(what, policy, budget, engine)
    assert not engine.inside
    return result, engine


def test_without_a_limit_all_are_served_in_turn() -> None:
    result, engine = served(load(3), "none", None)
    assert [number for what, number in engine.log if what == "step"] == [0, 1, 2] * 4
    assert result.done == [[10, 40, 70, 100], [20, 50, 80, 110], [30, 60, 90, 120]]
    assert (result.took_ns, result.most_resident, result.most_held, result.out_ns) == (120, 3, 300, [])


def test_who_does_not_fit_is_rejected_on_arrival_and_gets_nothing() -> None:
    result, _ = served(load(3), "reject", 299)
    assert result.rejected == (2,)
    assert result.done == [[10, 30, 50, 70], [20, 40, 60, 80], []]
    assert (result.most_resident, result.most_held) == (2, 200)


def test_who_does_not_fit_waits_until_another_is_done_and_the_wait_counts() -> None:
    result, _ = served(load(3), "queue", 299)
    assert result.rejected == ()
    assert result.done == [[10, 30, 50, 70], [20, 40, 60, 80], [90, 100, 110, 120]]


@pytest.mark.parametrize("policy", SWAPPING)
def test_who_has_had_a_slice_makes_room_and_moves_take_time(policy: str) -> None:
    result, engine = served(load(2, tokens=2 * SLICE), policy, 199)
    turns = [number for what, number in engine.log if what == "step"]
    assert turns == [0] * SLICE + [1] * SLICE + [0] * SLICE + [1] * SLICE
    assert (result.out_ns, result.in_ns) == ([OUT, OUT], [IN, IN])
    assert result.took_ns == 4 * SLICE * STEP + 2 * (OUT + IN)
    # The first waits for a move out, the other's slice, its move out, and its own way back.
    assert result.done[0][SLICE] - result.done[0][SLICE - 1] == OUT + SLICE * STEP + OUT + IN + STEP


def test_a_cache_that_grows_beyond_the_budget_sends_away_the_one_whose_turn_is_last() -> None:
    what = load(2, tokens=6, context=10, grows=True)
    result, engine = served(what, "spill-host", 25)  # 12 + 11 + 1 fit, 12 + 12 + 1 too, 13 + 12 + 1 do not
    assert engine.log[:8] == [
        *(("enter", 0), ("enter", 1), ("step", 0), ("step", 1)),
        *(("step", 0), ("step", 1), ("leave", 1), ("step", 0)),
    ]
    assert [len(done) for done in result.done] == [6, 6]


@pytest.mark.parametrize("policy", ["reject", "queue"])
def test_those_who_are_let_in_keep_their_place_to_the_end(policy: str) -> None:
    """They are counted with all their tokens: nothing grows beyond the budget later."""
    result, engine = served(load(3, tokens=6, context=10, grows=True), policy, 33)  # 16 + 16 + 1
    assert result.most_resident == 2
    assert not [what for what, _ in engine.log if what == "leave"]
    assert result.most_held <= 32


@settings(max_examples=150, deadline=None)
@given(
    policy=st.sampled_from(POLICIES),
    sequences=st.integers(1, 9),
    tokens=st.integers(2, 40),
    context=st.integers(1, 40),
    chunk=st.integers(1, 16),
    more=st.integers(0, 300),
)
def test_no_token_is_lost_and_the_budget_holds(
    policy: str, sequences: int, tokens: int, context: int, chunk: int, more: int
) -> None:
    def held(length: int) -> int:
        return -(-length // chunk) * chunk

    what = Load(sequences, context, tokens, held, lambda length: held(length - 1) if length % chunk == 1 % chunk else 0)
    budget = what.whole + what.most_growth + more
    result, _ = served(what, policy, budget)  # the engine checks the budget at every step
    assert result.rejected == () or policy == "reject"
    for number, done in enumerate(result.done):
        assert len(done) == (0 if number in result.rejected else tokens)
        assert done == sorted(done)
    assert result.most_held <= budget
    moves = sum(result.out_ns) + sum(result.in_ns)
    assert result.took_ns == STEP * sum(len(done) for done in result.done) + moves


def test_who_made_room_for_another_to_grow_is_the_first_to_come_back() -> None:
    """Two fit at first and one later: the second makes room and is before the third, who has waited from the start."""
    _, engine = served(load(3, tokens=6, context=10, grows=True), "spill-host", 25)
    came = [number for what, number in engine.log if what == "enter"]
    assert came[:4] == [0, 1, 1, 2]
