"""What the contrasts of one target say, one by one: present, absent or unclear, with an interval over processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pykvbench.analysis import excess as excesses
from pykvbench.analysis.contrast import QUESTIONS, Contrast
from pykvbench.analysis.excess import Excess, Line, interval
from pykvbench.analysis.finding import Floats
from pykvbench.analysis.sentences import cost, times
from pykvbench.cell import Cell
from pykvbench.operations import OPERATIONS
from pykvbench.target import Target

HELD = 0.3  # share of the whole's excess from which a process counts as having it: four parts that share it have less
MOST = 0.8  # of the processes must agree: with 5, one may be disturbed
CAME_BACK = 0.4  # share of the finding's own excess (log) above which a process shows it again
LEAST = 0.05  # and at least this much (log), and CLEAR times its neighbours' spread
CLEAR = 2.5
WAITS = 0.05  # share of a step after its call returned, below which the call itself waits for the work
_OTHER_CELLS = ("cache:", "dtype:", "layers:", "backend:")
_PROCESS_WIDE = ("backend:",)  # measured in processes of their own


@dataclass(frozen=True)
class Evidence:
    """The contrasts of one target, and the whole step that they are held against."""

    target: Target
    cell: Cell
    contrasts: tuple[Contrast, ...]
    whole: Excess | None
    slow: tuple[int, ...]  # processes in which the excess came back
    waits: bool  # whether the step's call returns only when its work is done, so that dispatch says nothing
    added_up: float | None

    def outcome(self, name: str) -> str:
        """What became of a contrast; "not measured" where it was not asked for."""
        return next((one.outcome for one in self.contrasts if one.name == name), "not measured")

    def share(self, name: str) -> float:
        """A contrast's share of the whole's excess, 0 where there is none."""
        return next((one.share for one in self.contrasts if one.name == name and one.share is not None), 0.0)


def gather(lines: Sequence[Line], target: Target, cell: Cell) -> Evidence:
    """Judge every contrast of a target from the contrast lines of its cell."""
    cold = target.kind == "first-visit"
    lengths = {*target.flagged, *target.controls}
    lines = [line for line in lines if line["length"] in lengths]
    steps = [line for line in lines if line["variant"] == "whole"]
    # The first call of a process at a length is the whole step's in round 0; later rounds are not cold.
    whole = (
        excesses.excess(excesses.collect(steps, lambda line: [excesses.first(line)], range(1)), "whole", target)
        if cold
        else excesses.excess(excesses.collect(steps, excesses.samples), "whole", target)
    )
    if whole is None:
        return Evidence(target, cell, _missing(QUESTIONS, "no process completed it"), None, (), False, None)
    slow = _came_back(whole, target)
    judge = _Judge(lines, steps, target, cell, whole.only(slow) if slow else whole, cold)
    contrasts = [_processes(whole, slow), judge.warm(), *judge.spans(), *judge.variants()]
    parts = [one for one in contrasts if one.name.startswith("part:")]
    measured = [one.share for one in parts if one.share is not None]
    added_up = float(sum(measured)) if len(measured) == len(OPERATIONS) and slow and not cold else None
    order = list(QUESTIONS)
    contrasts.sort(key=lambda one: order.index(one.name))
    return Evidence(target, cell, tuple(contrasts), whole, slow, judge.waits, added_up)


def _came_back(whole: Excess, target: Target) -> tuple[int, ...]:
    """The processes that show the finding again, clearly above what one neighbour differs from the others."""
    noise = float(np.median(whole.noise))
    least = max(CAME_BACK * float(np.log(target.ratio)), LEAST, CLEAR * noise)
    above = np.log(whole.ratio) >= least
    return tuple(process for process, slow in zip(whole.processes, above, strict=True) if slow)


def _processes(whole: Excess, slow: Sequence[int]) -> Contrast:
    count, total = len(slow), len(whole.processes)
    outcome = "present" if count == total else "absent" if not count else "unclear"
    detail = f"{count} of {total} fresh processes show it"
    low, high = interval(whole.ratio)
    ratio = float(np.median(whole.ratio))
    ns = float(np.median(whole.ns))
    return _contrast("processes", ratio, low, high, ns, None, f"{count}/{total}", outcome, detail)


@dataclass(frozen=True)
class _Judge:
    """Holds one target's lines against the excess of its whole step, in the processes in which it came back."""

    lines: Sequence[Line]
    steps: Sequence[Line]  # those of the whole step
    target: Target
    cell: Cell
    whole: Excess
    cold: bool

    def sizes_ns(self, processes: Sequence[int]) -> Floats:
        """The whole's excess in each of these processes: disturbed ones are disturbed alike in all that they time."""
        return np.maximum(self.whole.only(processes).ns, 1.0)

    @property
    def waits(self) -> bool:
        """Whether the call returns only when its work is done, as on a CPU under torch."""
        left = [1 - excesses.steady_dispatch(line) / excesses.steady(line) for line in self.steps]
        return bool(left) and float(np.median(left)) < WAITS

    def warm(self) -> Contrast:
        """Steady samples against the finding: gone where only first calls are slow."""
        found = excesses.excess(excesses.collect(self.steps, excesses.samples), "whole", self.target)
        return self._scaled("warm", self._own(found))

    def spans(self) -> list[Contrast]:
        """Dispatch and completion, which add up to the whole."""
        if self.waits:
            return list(_missing(("dispatch", "completion"), "the call returns only when its work is done"))
        made = []
        for name in ("dispatch", "completion"):

            def spans(line: Line, name: str = name) -> list[float]:
                pairs = [line["first"]] if self.cold else zip(line["dispatch"], line["total"], strict=True)
                return [start if name == "dispatch" else end - start for start, end in pairs]

            times_ = excesses.collect(self.steps, spans, range(1) if self.cold else None)
            found = self._own(excesses.excess(times_, "whole", self.target))
            made.append(self._share(name, found))
        return made

    def variants(self) -> list[Contrast]:
        """Every variant that was measured, and those that were not."""
        if self.cold:
            return []  # only the whole step's first calls come before all others at a length
        times_ = excesses.collect(self.lines, excesses.samples)
        made = []
        for name in _variant_names():
            padded = name.startswith("padded:")
            own = "whole:manual" if self.cell.kernel == "manual" else "kernel:fused"
            found = excesses.excess(times_, name, self.target, own if padded else None)
            if found is None and name.startswith(_OTHER_CELLS):
                continue  # one of several that could have been asked for
            if name.startswith(_PROCESS_WIDE):
                made.append(self._scaled(name, found))
            elif name.startswith(("part:", "whole:", "layout:", "outputs:")) or padded or name == own:
                made.append(self._share(name, self._own(found)))
            else:
                made.append(self._scaled(name, self._own(found)))
        return made

    def _own(self, found: Excess | None) -> Excess | None:
        only = found.only(self.whole.processes) if found is not None else None  # in the order of the whole's
        return only if only is not None and only.processes else None

    def _share(self, name: str, found: Excess | None) -> Contrast:
        """By how much of the whole's excess, in ns: for what does the same work in the same units."""
        return self._judged(name, found, None if found is None else found.ns / self.sizes_ns(found.processes))

    def _scaled(self, name: str, found: Excess | None) -> Contrast:
        """By its own ratio over the whole's: for what costs something else altogether."""
        height = max(float(np.median(self.whole.ratio)) - 1, 1e-9)
        return self._judged(name, found, None if found is None else (found.ratio - 1) / height)

    def _judged(self, name: str, found: Excess | None, shares: Floats | None) -> Contrast:
        if found is None or shares is None:
            return _missing((name,), "nothing of it was measured")[0]
        held = shares >= HELD
        votes = int(held.sum())
        outcome = "unclear"
        if held.mean() >= MOST:
            outcome = "present"
        elif (~held).mean() >= MOST:
            outcome = "absent"
        low, high = interval(found.ratio)
        ratio, ns, share = (float(np.median(column)) for column in (found.ratio, found.ns, shares))
        flagged, control = (cost(float(np.median(column))) for column in (found.flagged_ns, found.control_ns))
        detail = f"{flagged} against {control}, {times(ratio)}" if control != "0 ns" else flagged
        return _contrast(name, ratio, low, high, ns, share, f"{votes}/{len(held)}", outcome, detail)


def _variant_names() -> list[str]:
    return [name for name in QUESTIONS if ":" in name]


def _missing(names: Sequence[str] | dict[str, str], why: str) -> tuple[Contrast, ...]:
    return tuple(_contrast(name, None, None, None, None, None, None, "not measured", why) for name in names)


def _contrast(
    name: str,
    ratio: float | None,
    low: float | None,
    high: float | None,
    excess_ns: float | None,
    share: float | None,
    votes: str | None,
    outcome: str,
    detail: str,
) -> Contrast:
    ratio, low, high, excess_ns, share = (
        value if value is not None and np.isfinite(value) else None for value in (ratio, low, high, excess_ns, share)
    )
    return Contrast(name, QUESTIONS[name], ratio, low, high, excess_ns, share, votes, outcome, detail)
