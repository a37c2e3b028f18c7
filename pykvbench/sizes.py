"""Sizes of memory as users type them: 16GiB, 512MiB, 1.5G, 4GB, 1000000."""

from __future__ import annotations

import re

from pykvbench.errors import UsageError

MAX_BYTES = 1 << 60

_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*(?:([kmgt])(i?)b?|b)?", re.IGNORECASE | re.ASCII)
_POWER = {"k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str, option: str = "--budget") -> int:
    """Read a size as bytes: GiB and G are binary, GB is decimal, a number alone is bytes.

    Raises UsageError, naming `option`, for anything else, for nothing at all, and beyond 2^60 bytes.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{option} {text} is not a size; write a number with a unit, such as 16GiB, 512MiB or 4GB.")
    letter = (match[2] or "").lower()
    decimal = letter and not match[3] and text.strip().lower().endswith("b")
    size = int(float(match[1]) * (1000 if decimal else 1024) ** _POWER.get(letter, 0))
    if size < 1:
        raise UsageError(f"{option} {text} holds nothing; write a size above 0, such as 16GiB or 512MiB.")
    if size > MAX_BYTES:
        raise UsageError(f"{option} {text} is beyond any machine; write a smaller size, such as 16GiB.")
    return size


def format_size(size: int) -> str:
    """Bytes in the largest unit that leaves at least 1, to three digits: 8 KiB, 1.5 GiB, 100 B."""
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size >= 1024**power:
            value = size / 1024**power
            return f"{value:.0f} {unit}" if value >= 100 or value == int(value) else f"{value:.3g} {unit}"
    return f"{size} B"
