"""What a self test comes to: what was found of what was injected, what of nothing, and whether that will do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from pykvbench.analysis.attribution import Attribution, attributions
from pykvbench.analysis.finding import CellResult, Finding
from pykvbench.analysis.verdict import BLIND, analyze_run
from pykvbench.record import Run

LEFT = 0.25  # share of a step that may be left to wait for after its sync; reading a result varies by some of it
LEAST_LEFT_NS = 20_000.0
GRAIN = 0.01  # share of a step that the clock's steps may be
LEAST, MOST = 1 / 1.4, 3.0
"""Found over injected ratio. More than was injected is what other programs do: they interrupt a long step more often
than a short one, so that 21x became 50x on two cores with seven programs."""
CAUSES = {
    "append": "append",
    "qk": "QK^T",
    "softmax": "softmax",
    "pv": "PV",
    "host": "dispatch",
    "device": "completion",
}


class Device(Protocol):
    """What was measured of the device before any run, in ns; see experiment/fitness.py."""

    @property
    def dispatch_ns(self) -> float: ...

    @property
    def step_ns(self) -> float: ...

    @property
    def left_ns(self) -> float: ...

    @property
    def resolution_ns(self) -> float: ...

    @property
    def monotonic(self) -> bool: ...


@dataclass(frozen=True)
class Injected:
    """Extra work that made the step at `length` cost `ratio` times as much; `place` is host, device or an operation."""

    length: int
    ratio: float
    place: str


@dataclass(frozen=True)
class Control:
    """An injection and what became of it.

    `visible` says whether it is above the run's limit of detection, `found` is the ratio that was confirmed there,
    `cause` what it was attributed to, None where that was not tried or nothing singled out, and `right` whether that
    is where it was.
    """

    injected: Injected
    visible: bool
    found: float | None
    votes: str | None
    attributed: bool
    cause: str | None
    right: bool | None

    @property
    def ok(self) -> bool:
        """Found with about its size if it could be, and not attributed to anything else."""
        if self.found is None:
            return not self.visible
        return self.sized and self.right is not False

    @property
    def sized(self) -> bool:
        """Whether the ratio that was found is about the one injected."""
        return self.found is not None and LEAST <= self.found / self.injected.ratio <= MOST


@dataclass(frozen=True)
class SelfTest:
    """The verdict on the instrument: `complaints` say why it is not fit, each with advice; none: it is."""

    cell: str
    limit_of_detection: float | None
    smallest_p: float | None
    step_ns: float
    left_ns: float
    resolution_ns: float
    others: int  # lengths at which nothing was injected
    controls: tuple[Control, ...]
    false_alarms: tuple[Finding, ...]
    complaints: tuple[str, ...]

    @property
    def fit(self) -> bool:
        """Whether findings of this machine can be believed, and silence too."""
        return not self.complaints

    def to_json(self) -> dict[str, Any]:
        """The document of `selftest --json`."""
        return {
            "schema": 1,
            "cell": self.cell,
            "fit": self.fit,
            "limit_of_detection": self.limit_of_detection,
            "smallest_p": self.smallest_p,
            "step_ns": self.step_ns,
            "left_after_sync_ns": self.left_ns,
            "clock_resolution_ns": self.resolution_ns,
            "lengths_without_injection": self.others,
            "controls": [{**asdict(control), "ok": control.ok} for control in self.controls],
            "false_alarms": [finding.to_json() for finding in self.false_alarms],
            "complaints": list(self.complaints),
        }


def judge(device: Device, run: Run, injected: Sequence[Injected]) -> SelfTest:
    """Judge the run of a self test: what was injected must be found, and nothing at the other lengths."""
    cell = analyze_run(run).cells[0]
    limit = cell.limit_of_detection
    waits = device.dispatch_ns > 0.9 * device.step_ns  # the call itself computes, so device work is in dispatch
    found, rising = attributions(run), sorted(injected, key=lambda one: one.length)
    controls = tuple(_control(one, cell, found, waits) for one in rising)
    lengths = {one.length for one in injected}
    alarms = tuple(
        finding
        for finding in cell.findings
        if finding.kind not in ("first-visit", "memory-growth") and not lengths & set(range(*_span(finding)))
    )
    median_ns = float(np.nanmedian(cell.curve.median_ns)) if len(cell.curve.median_ns) else math.nan
    return SelfTest(
        cell=cell.cell,
        limit_of_detection=limit,
        smallest_p=cell.smallest_p,
        step_ns=median_ns,
        left_ns=device.left_ns,
        resolution_ns=device.resolution_ns,
        others=len(cell.curve.lengths) - len(lengths),
        controls=controls,
        false_alarms=alarms,
        complaints=(*_device(device, median_ns), *_noise(limit), *_alarms(alarms), *_controls(controls)),
    )


def _span(finding: Finding) -> tuple[int, int]:
    return finding.lengths[0], finding.lengths[1] + 1


def _control(injected: Injected, cell: CellResult, found: Sequence[Attribution], waits: bool) -> Control:
    limit = cell.limit_of_detection
    finding = next(
        (
            one
            for one in cell.findings
            if one.confidence == "confirmed"
            and one.lengths == (injected.length, injected.length)
            and one.kind == "spike"
        ),
        None,
    )
    attributed = next((one for one in found if one.lengths == (injected.length, injected.length)), None)
    cause = attributed.cause if attributed is not None else None
    return Control(
        injected=injected,
        visible=limit is not None and injected.ratio > limit,
        found=None if finding is None else finding.ratio,
        votes=None if finding is None else finding.votes,
        attributed=attributed is not None,
        cause=cause,
        right=None if cause is None else cause.startswith(_expected(injected.place, waits)),
    )


def _expected(place: str, waits: bool) -> tuple[str, ...]:
    """How the right cause begins. Where the call itself computes, host and device are one."""
    return ("dispatch", "completion") if waits and place in ("host", "device") else (CAUSES[place],)


def _device(device: Device, median_ns: float) -> list[str]:
    found = []
    if device.left_ns > max(LEFT * device.step_ns, LEAST_LEFT_NS):
        found.append(
            f"The sync does not wait: after it, a result took {device.left_ns / 1e3:.0f} us longer to read than a "
            f"second time, next to a step of {device.step_ns / 1e3:.0f} us. Do not use times of this backend; update "
            "its framework, and report this to its maintainers."
        )
    if not device.monotonic:
        found.append("The clock ran backwards. Do not measure on this machine.")
    if device.resolution_ns > GRAIN * median_ns:
        found.append(
            f"The clock is too coarse: it moves in steps of {device.resolution_ns:.0f} ns, and a decode step takes "
            f"{median_ns:.0f} ns. Measure longer lengths or more layers (--num-layers)."
        )
    return found


def _noise(limit: float | None) -> list[str]:
    if limit is not None and limit <= BLIND:
        return []
    size = "an excess of any size" if limit is None else f"an excess below {limit:.2f}x"
    return [
        f"Too noisy: {size} could not have been confirmed. Close other programs, connect mains power, let the machine "
        "cool down, and try again; more --sweeps help too."
    ]


def _alarms(alarms: Sequence[Finding]) -> list[str]:
    if not alarms:
        return []
    first = alarms[0]
    where = " to ".join(str(length) for length in dict.fromkeys(first.lengths))
    more = f" and {len(alarms) - 1} more" if alarms[1:] else ""
    return [
        f"Found without anything injected: {first.kind} at {where}{more}. "
        "Either others disturb the machine, or this backend is slow there: run pykvbench attn over these lengths twice."
    ]


def _controls(controls: Sequence[Control]) -> list[str]:
    found = []
    for one in controls:
        what = f"{one.injected.ratio:g}x injected at {one.injected.length} ({one.injected.place})"
        if one.found is None and one.visible:
            found.append(f"Missed: {what}. Close other programs and try again.")
        elif one.found is not None and not one.sized:
            found.append(f"Wrong size: {what}, found as {one.found:.2f}x. Close other programs and try again.")
        if one.right is False:
            found.append(f"Wrong cause: {what}, attributed to {one.cause}. Close other programs and try again.")
    return found
