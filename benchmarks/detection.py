"""What the detector finds and what it does not, on generated sweeps with known truth.

Recall, exactness and false lengths for each kind of fault, the share of null runs with any finding, and the time that
200,000 lengths take. Noise: 3 % lognormal samples, 2 % Pareto(1.2) stalls, 0.5 % stalled visits, 5 % of the run at
1.5x; legitimate stairs of 4 % every 32 lengths; 5 sweeps x 7 samples in shuffled order over lengths 380 to 530.

    python benchmarks/detection.py [--seeds 20] [--null-seeds 200] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np

from pykvbench.analysis.finding import Floats
from pykvbench.analysis.spikes import detect
from pykvbench.analysis.synthetic import Noise, fast_comb, slow, stairs, sweeps

LENGTHS = np.arange(380, 531)
FAULTS = {  # name: (first, last, ratio, kind)
    "spike 1.15x": (421, 421, 1.15, "spike"),
    "spike 1.3x": (421, 421, 1.3, "spike"),
    "spike 21x": (421, 421, 21.0, "spike"),
    "pair 1.15x": (421, 422, 1.15, "regime"),
    "pair 1.3x": (421, 422, 1.3, "regime"),
    "regime of 7, 1.15x": (440, 446, 1.15, "regime"),
    "regime of 7, 1.3x": (440, 446, 1.3, "regime"),
    "regime of 40, 1.15x": (430, 469, 1.15, "regime"),
    "regime of 40, 1.3x": (430, 469, 1.3, "regime"),
    "first length 1.15x": (380, 380, 1.15, "spike"),
    "first length 1.3x": (380, 380, 1.3, "spike"),
    "last length 1.15x": (530, 530, 1.15, "spike"),
    "last length 1.3x": (530, 530, 1.3, "spike"),
    "to the end, 1.3x": (470, 530, 1.3, "step"),
    "faster from 450, -15 %": (450, 530, 0.85, "step"),
    "faster from 450, -40 %": (450, 530, 0.6, "step"),
}
NULLS: dict[str, Callable[[int], Floats]] = {
    "quiet, 5 x 7": lambda seed: sweeps(stairs(LENGTHS), seed),
    "every 32nd 40 % faster": lambda seed: sweeps(fast_comb(LENGTHS), seed),
    "noise 15 %": lambda seed: sweeps(stairs(LENGTHS), seed, noise=Noise(sample=0.15)),
    "30 % drift in a sweep": lambda seed: sweeps(stairs(LENGTHS), seed, noise=Noise(drift=0.3)),
    "quadratic growth": lambda seed: sweeps(50_000.0 * (LENGTHS / 380) ** 2, seed),
    "3 x 7": lambda seed: sweeps(stairs(LENGTHS), seed, count=3),
    "5 x 1": lambda seed: sweeps(stairs(LENGTHS), seed, samples=1),
    "10 x 7": lambda seed: sweeps(stairs(LENGTHS), seed, count=10),
}


def faults(seeds: int) -> list[dict[str, object]]:
    """For each fault: share of runs that found it, found it exactly and nothing else, and false lengths a run."""
    rows: list[dict[str, object]] = []
    for name, (first, last, ratio, kind) in FAULTS.items():
        truth = (first - 1, first) if kind == "step" else (first, last)
        found, exact, false = 0, 0, 0
        for seed in range(seeds):
            cost = stairs(LENGTHS) * slow(LENGTHS, dict.fromkeys(range(first, last + 1), ratio))
            findings = detect(LENGTHS, sweeps(cost, seed)).findings
            hits = [f for f in findings if f.kind == kind and f.lengths[0] <= truth[1] and f.lengths[1] >= truth[0]]
            found += bool(hits)
            exact += [(f.kind, f.lengths) for f in findings] == [(kind, truth)]
            named = {length for f in findings for length in range(f.lengths[0], f.lengths[1] + 1)}
            false += len(named - set(range(truth[0], truth[1] + 1)))
        rows.append({"case": name, "found": found / seeds, "exact": exact / seeds, "false_lengths": false / seeds})
    return rows


def nulls(seeds: int) -> list[dict[str, object]]:
    """For each nuisance without a fault: share of runs with any finding, and the median limit of detection."""
    rows: list[dict[str, object]] = []
    for name, make in NULLS.items():
        found = [detect(LENGTHS, make(seed)) for seed in range(seeds)]
        limits = [d.limit_of_detection for d in found if d.limit_of_detection is not None]
        alarms = sum(bool(d.findings) for d in found) / seeds
        rows.append({"case": name, "alarms": alarms, "limit": statistics.median(limits) if limits else None})
    return rows


def limit(seeds: int) -> dict[str, float]:
    """Share of runs that find a spike as large as the limit of detection printed for them, and one a third as large."""
    hits = {"at_limit": 0, "at_a_third": 0}
    for seed in range(seeds):
        printed = detect(LENGTHS, sweeps(stairs(LENGTHS), seed)).limit_of_detection
        assert printed is not None
        for name, ratio in (("at_limit", printed), ("at_a_third", 1 + (printed - 1) / 3)):
            findings = detect(LENGTHS, sweeps(stairs(LENGTHS) * slow(LENGTHS, {421: ratio}), seed)).findings
            hits[name] += any(f.lengths == (421, 421) for f in findings)
    return {name: count / seeds for name, count in hits.items()}


def intermittent(seeds: int) -> list[dict[str, object]]:
    """Share of runs that find a 5x fault present in 40 % of processes at one length, by number of sweeps."""
    rows: list[dict[str, object]] = []
    for count in (5, 10, 15, 20):
        hits = 0
        for seed in range(seeds):
            factors = np.ones((count, len(LENGTHS)))
            factors[np.random.default_rng(1000 + seed).random(count) < 0.4, 41] = 5.0
            findings = detect(LENGTHS, sweeps(stairs(LENGTHS) * factors, seed, count=count)).findings
            hits += any(f.lengths == (421, 421) for f in findings)
        rows.append({"sweeps": count, "found": hits / seeds})
    return rows


def speed(n: int = 200_000) -> dict[str, float]:
    """Seconds to judge n lengths x 5 sweeps, best of 3: nothing wrong, and every second length slow."""
    lengths = np.arange(1, n + 1)
    visits = sweeps(stairs(lengths, height=1e-4), 1)
    return {
        "smooth_s": min(_seconds(lengths, visits) for _ in range(3)),
        "comb_s": min(_seconds(lengths, visits * np.where(lengths % 2, 2.0, 1.0)) for _ in range(3)),
    }


def _seconds(lengths: np.ndarray, visits: Floats) -> float:
    start = time.perf_counter()
    detect(lengths, visits)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="runs a fault")
    parser.add_argument("--null-seeds", type=int, default=200, help="runs a nuisance")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    options = parser.parse_args()
    result = {
        "seeds": options.seeds,
        "null_seeds": options.null_seeds,
        "faults": faults(options.seeds),
        "nulls": nulls(options.null_seeds),
        "limit": limit(options.null_seeds),
        "intermittent": intermittent(options.seeds * 3),
        "speed": speed(),
    }
    if options.json:
        print(json.dumps(result, indent=1))
        return
    print(f"{'fault':<26}{'found':>8}{'exact':>8}{'false lengths a run':>22}   ({options.seeds} runs each)")
    for row in result["faults"]:
        print(f"{row['case']:<26}{row['found']:>8.2f}{row['exact']:>8.2f}{row['false_lengths']:>22.2f}")
    print(f"\n{'nothing wrong':<26}{'alarms':>8}{'limit':>8}   ({options.null_seeds} runs each)")
    for row in result["nulls"]:
        print(f"{row['case']:<26}{row['alarms']:>8.3f}{row['limit'] or float('nan'):>8.2f}")
    print(f"\nspike at the printed limit found in {result['limit']['at_limit']:.0%} of runs, ", end="")
    print(f"one a third as large in {result['limit']['at_a_third']:.0%}")
    print(
        "5x in 40 % of processes:",
        ", ".join(f"{r['found']:.0%} at {r['sweeps']} sweeps" for r in result["intermittent"]),
    )
    print("200,000 lengths x 5 sweeps: {smooth_s:.2f} s, with a comb {comb_s:.2f} s".format(**result["speed"]))


if __name__ == "__main__":
    main()
