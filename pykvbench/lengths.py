"""Ranges of KV lengths as users type them: 380:530, 380:530:2, 64:4096:*2, 128,256,384, 1k:32k."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pykvbench.errors import UsageError

MAX_LENGTHS = 100_000
MAX_LENGTH = 16 * 1024 * 1024

_NUMBER = re.compile(r"(\d{1,9})(k?)", re.IGNORECASE | re.ASCII)


def parse_lengths(text: str, option: str = "--len") -> tuple[int, ...]:
    """Read a range of lengths, inclusive at both ends, into a sorted tuple without repeats.

    Raises UsageError, naming `option`, for anything empty, reversed, below 1 or longer than MAX_LENGTHS.
    """
    lengths: set[int] = set()
    for part in text.split(","):
        lengths.update(_parse_part(part.strip(), text, option))
        if len(lengths) > MAX_LENGTHS:
            raise _too_many(text, option)
    return tuple(sorted(lengths))


def format_lengths(lengths: Sequence[int]) -> str:
    """Write lengths the shortest way that parse_lengths reads back: 380:530, 380:530:2 or a list."""
    if len(lengths) > 2:
        steps = {b - a for a, b in zip(lengths, lengths[1:])}
        if len(steps) == 1:
            step = steps.pop()
            return f"{lengths[0]}:{lengths[-1]}" + (f":{step}" if step != 1 else "")
    return ",".join(str(length) for length in lengths)


def _parse_part(part: str, text: str, option: str) -> Sequence[int]:
    fields = part.split(":")
    if len(fields) > 3:
        raise UsageError(
            f"{option} {text} has too many colons; write START:STOP or START:STOP:STEP, such as 380:530:2."
        )
    first = _number(fields[0], text, option)
    if len(fields) == 1:
        return (first,)
    last = _number(fields[1], text, option)
    if last < first:
        raise UsageError(f"{option} {text} is empty; write {last}:{first}.")
    if len(fields) == 3 and fields[2].startswith("*"):
        factor = _number(fields[2][1:], text, option)
        if factor < 2:
            raise UsageError(
                f"{option} {text} never reaches its end; multiply by 2 or more, such as {first}:{last}:*2."
            )
        powers = [first]
        while powers[-1] * factor <= last:
            powers.append(powers[-1] * factor)
        return powers
    lengths = range(first, last + 1, _number(fields[2], text, option) if len(fields) == 3 else 1)
    if len(lengths) > MAX_LENGTHS:
        raise _too_many(text, option)
    return lengths


def _number(field: str, text: str, option: str) -> int:
    match = _NUMBER.fullmatch(field.strip())
    if match is None:
        raise UsageError(
            f"{option} {text} is not a range; write whole numbers such as 380:530, 380:530:2, 64:4096:*2 or 128,256."
        )
    value = int(match[1]) * (1024 if match[2] else 1)
    if value < 1:
        raise UsageError(f"{option} {text} contains 0; the smallest value is 1, such as 1:{max(value, 10)}.")
    if value > MAX_LENGTH:
        raise UsageError(f"{option} {text} goes beyond {MAX_LENGTH}; write a smaller range.")
    return value


def _too_many(text: str, option: str) -> UsageError:
    return UsageError(
        f"{option} {text} has more than {MAX_LENGTHS} values; add a step, such as 1:10000:8 or 64:65536:*2."
    )
