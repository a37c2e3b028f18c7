"""What the simulated device does at which length: the little language of `--simulate`.

Terms are separated by commas:

    421=21x                cost at one length, relative to the smooth curve
    440-446=1.5x           at a range; 450-=0.6x from a length on; all=2x everywhere
    421=5x@40%             in 40 % of the processes; all=2x@10s-20s between two times of the run
    first=5x               the first call of each length in a process; first:421=5x at one length only
    budget:512-624=10x     in every step of a trajectory with such a budget (decode)
    pv:421=3x              3x the whole step's cost, all of it in one operation: append, qk, softmax or pv
    host:421=1.3x          as work on the host (dispatch) instead of the device (completion)
    noise=3%, drift=5%     lognormal spread of each call; growth a minute of run time
    base=200us, slope=200ns   the smooth curve: base + slope x length
    crash=421, hang=421, oom=421, error=421, wrong=421   abort, never finish, run out of memory, raise, over-read
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pykvbench.errors import UsageError
from pykvbench.operations import OPERATIONS

FAULTS = ("crash", "hang", "oom", "error", "wrong")
_TIME = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_PLACES = ("device", "host", "first", "budget", *OPERATIONS)
_LENGTHS = re.compile(r"(?P<first>\d{1,9})(?P<open>-(?P<last>\d{1,9})?)?", re.ASCII)
_VALUE = re.compile(
    r"(?P<ratio>\d+(\.\d+)?)x(@((?P<share>\d+(\.\d+)?)%|(?P<start>\d+(\.\d+)?)s-(?P<stop>\d+(\.\d+)?)s))?", re.ASCII
)


@dataclass(frozen=True)
class Cost:
    """One deviation from the smooth curve."""

    where: str  # "device", "host", "first", "budget" or one of OPERATIONS
    first: int
    last: int | None  # inclusive; None: to the end
    ratio: float
    share: float = 1.0  # of processes
    window_s: tuple[float, float] | None = None  # of run time

    def covers(self, value: int) -> bool:
        """Whether it applies at this length, or budget."""
        return self.first <= value and (self.last is None or value <= self.last)


@dataclass(frozen=True)
class Program:
    """All that the simulated device is told to do."""

    base_ns: float = 200e3
    slope_ns: float = 200.0
    noise: float = 0.01
    drift_per_minute: float = 0.0
    costs: tuple[Cost, ...] = ()
    faults: tuple[tuple[str, int], ...] = ()

    def fault(self, length: int) -> str | None:
        """The fault programmed at this length."""
        return next((fault for fault, at in self.faults if at == length), None)


def parse_program(text: str) -> Program:
    """Read the terms of `--simulate`; raises UsageError naming the term that is not one."""
    numbers: dict[str, float] = {}
    costs: list[Cost] = []
    faults: list[tuple[str, int]] = []
    for term in (part.strip() for part in text.split(",")):
        if not term:
            continue
        key, _, value = term.partition("=")
        key, value = key.strip(), value.strip()
        if key in FAULTS and re.fullmatch(r"\d{1,9}", value, re.ASCII):
            faults.append((key, int(value)))
        elif key in ("noise", "drift") and (match := re.fullmatch(r"(\d{1,3}(\.\d+)?)%", value)):
            numbers["noise" if key == "noise" else "drift_per_minute"] = float(match[1]) / 100
        elif key in ("base", "slope") and (match := re.fullmatch(r"(\d+(\.\d+)?)(ns|us|ms|s)", value)):
            numbers[f"{key}_ns"] = float(match[1]) * _TIME[match[3]]
        else:
            costs.append(_cost(key, value, term))
    return Program(costs=tuple(costs), faults=tuple(faults), **numbers)


def _cost(key: str, value: str, term: str) -> Cost:
    where, _, lengths = key.rpartition(":")
    if key == "first":
        where, lengths = "first", "all"
    where = where or "device"
    span = _LENGTHS.fullmatch("1-" if lengths == "all" else lengths)
    amount = _VALUE.fullmatch(value)
    reversed_span = span is not None and span["last"] is not None and int(span["last"]) < int(span["first"])
    if (
        where not in ("device", "host", "first", "budget", *OPERATIONS)
        or span is None
        or amount is None
        or reversed_span
    ):
        raise UsageError(
            f"--simulate term {term!r} is not understood; "
            "write terms such as 421=21x, 440-446=1.5x@40%, first=5x or crash=421."
        )
    first = int(span["first"])
    last = (int(span["last"]) if span["last"] else None) if span["open"] else first
    share = float(amount["share"]) / 100 if amount["share"] else 1.0
    window = (float(amount["start"]), float(amount["stop"])) if amount["start"] else None
    return Cost(where, first, last, float(amount["ratio"]), share, window)
