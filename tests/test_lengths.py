import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykvbench.errors import UsageError
from pykvbench.lengths import format_lengths, parse_lengths


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("380:383", (380, 381, 382, 383)),
        ("380:386:2", (380, 382, 384, 386)),
        ("380:385:2", (380, 382, 384)),
        ("64:4096:*4", (64, 256, 1024, 4096)),
        ("1k:4k:*2", (1024, 2048, 4096)),
        ("256,128,256,384", (128, 256, 384)),
        ("7", (7,)),
        ("7:7", (7,)),
        ("1:3, 9", (1, 2, 3, 9)),
    ],
)
def test_ranges_are_inclusive_sorted_and_without_repeats(text: str, lengths: tuple[int, ...]) -> None:
    assert parse_lengths(text) == lengths


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("530:380", "--len 530:380 is empty; write 380:530."),
        ("0:10", "--len 0:10 contains 0; the smallest value is 1, such as 1:10."),
        ("abc", "--len abc is not a range; write whole numbers such as 380:530, 380:530:2, 64:4096:*2 or 128,256."),
        ("", "--len  is not a range; write whole numbers such as 380:530, 380:530:2, 64:4096:*2 or 128,256."),
        ("-5", "--len -5 is not a range; write whole numbers such as 380:530, 380:530:2, 64:4096:*2 or 128,256."),
        ("1:10000000", "--len 1:10000000 has more than 100000 values; add a step, such as 1:10000:8 or 64:65536:*2."),
        ("1:2:3:4", "--len 1:2:3:4 has too many colons; write START:STOP or START:STOP:STEP, such as 380:530:2."),
        ("64:128:*1", "--len 64:128:*1 never reaches its end; multiply by 2 or more, such as 64:128:*2."),
        ("1:99999999:999999", "--len 1:99999999:999999 goes beyond 16777216; write a smaller range."),
    ],
)
def test_a_bad_range_says_what_to_write(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_lengths(text)
    assert str(error.value) == message


def test_the_option_is_named_in_the_message() -> None:
    with pytest.raises(UsageError, match="^--budget x is not a range"):
        parse_lengths("x", "--budget")


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=20, unique=True))
def test_what_is_formatted_reads_back(values: list[int]) -> None:
    lengths = tuple(sorted(values))
    assert parse_lengths(format_lengths(lengths)) == lengths


def test_formatting_is_short() -> None:
    assert format_lengths(range(380, 531)) == "380:530"
    assert format_lengths(range(380, 531, 2)) == "380:530:2"
    assert format_lengths([1, 2]) == "1,2"


@given(st.text(max_size=12))
def test_any_text_is_a_range_or_one_sentence(text: str) -> None:
    try:
        assert parse_lengths(text)
    except UsageError as error:
        assert "\n" not in str(error) or "\n" in text
