"""Where slow budgets begin and end, by budget or by prompt + budget: what the prompt ablation is for."""

from __future__ import annotations

import numpy as np

from pykvbench.analysis.fleet import Fleet


def onset_sentence(fleet: Fleet) -> str | None:
    """Which of budget and total length explains where slow budgets begin and end; None without two prompts to compare.

    A border lies between two neighbouring budgets of the grid. It goes by budget if some one budget lies within the
    border after every prompt, and by total length if some one prompt + budget does.
    """
    prompts = np.unique(fleet.prompt).tolist()
    first_spans: dict[int, tuple[int, int]] = {}
    for prompt, first, last in fleet.slow_spans():
        first_spans.setdefault(prompt, (first, last))
    if len(prompts) < 2 or len(first_spans) < len(prompts):
        return None
    said = []
    for name, border in (("begin", 0), ("end", 1)):
        intervals = {p: _border(fleet, p, first_spans[p][border], border) for p in prompts}
        known = {p: interval for p, interval in intervals.items() if interval is not None}
        if len(known) == len(prompts):
            said.append((name, _goes_by(known)))
    if not said:
        return None
    where = _where(first_spans)
    if len({by for _, by in said}) == 1:
        names, by = " and ".join(name for name, _ in said), said[0][1]
        return f"{where}: where they {names} {_explained(by, prompts)}"
    return f"{where}: " + "; ".join(f"where they {name} {_explained(by, prompts)[:-1]}" for name, by in said) + "."


def _border(fleet: Fleet, prompt: int, budget: int, side: int) -> tuple[int, int] | None:
    """The half-open interval (low, high] of budgets between fast and slow, None at the end of the grid."""
    grid = np.unique(fleet.budget[fleet.prompt == prompt])
    place = int(np.searchsorted(grid, budget))
    low, high = (place - 1, place) if side == 0 else (place, place + 1)
    return (int(grid[low]), int(grid[high])) if low >= 0 and high < len(grid) else None


def _goes_by(intervals: dict[int, tuple[int, int]]) -> str:
    budget = max(low for low, _ in intervals.values()) < min(high for _, high in intervals.values())
    total = max(low + p for p, (low, _) in intervals.items()) < min(high + p for p, (_, high) in intervals.items())
    if budget and total:
        return "both"
    return "budget" if budget else "total" if total else "neither"


def _explained(by: str, prompts: list[int]) -> str:
    if by == "budget":
        return "goes by the budget and not by the total length (prompt + budget)."
    if by == "total":
        return "goes by the total length (prompt + budget) and not by the budget."
    if by == "neither":
        return "follows neither the budget nor the total length."
    apart = prompts[-1] - prompts[0]
    return (
        f"cannot be told to go by budget or by total length, since prompts {apart} tokens apart lie within one step of "
        "the budgets; take a finer --budget or a longer --prompt."
    )


def _where(spans: dict[int, tuple[int, int]]) -> str:
    return "slow budgets are " + ", ".join(
        f"{first if first == last else f'{first} to {last}'} with prompt {prompt}"
        for prompt, (first, last) in spans.items()
    )
