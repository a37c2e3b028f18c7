"""The page that `selftest` prints."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from pykvbench.analysis.selftest import Control, SelfTest
from pykvbench.report import numbers


def render(result: SelfTest, width: int = 80) -> str:
    """Controls, limit of detection and verdict, no line of prose wider than `width`."""
    return "\n".join(_lines(result, max(60, width))) + "\n"


def _lines(result: SelfTest, width: int) -> Iterator[str]:
    yield f"{result.cell}: step {numbers.duration(result.step_ns)}, clock in steps of {result.resolution_ns:.0f} ns"
    yield f"Left to wait for after a sync: {numbers.duration(result.left_ns)}"
    yield ""
    yield "injected          where     found    sweeps  attributed to"
    for control in result.controls:
        yield _row(control)
    alarms = len(result.false_alarms)
    yield f"nothing at {f'{result.others} others':<17}   {'nothing' if not alarms else f'{alarms} found'}"
    yield ""
    limit = "none" if result.limit_of_detection is None else numbers.ratio(result.limit_of_detection)
    yield f"Limit of detection here: {limit} (smallest attainable p {numbers.p_value(result.smallest_p)})"
    for complaint in result.complaints:
        yield from textwrap.wrap(complaint, width, subsequent_indent="  ", break_on_hyphens=False)
    yield f"Verdict: {'fit' if result.fit else 'not fit'}"


def _row(control: Control) -> str:
    one = control.injected
    found = numbers.ratio(control.found) if control.found is not None else ("missed" if control.visible else "below")
    cause = control.cause or ("unexplained" if control.attributed else "")
    mark = "" if control.ok else "  <- not as injected"
    row = f"{f'{one.ratio:g}x at {one.length}':<17} {one.place:<9} {found:<8} {control.votes or '-':<7} {cause}"
    return f"{row.rstrip()}{mark}"
