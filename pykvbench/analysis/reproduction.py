"""What became of a reproducer: how each fresh process that ran it ended, and what that comes to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_OBSERVED = re.compile(r"^observed ([0-9.]{1,12}(?:e[+-]?\d{1,3})?|inf)", re.MULTILINE)
_TAIL = 20  # lines of output that are kept


@dataclass(frozen=True)
class Attempt:
    """One process that ran the reproducer: its exit status, None when it was given up, what it observed and printed.

    `observed` is a ratio, or for a wrong result an error; None when the process did not come that far.
    """

    status: int | None
    observed: float | None
    output: str

    @property
    def shows(self) -> bool:
        """Whether it ended by saying that the effect is there."""
        return self.status == 1 and self.observed is not None


@dataclass(frozen=True)
class Reproduction:
    """All attempts, or the reason why there was none; `where` says on what they ran."""

    attempts: tuple[Attempt, ...] = ()
    reason: str = ""
    where: str = ""

    @property
    def executed(self) -> bool:
        """Whether the reproducer was run at all."""
        return bool(self.attempts)

    @property
    def shown(self) -> int:
        """In how many processes the effect was there."""
        return sum(attempt.shows for attempt in self.attempts)

    def reproduced(self, in_some: bool = False) -> bool:
        """Whether most processes show the effect, or any where it is known to be in some only."""
        return self.shown > 0 and (in_some or 2 * self.shown > len(self.attempts))

    def to_json(self) -> dict[str, Any]:
        """Plain values for a JSON document."""
        return {
            "executed": self.executed,
            "shown": self.shown,
            "observed": [attempt.observed for attempt in self.attempts],
            "reason": self.reason,
        }


def attempt(status: int | None, stdout: str, stderr: str = "") -> Attempt:
    """Read how a process ended; a traceback's last lines are kept in place of a table that it did not print."""
    found = _OBSERVED.findall(stdout)
    observed = float(found[-1]) if found else None
    text = stdout if observed is not None else stdout + stderr
    return Attempt(status, observed, "\n".join(text.rstrip().splitlines()[-_TAIL:]))
