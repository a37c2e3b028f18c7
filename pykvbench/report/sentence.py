"""What a result says, in sentences: one for a finding, one for a verdict, one for what the run could not have seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pykvbench.analysis.finding import CellResult, Finding, Result
from pykvbench.analysis.sentences import counted
from pykvbench.geometry import Geometry
from pykvbench.report import numbers

_DEAR_KINDS = ("spike", "regime", "periodic", "comb")  # lengths that cost more than longer ones
_SCATTERED_KINDS = ("periodic", "comb")  # of which only some lengths between the first and the last are meant
_NAMED = 3  # findings named in a sentence; the rest are counted
_GROUPS = 8  # groups of lengths named in a line about events

_EVENTS = {
    "crashed": "The worker crashed",
    "hung": "The worker hung and was ended",
    "out-of-memory": "Memory ran out",
    "failed": "The step failed",
    "given-up": "The rest of a sweep was given up",
    "unavailable": "The backend was not available",
    "refused": "A file of KV was refused and the prompt computed again",
    "interrupted": "The run was interrupted",
    "resumed": "The run was resumed",
    "slept": "The machine slept",
    "clock-stepped": "The system's clock was set, on which no time here depends",
}


def geometry(shape: Geometry) -> str:
    """A geometry in words, without its dtype: `batch 1, 12 layers, 12 heads of 64`."""
    kv = f" sharing {shape.num_kv_heads} KV heads" if shape.num_kv_heads != shape.num_heads else ""
    heads = f"{counted(shape.num_heads, 'head')}{kv} of {shape.head_dim}"
    return f"batch {shape.batch}, {counted(shape.num_layers, 'layer')}, {heads}"


def span(lengths: tuple[int, int]) -> str:
    """The lengths of a finding: `421`, or `430 to 469`."""
    first, last = lengths
    return f"{first}" if first == last else f"{first} to {last}"


def finding(value: Finding) -> str:
    """One finding: kind and lengths, ratio, votes, p, confidence; then its note and its cause."""
    first, last = value.lengths
    where = f"at {first}" if first == last else f"from {first} to {last}"
    evidence = [
        numbers.ratio(value.ratio) if value.ratio is not None else "",
        f"{value.votes} sweeps" if value.votes else "",
        f"p = {numbers.p_value(value.p)}".replace("= below", "<") if value.p is not None else "",
        value.confidence,
    ]
    parts = [f"{value.kind} {where}: {', '.join(part for part in evidence if part)}", value.note]
    if value.cause:
        parts.append(f"Cause: {value.cause}")
    return " ".join(_sentence(part if part is parts[0] else part[0].upper() + part[1:]) for part in parts if part)


def limit(cell: CellResult) -> str:
    """What the run could have seen in this cell; silence means something only next to this."""
    attainable = "" if cell.smallest_p is None else f" (smallest attainable p {numbers.p_value(cell.smallest_p)})"
    if cell.limit_of_detection is None:
        return f"This run could not have confirmed an excess of any size{attainable}."
    return f"The smallest excess this run could have confirmed: {numbers.ratio(cell.limit_of_detection)}{attainable}."


def verdict(cell: CellResult) -> str:
    """One cell's verdict: its word, a colon, and what it means here."""
    wrong = [value for value in cell.findings if value.kind == "wrong-result"]
    tail = f" The result was wrong at {_and(span(value.lengths) for value in wrong)}." if wrong else ""
    return f"{cell.verdict}: {_meaning(cell)}{tail}"


def run_verdict(result: Result) -> str:
    """The verdict over all cells: the only cell's own, or the word that decides and the cells that say it."""
    if len(result.cells) == 1:
        return verdict(result.cells[0])
    if not result.cells:
        return "unresolved: nothing was measured."
    saying = [cell.cell for cell in result.cells if cell.verdict == result.verdict]
    if len(saying) == len(result.cells):
        return f"{result.verdict}: in all {len(saying)} cells."
    return f"{result.verdict}: in {len(saying)} of {len(result.cells)} cells ({'; '.join(saying)})."


def events(values: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """What went wrong while measuring, one sentence a kind of event, with its lengths grouped and its details."""
    return tuple(
        _event(what, [value for value in values if value.get("event") == name])
        for name, what in _EVENTS.items()
        if any(value.get("event") == name for value in values)
    )


def _event(what: str, values: Sequence[Mapping[str, Any]]) -> str:
    lengths = [value["length"] for value in values if isinstance(value.get("length"), int)]
    details = list(dict.fromkeys(str(value["detail"]) for value in values if value.get("detail")))
    where = f" at {_grouped(lengths)}" if lengths else ""
    times = f" ({len(values)} times)" if len(values) > 1 else ""
    lost = f" ({counted(len(lengths), 'visit')} lost)" if lengths else times
    more = f"; and {len(details) - _NAMED} more" if len(details) > _NAMED else ""
    return _sentence(f"{what}{where}{lost}" + (f": {'; '.join(details[:_NAMED])}{more}" if details else ""))


def _meaning(cell: CellResult) -> str:
    lengths = cell.curve.lengths
    if not len(lengths):
        return "nothing was measured."
    everywhere = f"{lengths[0]} to {lengths[-1]}"
    dear = [value for value in cell.findings if value.kind in _DEAR_KINDS]
    steps = [value for value in cell.findings if value.kind == "step"]
    if cell.verdict == "smooth":
        beyond = "" if cell.limit_of_detection is None else f" beyond {numbers.ratio(cell.limit_of_detection)}"
        return f"no length from {everywhere} costs more than a longer one{beyond}."
    if cell.verdict == "non-monotonic":
        confirmed = [value for value in dear if value.confidence == "confirmed"] or dear
        falls = [value for value in steps if (value.ratio or 1.0) < 1]
        if confirmed:
            return f"{_named(confirmed)} {_verb(confirmed, 'cost')} more than longer lengths do."
        if falls:
            return f"the cost falls at {_named(falls)} and stays down, so shorter lengths cost more than longer ones."
        return f"some lengths from {everywhere} cost more than longer ones."
    if cell.verdict == "state":
        return "the cost depends on when it was measured or on what ran before, and not on the length alone."
    if dear:
        return f"{_named(dear)} {_verb(dear, 'stand')} out, and this run cannot confirm that it is the length."
    if steps:
        return (
            f"the cost steps at {_named(steps)}, and a longer range must tell a step from the start of a slow stretch."
        )
    some = [value for value in cell.findings if value.kind == "intermittent"]
    if some:
        return f"{_named(some)} {_verb(some, 'cost')} more in some processes only."
    return f"this run cannot tell whether a length from {everywhere} costs more than a longer one."


def _named(values: Sequence[Finding]) -> str:
    """The largest few of some findings, by length: `421 (21.3x) and 430 to 469 (1.40x)`."""
    largest = sorted(values, key=lambda value: -(value.ratio or 0.0))[:_NAMED]
    names = [
        ("some of " if value.kind in _SCATTERED_KINDS else "")
        + (str(value.lengths[1]) if value.kind == "step" else span(value.lengths))
        + (f" ({numbers.ratio(value.ratio)})" if value.ratio is not None else "")
        for value in sorted(largest, key=lambda value: value.lengths)
    ]
    if len(values) > _NAMED:
        names.append(f"{len(values) - _NAMED} more")
    return _and(names)


def _verb(values: Sequence[Finding], plural: str) -> str:
    one = len(values) == 1 and values[0].lengths[0] == values[0].lengths[1]
    return f"{plural}s" if one else plural


def _and(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _grouped(lengths: Iterable[int]) -> str:
    """Lengths with neighbours joined: `421, 430 to 433`."""
    groups: list[tuple[int, int]] = []
    for length in sorted(set(lengths)):
        if groups and length == groups[-1][1] + 1:
            groups[-1] = (groups[-1][0], length)
        else:
            groups.append((length, length))
    more = f" and {len(groups) - _GROUPS} more" if len(groups) > _GROUPS else ""
    return ", ".join(span(group) for group in groups[:_GROUPS]) + more


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
