"""Sizes of memory are read as people write them, and refused in one sentence otherwise."""

import pytest

from pykvbench.errors import UsageError
from pykvbench.sizes import parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("16GiB", 16 << 30),
        ("16G", 16 << 30),
        ("512MiB", 512 << 20),
        ("1.5 gib", 3 << 29),
        ("4GB", 4_000_000_000),
        ("2kb", 2000),
        ("1Ti", 1 << 40),
        ("1000000", 1_000_000),
        ("12b", 12),
    ],
)
def test_what_people_write(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "many", "-1GiB", "1e9", "16 G i B", "16PiB", "GiB", "1,5GiB", "\u0663GiB"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_size(text)
    sentence = f"--budget {text} is not a size; write a number with a unit, such as 16GiB, 512MiB or 4GB."
    assert str(refused.value) == sentence


def test_nothing_and_too_much_are_refused() -> None:
    with pytest.raises(
        UsageError, match=r"--budget 0GiB holds nothing; write a size above 0, such as 16GiB or 512MiB."
    ):
        parse_size("0GiB")
    with pytest.raises(UsageError, match=r"--budget 2000000TiB is beyond any machine; write a smaller size"):
        parse_size("2000000TiB")
