"""What the detector finds and what it does not, on generated sweeps with known truth.

Recall, exactness and false lengths for each kind of fault, the share of null runs with any finding, what removing the
cost of moments is worth on a shared machine, and the time that 200,000 lengths take. Noise: 3 % lognormal samples, 2 %
Pareto(1.2) stalls, 0.5 % stalled visits, 5 % of the run at 1.5x; legitimate stairs of 4 % every 32 lengths; 5 sweeps x
7 samples in shuffled order over lengths 380 to 530.

    python benchmarks/detection.py [--seeds 20] [--null-seeds 200] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np

from pykvbench.analysis.finding import Detection, Floats, Ints
from pykvbench.analysis.spikes import detect
from pykvbench.analysis.synthetic import BUSY, Noise, fast_comb, ordered_sweeps, slow, stairs

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
Sweeps = tuple[Floats, Floats]
NULLS: dict[str, Callable[[int], Sweeps]] = {
    "quiet, 5 x 7": lambda seed: ordered_sweeps(stairs(LENGTHS), seed),
    "every 32nd 40 % faster": lambda seed: ordered_sweeps(fast_comb(LENGTHS), seed),
    "noise 15 %": lambda seed: ordered_sweeps(stairs(LENGTHS), seed, noise=Noise(sample=0.15)),
    "30 % drift in a sweep": lambda seed: ordered_sweeps(stairs(LENGTHS), seed, noise=Noise(drift=0.3)),
    "quadratic growth": lambda seed: ordered_sweeps(50_000.0 * (LENGTHS / 380) ** 2, seed),
    "3 x 7": lambda seed: ordered_sweeps(stairs(LENGTHS), seed, count=3),
    "5 x 1": lambda seed: ordered_sweeps(stairs(LENGTHS), seed, samples=1),
    "10 x 7": lambda seed: ordered_sweeps(stairs(LENGTHS), seed, count=10),
}
COMPANY = {  # what others on the machine do, by name
    "nothing": Noise(),
    "bursts, 30 % of the time": Noise(bursts=0.3),
    "wander of 5 %": Noise(wander=0.05),
    "both": BUSY,
    "bursts 60 %, wander 8 %": Noise(bursts=0.6, wander=0.08),
}
FOUND_IN_COMPANY = ("spike 1.15x", "spike 1.3x", "regime of 40, 1.15x")


def judge(visits: Sweeps, moments: bool = True) -> Detection:
    """The detector on sweeps and their order, or without the order, which leaves what moments cost in."""
    return detect(LENGTHS, visits[0], order=visits[1] if moments else None)


def faults(seeds: int) -> list[dict[str, object]]:
    """For each fault: share of runs that found it, found it exactly and nothing else, and false lengths a run."""
    rows: list[dict[str, object]] = []
    for name, (first, last, ratio, kind) in FAULTS.items():
        truth = (first - 1, first) if kind == "step" else (first, last)
        found, exact, false = 0, 0, 0
        for seed in range(seeds):
            cost = stairs(LENGTHS) * slow(LENGTHS, dict.fromkeys(range(first, last + 1), ratio))
            findings = judge(ordered_sweeps(cost, seed)).findings
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
        found = [judge(make(seed)) for seed in range(seeds)]
        rows.append({"case": name, "alarms": _alarms(found), "limit": _limit(found)})
    return rows


def company(seeds: int) -> list[dict[str, object]]:
    """What others on the machine do to alarms, limit and exact finds, with and without the cost of moments removed."""
    rows: list[dict[str, object]] = []
    for name, noise in COMPANY.items():
        for moments in (False, True):
            null = [judge(ordered_sweeps(stairs(LENGTHS), seed, noise=noise), moments) for seed in range(seeds)]
            row: dict[str, object] = {"case": name, "moments": moments, "alarms": _alarms(null), "limit": _limit(null)}
            for fault in FOUND_IN_COMPANY:
                first, last, ratio, kind = FAULTS[fault]
                cost = stairs(LENGTHS) * slow(LENGTHS, dict.fromkeys(range(first, last + 1), ratio))
                runs = [judge(ordered_sweeps(cost, seed, noise=noise), moments) for seed in range(seeds)]
                exact = sum([(f.kind, f.lengths) for f in d.findings] == [(kind, (first, last))] for d in runs)
                row[fault] = exact / seeds
            rows.append(row)
    return rows


def _alarms(runs: list[Detection]) -> float:
    return sum(bool(run.findings) for run in runs) / len(runs)


def _limit(runs: list[Detection]) -> float | None:
    """Median limit; a run too noisy to have one counts as infinite, and half of those have no median."""
    middle = statistics.median(run.limit_of_detection or float("inf") for run in runs)
    return middle if middle < float("inf") else None


def limit(seeds: int) -> dict[str, float]:
    """Share of runs that find a spike as large as the limit of detection printed for them, and one a third as large."""
    hits: dict[str, float] = {}
    for where, noise in (("quiet", Noise()), ("busy", BUSY)):
        for seed in range(seeds):
            printed = judge(ordered_sweeps(stairs(LENGTHS), seed, noise=noise)).limit_of_detection
            for name, ratio in (("limit", printed), ("third", 1 + (printed - 1) / 3)) if printed else ():
                cost = stairs(LENGTHS) * slow(LENGTHS, {421: ratio})
                findings = judge(ordered_sweeps(cost, seed, noise=noise)).findings
                hit = any(f.lengths == (421, 421) for f in findings) / seeds
                hits[f"{where}_{name}"] = hits.get(f"{where}_{name}", 0.0) + hit
    return hits


def intermittent(seeds: int) -> list[dict[str, object]]:
    """Share of runs that find a 5x fault present in 40 % of processes at one length, by number of sweeps."""
    rows: list[dict[str, object]] = []
    for count in (5, 10, 15, 20):
        hits = 0
        for seed in range(seeds):
            factors = np.ones((count, len(LENGTHS)))
            factors[np.random.default_rng(1000 + seed).random(count) < 0.4, 41] = 5.0
            findings = judge(ordered_sweeps(stairs(LENGTHS) * factors, seed, count=count)).findings
            hits += any(f.lengths == (421, 421) for f in findings)
        rows.append({"sweeps": count, "found": hits / seeds})
    return rows


def speed(n: int = 200_000) -> dict[str, float]:
    """Seconds to judge n lengths x 5 sweeps, best of 3: nothing wrong, every second length slow, 1 in 20 slow."""
    lengths = np.arange(1, n + 1)
    visits, order = ordered_sweeps(stairs(lengths, height=1e-4), 1)
    comb = np.where(lengths % 2, 2.0, 1.0)
    scattered = np.where(np.random.default_rng(0).random(n) < 0.05, 1.5, 1.0)
    return {
        "smooth_s": min(_seconds(lengths, visits, order) for _ in range(3)),
        "comb_s": min(_seconds(lengths, visits * comb, order) for _ in range(3)),
        "scattered_s": min(_seconds(lengths, visits * scattered, order) for _ in range(3)),
    }


def _seconds(lengths: Ints, visits: Floats, order: Floats) -> float:
    start = time.perf_counter()
    detect(lengths, visits, order=order)
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
        "company": company(options.null_seeds),
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
    print(f"\n{'others on the machine':<26}{'moments':>9}{'alarms':>8}{'limit':>8}", end="")
    print("".join(f"{name:>21}" for name in FOUND_IN_COMPANY), f"  (exact, {options.null_seeds} runs each)")
    for row in result["company"]:
        left = "removed" if row["moments"] else "left in"
        print(f"{row['case']:<26}{left:>9}{row['alarms']:>8.3f}{row['limit'] or float('nan'):>8.2f}", end="")
        print("".join(f"{row[name]:>21.2f}" for name in FOUND_IN_COMPANY))
    for where in ("quiet", "busy"):
        at, third = result["limit"][f"{where}_limit"], result["limit"][f"{where}_third"]
        print(
            f"\n{where}: spike at the printed limit found in {at:.0%} of runs, one a third as large in {third:.0%}",
            end="",
        )
    print()
    print(
        "5x in 40 % of processes:",
        ", ".join(f"{r['found']:.0%} at {r['sweeps']} sweeps" for r in result["intermittent"]),
    )
    took = result["speed"]
    print(f"200,000 lengths x 5 sweeps: {took['smooth_s']:.2f} s, with a comb {took['comb_s']:.2f} s, ", end="")
    print(f"with 10,000 slow lengths {took['scattered_s']:.2f} s")


if __name__ == "__main__":
    main()
