"""Deliberate extra work at a length, to see whether the instrument finds it and names its cause: a positive control.

421:1.5x           the step at 421 keys costs 1.5 times as much, as work on the host outside its operations
421:1.5x@device    as work for the device, after the step's own
421:1.5x@pv        within one operation, append, qk, softmax or pv, also when that is timed alone
421:1.5x@pv+device both
421:1.5x@first     in the first call of the length in each process only
421:1.5x@alloc     only where the outputs of attention are newly allocated, a third of it with each of them
421:1.5x@pv/3      in every third process only
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from pykvbench import _timer
from pykvbench.drivers.driver import Driver
from pykvbench.drivers.parts import Part
from pykvbench.errors import DriverError, UsageError
from pykvbench.operations import ATTENTION, OPERATIONS

_INJECTION = re.compile(r"(\d{1,9}):(\d{1,6}(?:\.\d+)?)x(?:@([a-z+]+))?(?:/(\d{1,3}))?", re.ASCII)
_CALLS = 7  # undisturbed calls from which the extra time is taken, the second fastest of them: others only add
_OCCASIONS = ("first", "alloc")
_WORDS = (*OPERATIONS, *_OCCASIONS, "device")
_MOST_UNITS = 1 << 40


@dataclass(frozen=True)
class Injection:
    """Extra work at one length, so much that the whole step costs `ratio` times as much as undisturbed."""

    length: int
    ratio: float
    place: str = ""  # an operation, "first" or "alloc"; empty: the step itself, whenever it runs
    device: bool = False
    every: int = 1  # of this many processes one is disturbed

    @property
    def text(self) -> str:
        """As the user writes it: 421:1.3x@pv+device/3."""
        words = "+".join(word for word in (self.place, "device" if self.device else "") if word)
        return f"{self.length}:{self.ratio:g}x{'@' + words if words else ''}{f'/{self.every}' * (self.every > 1)}"

    def share(self, part: Part) -> float:
        """How much of the extra work comes with a part, or a whole step."""
        if self.place in OPERATIONS:
            return float(self.place in part.holds)
        if self.place == "alloc":
            return len(part.holds & ATTENTION) / len(ATTENTION) if part.allocates else 0.0
        return float("step" in part.holds)


def parse_injection(text: str) -> Injection:
    """Read LENGTH:RATIOx[@PLACE][+device][/EVERY], or raise UsageError."""
    match = _INJECTION.fullmatch(text.strip())
    if match is None or int(match[1]) < 1 or float(match[2]) <= 1 or int(match[4] or 1) < 1:
        raise UsageError(
            f"--inject {text} is not understood; write LENGTH:RATIOx with a ratio above 1, such as 421:1.3x."
        )
    words = match[3].split("+") if match[3] else []
    for word in words:
        if word not in _WORDS:
            raise UsageError(f"--inject {text}: {word or 'nothing'} is no place; choose among {', '.join(_WORDS)}.")
    places = [word for word in words if word != "device"]
    if len(places) > 1:
        raise UsageError(f"--inject {text} names {' and '.join(places)}; give each an --inject of its own.")
    return Injection(int(match[1]), float(match[2]), places[0] if places else "", "device" in words, int(match[4] or 1))


class Injector:
    """Adds the injections of a run to the steps of one driver, in this process."""

    def __init__(self, driver: Driver, injections: Iterable[Injection], process: int, elsewhere: int) -> None:
        """`elsewhere` is a length that is not measured; what a first call costs is taken from there."""
        self._driver, self._elsewhere = driver, elsewhere
        self._active = [injection for injection in injections if process % injection.every == 0]
        self._amounts: dict[Injection, int] = {}
        self._calls: Counter[tuple[str, int]] = Counter()

    def step(self, name: str, part: Part, length: int) -> Callable[[], object]:
        """The part's step over `length` keys, with its share of what is injected there; `name` tells parts apart."""
        acting = [(one, one.share(part)) for one in self._active if one.length == length and one.share(part)]
        if not acting:
            return part.step
        amounts = [(injection, int(share * self._amount(injection))) for injection, share in acting]

        def step() -> object:
            # On the host first: after the step it would hide behind a device that is still busy.
            self._calls[name, length] += 1
            now = [one for one in amounts if one[0].place != "first" or self._calls[name, length] == 1]
            for injection, amount in now:
                if not injection.device:
                    _spin(amount)
            result = part.step()
            for injection, amount in now:
                if injection.device and self._driver.work is not None:
                    result = self._driver.work(result, amount)
            return result

        return step

    def _amount(self, injection: Injection) -> int:
        """How much extra work makes the whole step cost `ratio` times as much: ns on the host, units on the device."""
        if injection not in self._amounts:
            length = self._elsewhere if injection.place == "first" else injection.length
            prepare = partial(self._driver.reset, length - 1)
            extra_ns = self._cost_ns(self._driver.step, prepare) * (injection.ratio - 1)
            self._amounts[injection] = self._units(extra_ns, prepare) if injection.device else int(extra_ns)
        return self._amounts[injection]

    def _cost_ns(self, step: Callable[[], object], prepare: Callable[[], None]) -> float:
        stamps = np.zeros((_CALLS, 3), dtype=np.int64)
        _timer.run(step, self._driver.sync, stamps, prepare)
        return float(np.sort(stamps[:, 2] - stamps[:, 0])[1])

    def _units(self, extra_ns: float, prepare: Callable[[], None]) -> int:
        """Doubled until they take half of what is wanted, then scaled: a device's first units may be free."""
        driver, work = self._driver, self._driver.work
        if work is None:
            raise DriverError("this step takes no extra work for the device; leave +device out of --inject.")
        plain, units, took = self._cost_ns(driver.step, prepare), 1 << 10, 0.0
        while took < extra_ns / 2:
            units *= 2
            if units > _MOST_UNITS:
                raise DriverError(
                    f"the device does {units} units of extra work in no time; inject on the host instead."
                )
            took = self._cost_ns(lambda: work(driver.step(), units), prepare) - plain  # noqa: B023 (called at once)
        for _ in range(2):
            units = max(1, int(units * extra_ns / max(took, extra_ns / 8)))
            took = self._cost_ns(lambda: work(driver.step(), units), prepare) - plain  # noqa: B023 (called at once)
        return units


def undisturbed(result: object) -> object:
    """What the step itself returned, without the extra work that came with it."""
    while isinstance(result, tuple):
        result = result[0]
    return result


def _spin(duration_ns: int) -> None:
    until = _timer.now_ns() + duration_ns
    while _timer.now_ns() < until:
        pass
