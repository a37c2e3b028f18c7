"""What the first line of a run file may hold: values of another type are left out with a note, so that no reader trips.

Damage to one value of the header must not cost the visits. What a run is (kind, schema, cells) is not mended here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

MOST = 1_000_000  # of sweeps, repeats, tokens and the like: more is damage, and arrays are made of that size


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MOST


def _size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**62


def _number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e18


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _object(value: Any) -> bool:
    return isinstance(value, dict)


def _list(of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(of, value))


def _or_null(of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or of(value)


_HEADER = {
    "pykvbench": _text,
    "command": _text,
    "argv": _list(_text),
    "created": _text,
    "seed": _size,
    "plan": _or_null(_object),
    "machine": _or_null(_object),
    "interpreters": _list(_object),
    "notes": _list(_text),
    "clock": _or_null(_object),
}
_PLAN = {
    **dict.fromkeys(("sweeps", "samples", "repeats", "warmups", "tokens", "slice", "chunk"), _count),
    **dict.fromkeys(("budgets", "prompts", "contexts", "concurrencies", "cpus"), _list(_size)),
    **dict.fromkeys(("warmup_s", "timeout_s"), _number),
    **dict.fromkeys(("order", "history"), _text),
    **dict.fromkeys(("inject", "policies", "allocators"), _list(_text)),
    "memory": _list(_or_null(_size)),
    "budget": _or_null(_size),
    "simulate": _or_null(_text),
}
_CLOCK = {
    **dict.fromkeys(("resolution_ns", "grid_ns", "overhead_ns", "worst_gap_ns", "began_ns"), _number),
    "name": _text,
}
_MACHINE = {
    **dict.fromkeys(("packages", "variables"), _object),
    **dict.fromkeys(
        ("os", "os_version", "os_build", "cpu", "model", "architecture", "python", "power_source"), _or_null(_text)
    ),
    **dict.fromkeys(("memory_bytes", "threads", "cores", "gpu_cores"), _or_null(_size)),
    "gpus": _list(_object),
}


def intact(header: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The header without the values that are of no use, and a note that names them."""
    lost: list[str] = []
    kept = _kept(header, _HEADER, "", lost)
    for name, known in (("plan", _PLAN), ("clock", _CLOCK), ("machine", _MACHINE)):
        if isinstance(kept.get(name), dict):
            kept[name] = _kept(kept[name], known, f"{name}.", lost)
    notes = (f"The header is damaged: what it says of {', '.join(lost)} is left out.",) if lost else ()
    return kept, notes


def _kept(values: Mapping[str, Any], known: Mapping[str, Callable[[Any], bool]], where: str, lost: list[str]) -> Any:
    wrong = [name for name, fits in known.items() if name in values and not fits(values[name])]
    lost += [where + name for name in wrong]
    return {name: value for name, value in values.items() if name not in wrong}


def loads(line: bytes) -> Any:
    """The value of a line; half a surrogate pair, which no output can carry, becomes a question mark.

    Raises ValueError for what is not JSON, and RecursionError where it is nested too deeply.
    """
    value = json.loads(line)
    if b"\\ud" in line or b"\\uD" in line:
        return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return value
