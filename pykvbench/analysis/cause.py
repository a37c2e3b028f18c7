"""From contrasts to a cause, where they single one out, and to the sentence that says what was seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pykvbench.analysis.evidence import HELD, Evidence
from pykvbench.analysis.sentences import times
from pykvbench.operations import OPERATIONS

ALONE = 0.6  # share of the whole's excess that one part must have to be the cause, with all others absent
NEARLY_ALL = 0.85
NAMES = {"append": "append", "qk": "QK^T", "softmax": "softmax", "pv": "PV"}
GROWING = ("concat", "chunked")

# Changes under which a user could run, the cheapest to adopt first.
_WORKAROUNDS = {
    "cache:prealloc": "keep the cache in a fixed buffer",
    "kernel:fused": "use the framework's fused attention",
    "padded:32": "pad to the next multiple of 32, with a mask",
    "padded:64": "pad to the next multiple of 64, with a mask",
    "outputs:preallocated": "write into tensors made beforehand",
    "layout:contiguous": "attend contiguous copies of K and V",
    "capacity:other": "give the buffers another capacity",
}
_GONE = {
    "layout:contiguous": "when K and V are contiguous",
    "capacity:other": "with another capacity",
    "padded:32": "when padded to a multiple of 32",
    "padded:64": "when padded to a multiple of 64",
    "outputs:preallocated": "with preallocated outputs",
    "cache:prealloc": "under prealloc",
    "kernel:fused": "in fused attention",
    "whole:manual": "in attention by hand",
    "dtype:float16": "in float16",
    "dtype:float32": "in float32",
    "layers:1": "with one layer",
    "layers:2": "with two layers",
}
_BACKENDS = {
    "backend:cpu": "torch on the CPU",
    "backend:mps": "torch on MPS",
    "backend:mlx": "MLX",
    "backend:mlx-cpu": "MLX on the CPU",
}


def cause(evidence: Evidence) -> str | None:
    """What the contrasts single out, or None where they single out nothing."""
    if not _came_back(evidence):
        return None
    found = _cold(evidence) if evidence.target.kind == "first-visit" else _steady(evidence)
    if found is None:
        return None
    slow, total = len(evidence.slow), _total(evidence)
    return found if slow == total else f"{found}, in some processes only ({slow} of {total})"


def workaround(evidence: Evidence) -> str | None:
    """A change of the step under which the excess is gone, where the change could be adopted."""
    if not _came_back(evidence) or evidence.target.kind == "first-visit":
        return None
    for name, words in _WORKAROUNDS.items():
        in_attention = evidence.outcome(_own(evidence)) == "present"
        if evidence.outcome(name) == "absent" and name != _own(evidence) and in_attention != (name == "cache:prealloc"):
            return words
    return None


def sentence(evidence: Evidence, route: str | None = None) -> str:
    """All of it in one line: `L = 421: 21.3x, 5/5 processes; all of it in PV; gone when K and V are contiguous`."""
    target, whole = evidence.target, evidence.whole
    first, last = target.lengths
    head = f"L = {first}" if first == last else f"L = {first} to {last}"
    if whole is None:
        return f"{head}: the contrasts were not measured; unexplained."
    slow, total = len(evidence.slow), _total(evidence)
    if not _came_back(evidence):
        found = times(float(np.median(whole.ratio)))
        return f"{head}: {found} in the contrasts, {slow}/{total} processes; it did not come back; unexplained."
    ratio = float(np.median(whole.only(evidence.slow).ratio))
    clauses = [f"{times(ratio)}, {slow}/{total} processes"]
    if target.kind == "first-visit":
        clauses.append(_first_clause(evidence))
    else:
        clauses += [_where(evidence), _span(evidence)]
        clauses += [_listed("gone", evidence, "absent"), _listed("still there", evidence, "present")]
        clauses.append(_other_backends(evidence))
    clauses += [route or "", "" if cause(evidence) else "unexplained"]
    return f"{head}: {'; '.join(clause for clause in clauses if clause)}."


def _came_back(evidence: Evidence) -> bool:
    """In two processes at least, and in most unless the finding itself is one of some processes only."""
    slow, total = len(evidence.slow), _total(evidence)
    return slow >= 2 and (evidence.target.kind == "intermittent" or slow * 2 > total)


def _total(evidence: Evidence) -> int:
    return len(evidence.whole.processes) if evidence.whole is not None else 0


def _cold(evidence: Evidence) -> str | None:
    return "first call at this length in a process" if evidence.outcome("warm") == "absent" else None


def _steady(evidence: Evidence) -> str | None:
    if evidence.outcome("outputs:preallocated") == "absent" and evidence.outcome("whole:manual") == "present":
        return _allocation(evidence)
    manual = evidence.cell.kernel == "manual"
    names = OPERATIONS if manual else ("append",)
    present = [name for name in names if evidence.outcome(f"part:{name}") == "present"]
    clear = all(evidence.outcome(f"part:{name}") == "absent" for name in names if name not in present)
    if len(present) == 1 and clear and evidence.share(f"part:{present[0]}") >= ALONE:
        if not manual and evidence.outcome("kernel:fused") != "absent":
            return None
        return _named(present[0], evidence)
    if present or not clear:
        return None
    if not manual and evidence.outcome("kernel:fused") == "present":
        return "fused kernel" if evidence.share("kernel:fused") >= ALONE else None
    if evidence.outcome(_own(evidence)) != "absent":
        return None
    if evidence.waits or evidence.outcome("completion") == "absent":
        return "dispatch: host work of the step outside its operations"
    if evidence.outcome("dispatch") == "absent":
        return "completion: device work of the step outside its operations"
    return None


def _named(part: str, evidence: Evidence) -> str:
    if part == "append" and evidence.cell.cache in GROWING and evidence.outcome("cache:prealloc") == "absent":
        return "append: the cache grows"
    return NAMES[part]


def _allocation(evidence: Evidence) -> str:
    """Whose outputs: those of one part where it has most of the excess, of all of them otherwise."""
    for name in OPERATIONS[1:]:
        if evidence.share(f"part:{name}") >= ALONE:
            return f"allocation of the output of {NAMES[name]}"
    return "allocation of outputs"


def _where(evidence: Evidence) -> str:
    if evidence.cell.kernel != "manual":
        share = evidence.share("kernel:fused")
        if evidence.outcome("kernel:fused") == "present":
            return f"{_amount(share)} in the fused kernel"
        return (
            f"{_amount(evidence.share('part:append'))} in append" if _has(evidence, "append") else "not in the kernel"
        )
    present = [name for name in OPERATIONS if _has(evidence, name)]
    if len(present) == 1:
        return f"{_amount(evidence.share(f'part:{present[0]}'))} in {NAMES[present[0]]}"
    if present:
        parts = [f"{evidence.share(f'part:{name}'):.0%} in {NAMES[name]}" for name in present]
        return f"{', '.join(parts)}"
    if evidence.added_up is None:
        return "its parts were not measured"
    unclear = [NAMES[name] for name in OPERATIONS if evidence.outcome(f"part:{name}") == "unclear"]
    if unclear:
        return f"unclear whether it is in {' or '.join(unclear)}"
    if evidence.outcome("whole:manual") == "present":
        return "in the operations in sequence, in none of them alone"
    return f"in none of the operations (they add up to {max(evidence.added_up, 0.0):.0%} of it)"


def _has(evidence: Evidence, part: str) -> bool:
    return evidence.outcome(f"part:{part}") == "present"


def _amount(share: float) -> str:
    return "all of it" if share >= NEARLY_ALL else f"{share:.0%} of it"


def _span(evidence: Evidence) -> str:
    for name in ("dispatch", "completion"):
        if not evidence.waits and evidence.share(name) >= 1 - HELD:
            return f"in {name}"
    return ""


def _listed(word: str, evidence: Evidence, outcome: str) -> str:
    names = [words for name, words in _GONE.items() if evidence.outcome(name) == outcome and _tells(evidence, name)]
    return f"{word} {_and(names)}" if names else ""


def _tells(evidence: Evidence, name: str) -> bool:
    """Whether a contrast of attention alone says anything: not where attention alone does not have the excess."""
    if name == _own(evidence):
        return False
    of_attention = name.startswith(("layout:", "padded:", "outputs:", "kernel:", "whole:"))
    return not of_attention or evidence.outcome(_own(evidence)) == "present"


def _other_backends(evidence: Evidence) -> str:
    smooth = [words for name, words in _BACKENDS.items() if evidence.outcome(name) == "absent"]
    same = [words for name, words in _BACKENDS.items() if evidence.outcome(name) == "present"]
    return "; ".join(text for text in (_and(smooth, " smooth"), _and(same, " has it too")) if text)


def _first_clause(evidence: Evidence) -> str:
    if evidence.outcome("warm") == "absent":
        return "first calls only, gone when warm"
    return "also when warm" if evidence.outcome("warm") == "present" else "unclear whether it is gone when warm"


def _own(evidence: Evidence) -> str:
    """The variant that is the cell's own attention without the append."""
    return "whole:manual" if evidence.cell.kernel == "manual" else "kernel:fused"


def _and(names: Sequence[str], tail: str = "") -> str:
    if not names:
        return ""
    *most, last = names
    return (f"{', '.join(most)} and {last}" if most else last) + tail
