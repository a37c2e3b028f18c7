"""The one plain sentence in each finding of the detector: which lengths, against which, in what units, what next."""

from __future__ import annotations

import numpy as np

from pykvbench.analysis.finding import Ints
from pykvbench.analysis.shapes import Shape

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))


def cost(ns: float) -> str:
    """A time in the unit a reader would use, 3 digits: 56.3 us, 1.20 ms, 89.2 s."""
    scale, unit = next(((s, u) for s, u in _UNITS if ns >= 0.9995 * s), _UNITS[-1])
    value = ns / scale
    return f"{value:.0f} {unit}" if value >= 99.95 else f"{value:#.3g} {unit}"


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 sweep, 5 sweeps, 2 fresh processes."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{'es' if noun.endswith('s') else 's'}"


def times(ratio: float) -> str:
    """A ratio as 1.15x, 21.3x or 1540x."""
    return f"{ratio:.2f}x" if ratio < 9.995 else f"{ratio:.1f}x" if ratio < 99.95 else f"{ratio:.0f}x"


def excess_sentence(lengths: Ints, shape: Shape, peak: int, reference: int, peak_ns: float, reference_ns: float) -> str:
    """What a spike or regime costs against the cheapest later length; indices are into `lengths`."""
    first, last, n = int(lengths[shape.first]), int(lengths[shape.last]), len(lengths)
    ratio = times(peak_ns / reference_ns)
    against = f"what length {lengths[reference]} costs ({cost(peak_ns)} against {cost(reference_ns)})"
    if first == last:
        if shape.last < n - 1:
            return f"length {first} costs {ratio} {against}."
        beyond = f"nothing longer was measured, so run {extended(lengths)} to tell a spike from a step"
        return f"length {first} costs {ratio} {against}; {beyond}."
    tail = "; the cost falls back gradually" if shape.gradual else ""
    return f"lengths {first} to {last} cost up to {ratio}, at length {lengths[peak]}, {against}{tail}."


def teeth_sentence(lengths: Ints, shape: Shape, ratio: float) -> str:
    """Spacing, residue and number of a comb's or periodic pattern's slow lengths."""
    remainders = " or ".join(str(r) for r in sorted({int(lengths[i]) % shape.spacing for i in shape.members}))
    where = f"from {lengths[shape.first]} to {lengths[shape.last]}"
    slow = f"{len(shape.members)} slow lengths, {shape.spacing} apart"
    others = f"cost {times(ratio)} the lengths between them"
    return f"lengths with remainder {remainders} modulo {shape.spacing} {where} {others} ({slow})."


def step_sentence(lengths: Ints, shape: Shape, from_start: bool = False) -> str:
    """Both sides' costs of a step, and what would tell a rise from a regime, or a drop from the end of one."""
    before, after = float(np.exp(shape.before)), float(np.exp(shape.after))
    old, new = int(lengths[shape.first]), int(lengths[shape.last])
    if shape.kind == "rise":
        last = shape.last == len(lengths) - 1
        back = "nothing longer was measured" if last else f"does not come back by {lengths[-1]}"
        rise = f"rises {times(after / before)} from {cost(before)} at length {old} to {cost(after)} at length {new}"
        tell = f"an unexplained step, or a regime that ends beyond the range; run {extended(lengths)} to tell"
        return f"the cost {rise} and {back}: {tell}."
    begun = f"; this range cannot tell it from a regime that began before {lengths[0]}" if from_start else ""
    return (
        f"length {new} costs {cost(after)}, length {old} {cost(before)} ({times(before / after)}): longer caches are "
        f"cheaper from {new} on{begun}."
    )


def extended(lengths: Ints) -> str:
    """The option that measures as far again beyond the end of the range: --len 380:680."""
    first, last = int(lengths[0]), int(lengths[-1])
    gaps = np.unique(np.diff(lengths))
    if len(gaps) > 1:
        return f"lengths up to {2 * last}"
    step = int(gaps[0]) if gaps.size else 1
    reach = max(last - first, 4 * step)
    stop = first + -(-(last + reach - first) // step) * step
    return f"--len {first}:{stop}" + (f":{step}" if step != 1 else "")
