"""Comparisons as text for a terminal, as markdown to paste, and as one JSON document."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from pykvbench.analysis.comparison import Comparison, Side
from pykvbench.analysis.crossover import Crossover
from pykvbench.analysis.pairs import Report
from pykvbench.analysis.resample import Interval
from pykvbench.analysis.side_by_side import Contrast
from pykvbench.report import numbers, sentence

_SHOWN = 12  # findings of a pair; --json lists all
_MISSING = {
    "absent": "and not in",
    "unseen": "; it could not have been seen in",
    "unmeasured": "; these lengths were not measured in",
}


def text(report: Report, width: int = 80) -> str:
    """All comparisons for a terminal, ending in a newline; no line of prose wider than `width`."""
    blocks = []
    for comparison in report.comparisons:
        lines = [f"{comparison.second.name} against {comparison.first.name}"]
        lines += [f"  {line}" for line in _lined(table(comparison))]
        lines += [_wrapped(line, width) for line in _details(comparison)]
        lines.append(_wrapped(verdict(comparison), width))
        blocks.append("\n".join(lines))
    if report.history:
        blocks.append("\n".join(["Findings by run", *(f"  {line}" for line in _lined(_history(report)))]))
    if report.notes:
        blocks.append("\n".join(_wrapped(f"Note: {note}", width) for note in report.notes))
    return "\n\n".join(blocks) + "\n"


def markdown(report: Report) -> str:
    """The same to paste into an issue."""
    blocks = []
    for comparison in report.comparisons:
        blocks.append(f"### {comparison.second.name} against {comparison.first.name}")
        blocks.append(f"**{verdict(comparison)}**")
        blocks.append(_pipes(table(comparison)))
        blocks.append("\n".join(f"- {line}" for line in _details(comparison)))
    if report.history:
        blocks += ["### Findings by run", _pipes(_history(report))]
    if report.notes:
        blocks.append("\n".join(f"- Note: {note}" for note in report.notes))
    return "\n\n".join(block for block in blocks if block) + "\n"


def to_json(report: Report) -> dict[str, Any]:
    """The document of `compare --json`, schema 1; ratios are of second to first."""
    return {
        "schema": 1,
        "comparisons": [_comparison(comparison) for comparison in report.comparisons],
        "runs": list(report.runs),
        "history": [row.to_json() for row in report.history],
        "notes": list(report.notes),
    }


def verdict(comparison: Comparison) -> str:
    """The verdict and its reason, as a sentence about the second."""
    if comparison.overall is None or comparison.reason.startswith("it depends"):
        return f"{comparison.verdict}: {comparison.reason}"
    return f"{comparison.verdict}: {comparison.second.name} takes {comparison.reason}"


def headline(contrast: Contrast, comparison: Comparison) -> str:
    """One finding and which of the two has it."""
    found, first, second = contrast.finding, comparison.first.name, comparison.second.name
    size = f" ({numbers.ratio(found.ratio)})" if found.ratio is not None else ""
    what = f"{found.kind} at {sentence.span(found.lengths)}"
    if not contrast.missing:
        assert contrast.first is not None and contrast.second is not None
        both = [numbers.ratio(one.ratio) for one in (contrast.first, contrast.second)]
        return f"{what} in both ({both[0]} and {both[1]})."
    has, lacks = (first, second) if contrast.first is not None else (second, first)
    return f"{what}{size} in {has}{'' if contrast.missing != 'absent' else ' '}{_MISSING[contrast.missing]} {lacks}."


def crossing(value: Crossover, comparison: Comparison) -> str:
    """Where the curves cross."""
    return (
        f"Crossover at length {value.length} ({value.low} to {value.high}): from there on {comparison.second.name} is "
        f"the {value.second_becomes} one."
    )


def span(ratio: Interval) -> str:
    """A ratio with its interval: `1.02x (0.99x to 1.05x)`."""
    return f"{ratio.value:.2f}x ({ratio.low:.2f}x to {ratio.high:.2f}x)"


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Time, bandwidth and ratio by stretch of lengths, the whole range last; the first row is the head."""
    unit = numbers.unit_for([*comparison.first.median_ns.tolist(), *comparison.second.median_ns.tolist()])
    rows: list[tuple[str, ...]] = [("lengths", "first", "second", "K, V first", "K, V second", "ratio", "verdict")]
    spans = [(part.first, part.last, part.ratio, part.verdict) for part in comparison.stretches]
    ends = (int(comparison.lengths[0]), int(comparison.lengths[-1]))
    if len(spans) != 1 or comparison.overall is None:
        nothing = Interval(float(np.median(comparison.ratio)), float("nan"), float("nan"))
        spans.append((*ends, comparison.overall or nothing, comparison.verdict))
    for first, last, ratio, word in spans:
        here = (comparison.lengths >= first) & (comparison.lengths <= last)
        sides = (comparison.first, comparison.second)
        times = [numbers.duration(float(np.nanmedian(side.median_ns[here])), unit) for side in sides]
        known = [side.rates[here][np.isfinite(side.rates[here])] for side in sides]
        rates = [numbers.bandwidth(float(np.median(values)) if len(values) else np.nan, 1e9) for values in known]
        shown = span(ratio) if np.isfinite(ratio.low) else f"{ratio.value:.2f}x"
        rows.append((sentence.span((first, last)), *times, *rates, shown, word))
    return rows


def _details(comparison: Comparison) -> list[str]:
    lines = [crossing(value, comparison) for value in comparison.crossovers]
    told = sorted(comparison.contrasts, key=lambda c: (not c.is_headline, -(c.finding.ratio or 0)))
    lines += [_upper(headline(contrast, comparison)) for contrast in told[:_SHOWN]]
    if len(told) > _SHOWN:
        lines.append(f"And {len(told) - _SHOWN} findings more; --json lists all.")
    sides = (("First", comparison.first), ("Second", comparison.second))
    lines += [f"{which}, bandwidth: {line}" for which, side in sides if (line := _ceiling(side))]
    lines += [f"{which}, memory: {line}" for which, side in sides if (line := _memory(side))]
    lines += [f"Differs: {one.key}: {_plain(one.first)} and {_plain(one.second)}." for one in comparison.differences]
    return lines + [f"Note: {note}" for note in comparison.notes]


def _ceiling(side: Side) -> str:
    if side.ceiling is None:
        return ""
    rate, top = float(np.nanmedian(side.rates)), side.ceiling
    shares = [
        f"{rate / ceiling:.0%} of the {numbers.bandwidth(ceiling, 1e9)} that a copy or sum of "
        f"{numbers.byte_count(size)} reaches"
        for ceiling, size in ((top.working_set, top.working_set_bytes), (top.memory, top.memory_bytes))
    ]
    return f"{numbers.bandwidth(rate, 1e9)} of K and V, {shares[0]} (as large as the caches are) and {shares[1]}."


def _memory(side: Side) -> str:
    known = [f"{name} {numbers.byte_count(count)}" for name, count in side.memory.items()]
    return f"{', '.join(known)} at most." if known else ""


def _history(report: Report) -> list[tuple[str, ...]]:
    several = len({row.cell for row in report.history}) > 1
    head = ("finding", *(("cell",) if several else ()), *report.runs)
    rows = [
        (f"{row.kind} {sentence.span(row.lengths)}", *((row.cell,) if several else ()), *row.entries)
        for row in report.history
    ]
    return [head, *rows]


def _comparison(comparison: Comparison) -> dict[str, Any]:
    columns = (comparison.lengths, comparison.ratio, comparison.low, comparison.high)
    return {
        "first": _side(comparison.first),
        "second": _side(comparison.second),
        "paired": comparison.paired,
        "sweeps": comparison.sweeps,
        "verdict": comparison.verdict,
        "reason": comparison.reason,
        "ratio": comparison.overall.to_json() if comparison.overall else None,
        "stretches": [part.to_json() for part in comparison.stretches],
        "crossovers": [value.to_json() for value in comparison.crossovers],
        "findings": [contrast.to_json() for contrast in comparison.contrasts],
        "differences": [difference.to_json() for difference in comparison.differences],
        "curve": [
            {"length": int(length), "ratio": float(ratio), "low": _known(low), "high": _known(high)}
            for length, ratio, low, high in zip(*columns)
        ],
        "notes": list(comparison.notes),
    }


def _side(side: Side) -> dict[str, Any]:
    return {
        "name": side.name,
        "median_ns": [_known(value) for value in side.median_ns],
        "kv_bytes_per_s": [_known(value) for value in side.rates],
        "ceiling": side.ceiling.to_json() if side.ceiling else None,
        "memory": side.memory,
    }


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _lined(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def _pipes(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def _wrapped(line: str, width: int) -> str:
    return textwrap.fill(line, max(40, width), subsequent_indent="  ", break_on_hyphens=False)


def _plain(value: Any) -> str:
    return "not set" if value is None else str(value)


def _upper(line: str) -> str:
    return line[0].upper() + line[1:]
