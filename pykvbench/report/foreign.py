"""Strings that come from a run file, a tool or a program, made harmless before they stand in a text for the public.

They must not become markup, code, links or mentions, and must not say where a run was made or by whom.
"""

from __future__ import annotations

import getpass
import json
import platform
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

MOST = 200  # characters of one string
PATH, NAME = "(path)", "(name)"

# An absolute path, also a share's, one with a drive letter and one below a home; 12/64 and GB/s are none.
_PATHS = re.compile(
    r"""(?<![\w/.:\\])(?:file:)?(?:~\w*|[A-Za-z]:)?(?:/+|\\+)(?=[\w.~-]{2,})[^\s"'`<>|,;)\]]+""", re.ASCII
)
_SUSPICIOUS = re.compile(rb"[/\\~]")
_LIST = re.compile(r"^(\d*)([-+=.)])(?=\s|$)")  # what would begin a list, or underline a heading
_ESCAPED = re.compile(r"([\\`*_\[\]<>|~#&$!])")


def words(value: object, most: int = MOST) -> str:
    """A string on one line without control characters, paths and this machine's names, cut after `most` characters."""
    return _cut(" ".join(_printable(value, most).split()), most)


def code(value: object, most: int = MOST) -> str:
    """The string as Markdown code, in which nothing has a meaning; also within a table."""
    text = words(value, most).replace("`", "'").replace("|", "/")
    return f"`{text}`" if text else "-"


def plain(value: object, most: int = 1000) -> str:
    """The string as Markdown text that renders as it reads; `@` and `://` are broken up, since they link even so."""
    text = words(value, most).replace("@", "(at)").replace("://", ": //")
    return _LIST.sub(r"\1\\\2", _ESCAPED.sub(r"\\\1", text))


def block(text: str) -> str:
    """Lines as they stand in a fenced block, which none of them can close."""
    return "\n".join(_cut(_printable(line, 160).rstrip(), 160).replace("`", "'") for line in text.splitlines())


def scrub(text: str) -> str:
    """The string without absolute paths and without the names of this machine and its user."""
    text = _PATHS.sub(PATH, text)
    names = _own_names()
    return names.sub(NAME, text) if names else text


def scrub_line(line: bytes) -> bytes:
    """A line of a run file with its strings scrubbed; the same bytes where there is nothing to scrub."""
    names = _own_names()
    if not _SUSPICIOUS.search(line) and not (names and names.search(line.decode(errors="replace"))):
        return line
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return line if line.isspace() else b"\n"  # damaged lines are left out when a run is read
    clean = _scrub_values(value)
    return line if clean == value else json.dumps(clean, separators=(",", ":")).encode() + b"\n"


def scrub_lines(lines: Iterator[bytes]) -> Iterator[bytes]:
    """All lines of a run file, scrubbed."""
    return (scrub_line(line) for line in lines)


def _printable(value: object, most: int) -> str:
    text = value if isinstance(value, str) else str(value)
    return scrub("".join(letter if letter.isprintable() else " " for letter in text[: 8 * most]))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _scrub_values(value: Any) -> Any:
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, list):
        return [_scrub_values(one) for one in value]
    if isinstance(value, dict):
        return {scrub(name): _scrub_values(one) for name, one in value.items()}
    return value


@lru_cache(maxsize=1)
def _own_names() -> re.Pattern[str] | None:
    """What this machine and its user are called, as whole words; names that are ordinary words are left alone."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = ""
    node = platform.node()
    names = {name for name in (user, node, node.partition(".")[0]) if len(name) > 3}
    names -= {"root", "user", "runner", "localhost", "linux", "darwin", "main", "admin"}
    if not names:
        return None
    longest_first = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?:{longest_first})(?!\w)", re.IGNORECASE)
