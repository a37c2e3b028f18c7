"""Costs that belong to a length: slow in every trajectory that reaches it, whatever its budget and its process.

Trajectories vote as sweeps do in `spikes`, on steps from which their trajectory's own level, its slow stretches, and
its cold first steps have been taken out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from pykvbench.analysis import spikes
from pykvbench.analysis.arms import Arm
from pykvbench.analysis.changes import Change, without_changes
from pykvbench.analysis.decomposition import COLD, Decomposition
from pykvbench.analysis.finding import Detection, Finding, Floats, Ints
from pykvbench.analysis.firsts import MIN_RATIO
from pykvbench.analysis.levels import median_over_sweeps
from pykvbench.analysis.sentences import times
from pykvbench.analysis.votes import MIN_SWEEPS

KINDS = frozenset({"spike", "regime", "comb", "periodic", "step"})
CHANCE = 0.001  # of stalls meeting at some length of a run
GROWTH = 256  # tokens by which a chunked cache grows, and a spacing at which allocators take a new block


@dataclass(frozen=True)
class Effects:
    """What one arm says about lengths; `curve_ns` and `baseline_ns` run over the arm's lengths."""

    findings: tuple[Finding, ...]
    curve_ns: Floats
    baseline_ns: Floats
    limit: float | None
    smallest_p: float | None


def length_effects(arm: Arm, parts: Decomposition, changes: list[Change], stateful: bool, min_ratio: float) -> Effects:
    """Judge every length of an arm; `stateful` says that some budgets are slow, which may look intermittent here."""
    rest = without_changes(parts, changes)
    level = np.nan_to_num(median_over_sweeps(rest.T))
    clean = parts.curve + rest - level[:, None]
    found = spikes.detect(arm.lengths, np.exp(clean), min_ratio=min_ratio)
    kept = [finding for finding in found.findings if finding.kind in KINDS]
    if not stateful:
        kept += [finding for finding in found.findings if finding.kind == "intermittent" and _several(finding)]
    judged = [_by_budget(finding, arm, clean, found) for finding in _name_growth(kept, arm.lengths)]
    judged += _cold_start(arm, parts)
    return Effects(tuple(judged), found.median_ns, found.baseline_ns, found.limit_of_detection, found.smallest_p)


def merge(effects: list[tuple[int, Effects]]) -> list[Finding]:
    """The findings of all prompts, those at the same lengths as one.

    A finding at a length that another prompt reaches and is fast at is not of that length alone: `apparent`.
    """
    if len(effects) == 1:
        return list(effects[0][1].findings)
    merged: list[Finding] = []
    for prompt, effect in effects:
        for finding in effect.findings:
            others = [(p, e) for p, e in effects if p != prompt]
            if finding.kind == "first-visit":
                merged.append(replace(finding, note=f"with prompt {prompt} {finding.note}"))
                continue
            twins = [p for p, e in others if any(_same(finding, twin) for twin in e.findings)]
            if any(_same(finding, known) for known in merged):
                continue
            reach = [p for p, e in others if p not in twins and _covers(p, e, finding)]
            if reach:
                only = f"with prompt {prompt} only, while prompt {reach[0]} is fast at the same length"
                if any(_same(finding, twin, prompt - p) for p, e in others for twin in e.findings):
                    step = finding.lengths[0] - prompt
                    only = f"with each prompt at step {step}: it goes by the step and not by the length"
                note = f"{finding.note[:-1]}; {only}."
                merged.append(replace(finding, note=note, confidence="apparent"))
            else:
                alike = sorted([prompt, *twins])
                where = f"with prompt{'s' if twins else ''} {' and '.join(map(str, alike))}"
                merged.append(replace(finding, note=f"{finding.note[:-1]}; {where}."))
    return merged


def first_visit_ratio(arm: Arm) -> float | None:
    """What a step at a length new to its process costs against the same length later; None where nothing came again."""
    again = ~arm.first_visit & ~np.isnan(arm.ns)
    if not again.any():
        return None
    log_ns = np.log(arm.ns)
    later = median_over_sweeps(np.where(again, log_ns, np.nan))
    dearer = (log_ns - later)[arm.first_visit]
    dearer = dearer[~np.isnan(dearer)]
    return float(np.exp(np.median(dearer))) if dearer.size else None


def _several(finding: Finding) -> bool:
    """Whether enough trajectories are slow there: a busy moment slows one, and stalls meet by chance."""
    slow = int(finding.votes.split("/")[0]) if finding.votes else 0
    return slow >= MIN_SWEEPS and finding.p is not None and finding.p <= CHANCE


def _by_budget(finding: Finding, arm: Arm, clean: Floats, found: Detection) -> Finding:
    """Say in which budgets a finding repeats: `apparent` if one budget reaches it, `intermittent` if it skips some."""
    if finding.ratio is None or finding.kind == "intermittent":
        return finding
    columns = _members(finding, arm.lengths, found)
    excess = clean[:, columns] - np.log(found.baseline_ns[columns])
    reach, dear = [], []
    for budget in np.unique(arm.budget).tolist():
        mine = excess[arm.budget == budget]
        if np.isnan(mine).all(axis=0).mean() > 0.5:
            continue
        reach.append(budget)
        if np.nanmedian(mine) >= np.log(finding.ratio) / 2:
            dear.append(budget)
    if finding.kind == "step":
        return finding if len(reach) > 1 else replace(finding, confidence="apparent")
    if len(reach) == 1:
        note = f"{finding.note[:-1]}; only budget {reach[0]} reaches it, so it may be the budget."
        return replace(finding, confidence="apparent", note=note)
    if len(dear) < len(reach):
        some = ", ".join(map(str, dear))
        note = f"{finding.note[:-1]}, but only in budgets {some} of the {len(reach)} that reach it."
        return replace(finding, kind="intermittent", note=note)
    return replace(finding, note=f"{finding.note[:-1]}, in each of the {len(reach)} budgets that reach it.")


def _members(finding: Finding, lengths: Ints, found: Detection) -> Ints:
    """Columns of the lengths a finding is about; of teeth those that stand out."""
    inside = np.flatnonzero((lengths >= finding.lengths[0]) & (lengths <= finding.lengths[1]))
    if finding.kind in ("periodic", "comb") and finding.ratio is not None:
        high = np.log(found.median_ns[inside] / found.baseline_ns[inside]) >= np.log(finding.ratio) / 2
        return inside[high] if high.any() else inside
    return inside


def _name_growth(findings: list[Finding], lengths: Ints) -> list[Finding]:
    """Spikes GROWTH apart are a cache or an allocator that grows; two are enough for so known a spacing."""
    named = [replace(f, note=f"{f.note[:-1]}: something grows there.") if _grows(f) else f for f in findings]
    single = [f for f in named if f.kind == "spike"]
    for residue in sorted({f.lengths[0] % GROWTH for f in single}):
        teeth = [f for f in single if f.lengths[0] % GROWTH == residue]
        first, last = teeth[0].lengths[0], teeth[-1].lengths[0]
        slots = [length for length in range(first, last + 1, GROWTH) if length <= lengths[-1]]
        if len(teeth) < 2 or len(teeth) < len(slots):
            continue
        ratio = float(np.exp(np.median([np.log(f.ratio or 1.0) for f in teeth])))
        note = (
            f"lengths with remainder {residue} modulo {GROWTH} from {first} to {last} cost {times(ratio)} the lengths "
            f"between them ({len(teeth)} slow lengths, {GROWTH} apart): something grows there."
        )
        p = max(f.p for f in teeth if f.p is not None)
        merged = Finding("periodic", (first, last), ratio, teeth[0].votes, p, "confirmed", note)
        named = [f for f in named if f not in teeth] + [merged]
    return sorted(named, key=lambda finding: finding.lengths)


def _grows(finding: Finding) -> bool:
    spacing = re.search(r"modulo (\d+)", finding.note) if finding.kind == "periodic" else None
    return spacing is not None and int(spacing.group(1)) % GROWTH == 0


def _cold_start(arm: Arm, parts: Decomposition) -> Iterable[Finding]:
    if parts.cold and parts.cold_ratio >= MIN_RATIO:
        first, last = arm.prompt + 1, arm.prompt + parts.cold
        what = "the first step of a trajectory costs" if parts.cold == 1 else f"the first {parts.cold} steps cost up to"
        note = f"{what} {times(parts.cold_ratio)} the steps after: a cold start, left out of everything else."
        yield Finding("first-visit", (first, last), parts.cold_ratio, None, None, "confirmed", note)


def _same(one: Finding, other: Finding, shift: int = 0) -> bool:
    """Whether two findings are of one kind and overlap, the other's lengths moved by `shift`."""
    first, last = other.lengths[0] + shift, other.lengths[1] + shift
    return one.kind == other.kind and one.lengths[0] <= last and first <= one.lengths[1]


def _covers(prompt: int, effects: Effects, finding: Finding) -> bool:
    """Whether an arm reaches a finding's lengths past its first steps and would have seen it."""
    if effects.limit is None or finding.ratio is None or finding.ratio < effects.limit:
        return False
    last = prompt + len(effects.curve_ns)
    return prompt + 2 * COLD < finding.lengths[0] and finding.lengths[1] < last
