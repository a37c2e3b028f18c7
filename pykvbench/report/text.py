"""The result on a terminal: for each cell a picture of its curve, its findings, its limit and its verdict."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pykvbench.analysis.finding import CellResult, Curve, Finding, Result
from pykvbench.analysis.sentences import counted
from pykvbench.report import numbers, picture, sentence

_SHOWN = 20  # findings a cell; more would scroll the verdict's reasons away
_BOLD, _DIM, _RED, _YELLOW, _GREEN, _PLAIN = "\033[1m", "\033[2m", "\033[31m", "\033[33m", "\033[32m", "\033[0m"
_VERDICTS = {"smooth": _GREEN, "unresolved": _YELLOW, "state": _YELLOW, "non-monotonic": _RED}


def render(result: Result, *, header: Sequence[str] = (), width: int = 80, colour: bool = False) -> str:
    """The whole result as text that ends in a newline, no line wider than `width` (40 at least).

    `header` states what was measured and how. Colour (ANSI) only when asked.
    """
    page = _Page(max(40, width), colour)
    for line in header:
        page.paragraph(line)
    for cell in result.cells:
        page.gap()
        _cell(page, cell)
    if result.notes:
        page.gap()
    for note in result.notes:
        page.paragraph(f"Note: {note}", hang=2)
    page.gap()
    style = _BOLD + _VERDICTS[result.verdict]
    styled = len(f"Verdict: {result.verdict}")
    page.paragraph(f"Verdict: {sentence.run_verdict(result)}", hang=2, style=style, styled=styled)
    if len(result.cells) > 1:
        for cell in result.cells:
            page.paragraph(f"{cell.cell}: {sentence.verdict(cell)}", indent=2, hang=2)
    return page.text()


def render_events(events: Sequence[Mapping[str, Any]], *, width: int = 80) -> str:
    """What went wrong while measuring, a line a kind of event, from `Run.events`; empty when nothing did."""
    page = _Page(max(40, width), colour=False)
    for line in sentence.events(events):
        page.paragraph(line, hang=2)
    return page.text()


class _Page:
    """Lines so far; wraps first and colours after, so that escape sequences never count as width."""

    def __init__(self, width: int, colour: bool) -> None:
        self.width = width
        self._colour = colour
        self._lines: list[str] = []

    def paragraph(
        self, text: str, *, indent: int = 0, hang: int = 0, style: str = "", styled: int | None = None
    ) -> None:
        """Add a wrapped paragraph; `style` colours the first `styled` characters of it, or its whole first line."""
        lines = textwrap.wrap(
            text,
            self.width,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + hang),
            break_on_hyphens=False,
        )
        if style and self._colour and lines:
            end = len(lines[0]) if styled is None else indent + styled
            lines[0] = " " * indent + style + lines[0][indent:end] + _PLAIN + lines[0][end:]
        self._lines.extend(lines)

    def raw(self, line: str, style: str = "") -> None:
        """Add a line as it is."""
        self._lines.append(style + line + _PLAIN if style and self._colour and line else line)

    def gap(self) -> None:
        """One empty line between blocks, none at the top."""
        if self._lines and self._lines[-1]:
            self._lines.append("")

    def text(self) -> str:
        """Everything, ending in a newline."""
        return "".join(f"{line}\n" for line in self._lines)


def _cell(page: _Page, cell: CellResult) -> None:
    page.paragraph(_title(cell), hang=2, style=_BOLD)
    for line in picture.draw(cell.curve, cell.findings, page.width):
        page.raw(line, _RED if line.strip() and not line.strip(" ^") else "")
    first = _first_calls(cell.curve)
    if first:
        page.paragraph(first, hang=2)
    shown = _most_telling(cell.findings)
    for finding in shown:
        style = _RED if finding.confidence == "confirmed" else _YELLOW
        text = sentence.finding(finding)
        page.paragraph(text, hang=2, style=style, styled=text.index(":"))
    if len(shown) < len(cell.findings):
        page.paragraph(f"And {len(cell.findings) - len(shown)} findings more; --json lists all.", hang=2)
    for note in cell.notes:
        page.paragraph(f"Note: {note.removeprefix(f'{cell.cell}: ')}", hang=2)
    page.paragraph(sentence.limit(cell), hang=2, style=_DIM)


def _title(cell: CellResult) -> str:
    sweeps, count = cell.curve.sweeps_ns.shape
    if not count:
        return f"{cell.cell}: no {cell.axis}s measured"
    ends = f"{cell.curve.lengths[0]} to {cell.curve.lengths[-1]}"
    missing = int(np.isnan(cell.curve.sweeps_ns).sum())
    lost = f", {counted(missing, 'visit')} missing" if missing else ""
    return f"{cell.cell}: {counted(count, cell.axis)} from {ends}, {counted(sweeps, 'sweep')}{lost}"


def _first_calls(curve: Curve) -> str:
    """What a first call costs against a steady one; nothing for a table, which has none."""
    if curve.first_ns is None or not np.isfinite(curve.first_ns / curve.median_ns).any():
        return ""
    first = float(np.nanmedian(curve.first_ns))
    times = float(np.nanmedian(curve.first_ns / curve.median_ns))
    return f"First call at a length: {numbers.duration(first)} at the median, {numbers.ratio(times)} a steady one."


def _most_telling(findings: tuple[Finding, ...]) -> list[Finding]:
    """At most _SHOWN findings: wrong results first, then confirmed ones, then the largest; in their own order."""
    rank = sorted(
        range(len(findings)),
        key=lambda i: (
            findings[i].kind != "wrong-result",
            findings[i].confidence != "confirmed",
            -(findings[i].ratio or 0.0),
        ),
    )
    return [findings[i] for i in sorted(rank[:_SHOWN])]
