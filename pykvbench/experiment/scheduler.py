"""Who is served next and who holds memory: the decisions of serving many sequences under a budget, without a device.

All sequences arrive at once, their contexts in their caches, and are due equally many tokens. Those that hold memory
are served round-robin, a token a turn. Bytes are predicted ones (dispatch.footprint), so that the budget is enforced
before memory is asked for, not after.

none              no budget
reject            who does not fit on arrival, with room for all its tokens, is not served
queue             who does not fit waits until another has all its tokens
evict-recompute,  all are served: while some wait, whoever has had SLICE tokens makes room for the one that has waited
spill-host,       longest, and its caches are dropped and computed again, or kept in host memory or on the disk. Caches
spill-disk        are counted as they are now; when one must grow beyond the budget, the one whose turn is last goes.

Time is what steps and moves take, added up. Filling a context for the first time is the same work under every policy
and is left out, and so is what the harness does in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

UNLIMITED = "none"
SWAPPING = ("evict-recompute", "spill-host", "spill-disk")
POLICIES = ("reject", "queue", *SWAPPING)
SLICE = 8  # tokens: few enough that 32 tokens show the wait several times, enough that a move is not paid for each


class Engine(Protocol):
    """What carries the decisions out; a sequence's number is its place on arrival. Times are in ns."""

    def fill(self, number: int) -> None:
        """Put the context into new caches."""

    def step(self, number: int) -> int:
        """Decode one token."""

    def leave(self, number: int) -> int:
        """Give up the memory of the caches."""

    def enter(self, number: int) -> int:
        """Have the caches in memory again."""

    def end(self, number: int) -> None:
        """Drop the caches of a sequence that has all its tokens."""


@dataclass(frozen=True)
class Load:
    """Sequences that arrive at once; `held` is the bytes of one at a length, `growth` what a step to it needs more."""

    sequences: int
    context: int
    tokens: int
    held: Callable[[int], int]
    growth: Callable[[int], int]

    @property
    def whole(self) -> int:
        """Bytes of one sequence with all its tokens."""
        return self.held(self.context + self.tokens)

    @property
    def most_growth(self) -> int:
        """The most that any step needs besides."""
        return max(self.growth(self.context + token) for token in range(1, self.tokens + 1))


@dataclass
class Served:
    """What serving gave: when each sequence had each token (ns of serving time), who was rejected, what moves took."""

    done: list[list[int]]
    rejected: tuple[int, ...] = ()
    took_ns: int = 0
    out_ns: list[int] = field(default_factory=list)
    in_ns: list[int] = field(default_factory=list)
    most_resident: int = 0
    most_held: int = 0  # predicted bytes of the caches in memory, between steps


def serve(load: Load, policy: str, budget: int | None, engine: Engine) -> Served:
    """Serve all sequences to their end under `policy`; a budget must hold at least one whole sequence and its growth.

    No policy but `reject` loses a token: every sequence in `done` has all of them.
    """
    return _Service(load, policy, budget, engine).run()


class _Service:
    """The state between two turns."""

    def __init__(self, load: Load, policy: str, budget: int | None, engine: Engine) -> None:
        self.load, self.engine, self.budget = load, engine, budget
        self.swaps, self.rejects = policy in SWAPPING, policy == "reject"
        self.length = [load.context] * load.sequences
        self.turns = [0] * load.sequences  # tokens since it came into memory
        self.new = set(range(load.sequences))
        self.waiting = deque(range(load.sequences))
        self.resident: deque[int] = deque()  # in the order of their turns
        self.result = Served([[] for _ in range(load.sequences)])

    def run(self) -> Served:
        self.admit()
        if self.rejects:
            self.result.rejected = tuple(self.waiting)
            self.waiting.clear()
        while self.resident:
            number = self.resident[0]
            while self.swaps and len(self.resident) > 1 and not self.fits_next(number):
                self.leave(self.resident.pop())
                self.waiting.rotate(1)  # to the front: it has not had its slice
            self.result.took_ns += self.engine.step(number)
            self.length[number] += 1
            self.turns[number] += 1
            self.result.done[number].append(self.result.took_ns)
            self.note()
            self.resident.popleft()
            if len(self.result.done[number]) == self.load.tokens:
                self.engine.end(number)
            elif self.swaps and self.waiting and self.turns[number] >= SLICE:
                self.leave(number)
            else:
                self.resident.append(number)
            self.admit()
        return self.result

    def admit(self) -> None:
        """Let in those who wait, in their order, as long as they fit."""
        while self.waiting and self.fits(self.waiting[0]):
            number = self.waiting.popleft()
            if number in self.new:
                self.new.remove(number)
                self.engine.fill(number)
            else:
                took = self.engine.enter(number)
                self.result.in_ns.append(took)
                self.result.took_ns += took
            self.turns[number] = 0
            self.resident.append(number)
            self.note()

    def leave(self, number: int) -> None:
        took = self.engine.leave(number)
        self.result.out_ns.append(took)
        self.result.took_ns += took
        self.waiting.append(number)

    def fits(self, number: int) -> bool:
        """Whether a sequence that waits fits beside those in memory: as long as it will be, or as it is next."""
        if self.budget is None:
            return True
        if not self.swaps:
            return self.load.whole * (len(self.resident) + 1) + self.load.most_growth <= self.budget
        return self.held(self.resident) + self.next_need(number) <= self.budget

    def fits_next(self, number: int) -> bool:
        """Whether the step of a sequence in memory fits."""
        others = self.held(other for other in self.resident if other != number)
        return self.budget is None or others + self.next_need(number) <= self.budget

    def next_need(self, number: int) -> int:
        length = self.length[number] + 1
        return self.load.held(length) + self.load.growth(length)

    def held(self, numbers: Iterable[int]) -> int:
        return sum(self.load.held(self.length[number]) for number in numbers)

    def note(self) -> None:
        self.result.most_resident = max(self.result.most_resident, len(self.resident))
        self.result.most_held = max(self.result.most_held, self.held(self.resident))
