import pytest

from pykvbench.drivers.program import Cost, parse_program
from pykvbench.errors import UsageError


def test_every_term_has_its_meaning() -> None:
    program = parse_program(
        "421=21x, 440-446=1.5x@40%, 450-=0.6x, host:9=2x, first=5x, first:7=3x, all=2x@10s-20s, noise=3%, drift=5%,"
        "base=1ms, slope=50ns, crash=8, budget:512-624=10x"
    )
    assert program.costs == (
        Cost("device", 421, 421, 21.0),
        Cost("device", 440, 446, 1.5, share=0.4),
        Cost("device", 450, None, 0.6),
        Cost("host", 9, 9, 2.0),
        Cost("first", 1, None, 5.0),
        Cost("first", 7, 7, 3.0),
        Cost("device", 1, None, 2.0, window_s=(10.0, 20.0)),
        Cost("budget", 512, 624, 10.0),
    )
    assert (program.noise, program.drift_per_minute, program.base_ns, program.slope_ns) == (0.03, 0.05, 1e6, 50.0)
    assert program.fault(8) == "crash"
    assert program.fault(9) is None


def test_costs_cover_their_lengths() -> None:
    inside, from_on = parse_program("440-446=1.5x,450-=0.6x").costs
    assert [length for length in (439, 440, 446, 447) if inside.covers(length)] == [440, 446]
    assert [length for length in (449, 450, 9999) if from_on.covers(length)] == [450, 9999]


def test_nothing_programmed_is_the_smooth_curve() -> None:
    assert parse_program("").costs == ()


@pytest.mark.parametrize(
    "term", ["421", "421=2", "x=2x", "gpu:4=2x", "421=2x@30", "noise=3", "crash=all", "=", "5-3=2x"]
)
def test_a_term_that_is_none_is_named(term: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_program(f"noise=1%,{term}")
    assert str(error.value) == (
        f"--simulate term {term!r} is not understood; "
        "write terms such as 421=21x, 440-446=1.5x@40%, first=5x or crash=421."
    )
