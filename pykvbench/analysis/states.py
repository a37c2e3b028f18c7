"""Why some trajectories are slow at lengths where others are not: their budget, the time of measurement, the process.

The same length at two costs is no cost of that length. Which trajectories are slow is held against their budgets and
against their order of measurement, by exact counts (`exchange`). Where budgets were run in ascending order the two are
one variable, and nothing can tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pykvbench.analysis.changes import Change
from pykvbench.analysis.contains import Contained, contains
from pykvbench.analysis.exchange import budget_chance, repeats_needed, smallest_budget_p, time_chance
from pykvbench.analysis.finding import Finding, Floats
from pykvbench.analysis.fleet import Fleet
from pykvbench.analysis.sentences import times
from pykvbench.analysis.votes import MIN_SWEEPS, Bools

ALPHA = 0.01
MARGIN = 2.5  # spreads above the threshold at which 5 of 5 repeats are slow in 97 % of runs
SHARE = 0.1  # of trajectories: slow ones that follow nothing are worth a finding from here on, else a note

CONFOUNDED = (
    "Budget and time of measurement cannot be told apart: the budgets were run in ascending order; run them shuffled "
    "(the default)."
)


@dataclass(frozen=True)
class Account:
    """What slow trajectories are put down to."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    smallest_p: float | None  # if one budget's repeats were all slow; None below 3 repeats or 2 budgets
    limit: float | None  # smallest slowness of one budget that would have been confirmed; None when none would


def account_for(fleet: Fleet, totals_ns: Floats, changes: list[Change], places: list[str], shared: bool) -> Account:
    """Explain the slow trajectories of one cell.

    totals_ns: [T] in the fleet's order, NaN for a trajectory that died; places: a few words for each change; shared:
    all ran in one process.
    """
    slow = fleet.slow
    best, needed = _power(fleet)
    able = best is not None and best <= ALPHA
    notes: tuple[str, ...] = () if able else (needed,)
    by_budget, by_time = budget_chance(slow, fleet.group), time_chance(slow)
    proof = _contained(fleet, totals_ns)
    inside = _inside(changes, places)
    findings: list[Finding]
    if able and fleet.ordered and min(by_budget, by_time) <= ALPHA:
        findings = [
            _apparent(fleet, span, f"{_first(proof[span[0]])}{CONFOUNDED}{inside}")
            for span in fleet.slow_spans() or [_everywhere(fleet)]
        ]
    elif able and by_budget <= ALPHA and by_budget <= by_time:
        findings = list(_budget_findings(fleet, proof, by_budget, inside))
    elif able and by_time <= ALPHA:
        findings = [_time_finding(fleet, by_time, inside, shared)]
    else:
        findings = _unexplained(fleet, proof, able, inside, changes)
        if not findings and (slow.any() or changes):
            notes += (_lone(fleet, slow, inside),)
    limit = float(np.exp(fleet.threshold + MARGIN * fleet.spread)) if able else None
    return Account(tuple(findings), notes, best, limit)


def _power(fleet: Fleet) -> tuple[float | None, str]:
    """What one slow budget could have reached, and the sentence for when that is not enough."""
    groups = int(fleet.group.max()) + 1
    if groups < 2:
        return None, "cannot tell: one budget cannot part length from budget; give several, as in --budget 128:768:128."
    best = smallest_budget_p(fleet.group) if fleet.repeats >= MIN_SWEEPS else None
    needed = repeats_needed(groups, ALPHA) or MIN_SWEEPS
    have = f"{fleet.repeats} repeat" + ("s" if fleet.repeats != 1 else "")
    return best, (
        f"cannot tell, needs {max(needed, fleet.repeats + 1)} or more repeats of each budget: with {have} slow ones "
        "agree by chance too easily."
    )


def _contained(fleet: Fleet, totals_ns: Floats) -> dict[int, Contained | None]:
    """The contains test after each prompt."""
    least = float(np.exp(fleet.threshold))
    return {
        prompt: contains(fleet.budget[fleet.prompt == prompt], totals_ns[fleet.prompt == prompt], least)
        for prompt in np.unique(fleet.prompt).tolist()
    }


def _budget_findings(fleet: Fleet, proof: dict[int, Contained | None], p: float, inside: str) -> Iterable[Finding]:
    prompts = np.unique(fleet.prompt).tolist()
    spans: dict[tuple[int, int], list[int]] = {}
    for prompt, first, last in fleet.slow_spans():
        spans.setdefault((first, last), []).append(prompt)
    for number, ((first, last), where) in enumerate(sorted(spans.items())):
        rows = (fleet.budget >= first) & (fleet.budget <= last) & np.isin(fleet.prompt, where)
        ratio, votes = float(np.exp(np.median(fleet.excess[rows]))), _votes(fleet, rows)
        after = "" if len(prompts) == 1 else f"with {_prompts(where)} "
        what = f"budget {first} costs" if first == last else f"budgets {first} to {last} cost"
        found = next((c for c in (proof[prompt] for prompt in where) if c and first <= c.smaller <= last), None)
        why = found.sentence() if found else "the same steps at two costs are not a per-length cost"
        note = (
            f"{after}{what} {times(ratio)} what the same lengths cost in the other budgets, in "
            f"{votes.replace('/', ' of ')} repeats: {why}."
        )
        yield Finding("state", (first, last), ratio, votes, p, "confirmed", note + (inside if number == 0 else ""))


def _time_finding(fleet: Fleet, p: float, inside: str, shared: bool) -> Finding:
    slow = fleet.slow
    ratio = float(np.exp(np.median(fleet.excess[slow])))
    begin, end = float(fleet.time_ns[slow].min()) / 1e9, float(fleet.time_ns[slow].max()) / 1e9
    note = (
        f"{int(slow.sum())} of {len(slow)} trajectories, in few stretches of time from {begin:.0f} s to {end:.0f} s "
        f"into the run, cost {times(ratio)} the others at the same lengths, whatever their budget: the cost follows "
        "the time of measurement, not the length and not the budget."
    )
    if shared:
        note += " All ran in one process, so time may be the process's history; run --history fresh to tell."
    lengths = (int(fleet.budget[slow].min()), int(fleet.budget[slow].max()))
    return Finding("state", lengths, ratio, f"{int(slow.sum())}/{len(slow)}", p, "confirmed", note + inside)


def _unexplained(
    fleet: Fleet, proof: dict[int, Contained | None], able: bool, inside: str, changes: list[Change]
) -> list[Finding]:
    """Slow trajectories that follow neither budget nor time: processes that differ, or a run too small to tell."""
    slow = fleet.slow
    if not able:
        spans = [span for span in fleet.slow_spans() if proof[span[0]] is not None]
        return [_apparent(fleet, span, _first(proof[span[0]]).strip()) for span in spans]
    share = int(slow.sum())
    if share >= max(2, SHARE * len(slow)):
        ratio = float(np.exp(np.median(fleet.excess[slow])))
        note = (
            f"{share} of {len(slow)} trajectories cost {times(ratio)} the others at the same lengths and follow "
            "neither budget nor time: a state that a process falls into, or a busy machine; not a per-length cost."
        )
        _, first, last = _everywhere(fleet)
        return [Finding("unstable", (first, last), ratio, f"{share}/{len(slow)}", None, "apparent", note + inside)]
    if len(changes) >= max(2, SHARE * len(slow)):
        ratio = float(np.median([change.ratio for change in changes]))
        return [_apparent(fleet, _everywhere(fleet), inside.strip(), ratio)]
    return []


def _apparent(fleet: Fleet, span: tuple[int, int, int], note: str, ratio: float | None = None) -> Finding:
    prompt, first, last = span
    rows = (fleet.budget >= first) & (fleet.budget <= last) & (fleet.prompt == prompt)
    picked = fleet.excess[rows & fleet.slow] if (rows & fleet.slow).any() else fleet.excess[rows]
    ratio = float(np.exp(np.median(picked))) if ratio is None else ratio
    return Finding("state", (first, last), ratio, _votes(fleet, rows), None, "apparent", note)


def _lone(fleet: Fleet, slow: Bools, inside: str) -> str:
    if not slow.any():
        return inside.strip()
    worst = int(np.argmax(fleet.excess))
    return (
        f"{int(slow.sum())} of {len(slow)} trajectories cost more than the others at the same lengths, the worst "
        f"{times(float(np.exp(fleet.excess[worst])))} (budget {fleet.budget[worst]}, repeat {fleet.repeat[worst]}): "
        f"too few, or too few repeats, to follow anything.{inside}"
    )


def _inside(changes: list[Change], places: list[str]) -> str:
    """A sentence about cost that jumps inside a trajectory; empty when none does."""
    if not changes:
        return ""
    largest = max(range(len(changes)), key=lambda i: changes[i].ratio)
    some = "one trajectory" if len(changes) == 1 else f"{len(changes)} trajectories"
    return (
        f" In {some} the cost jumps on the way and stays while others at the same lengths do not"
        f"{', such as' if len(changes) > 1 else ':'} {places[largest]}, to {times(changes[largest].ratio)}."
    )


def _votes(fleet: Fleet, rows: Bools) -> str:
    """Median over budgets of slow repeats and of repeats, as 5/5."""
    groups = np.unique(fleet.group[rows])
    cast = [int(fleet.slow[fleet.group == g].sum()) for g in groups]
    return f"{int(np.median(cast))}/{int(np.median([int((fleet.group == g).sum()) for g in groups]))}"


def _first(proof: Contained | None) -> str:
    return f"{proof.sentence()}. " if proof else ""


def _everywhere(fleet: Fleet) -> tuple[int, int, int]:
    return int(fleet.prompt[0]), int(fleet.budget.min()), int(fleet.budget.max())


def _prompts(prompts: list[int]) -> str:
    if len(prompts) == 1:
        return f"prompt {prompts[0]}"
    return f"prompts {', '.join(map(str, prompts[:-1]))} and {prompts[-1]}"
