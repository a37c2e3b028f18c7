"""Whether attribution names what was injected: through real processes, the real timer and a driver.

For each kind of injection and each seed one run of `attn`: a short sweep that must find the length, and its contrasts
that must name the cause. Nothing is injected for the last row, which must name none.

    python benchmarks/attribution.py [--backend simulated] [--seeds 20] [--only pv ...] [--json]

Exit status 1 when an injection is attributed rightly in fewer than 19 of 20 seeds, or when a cause is named wrongly.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

LENGTH = 421
DISPATCH = "dispatch: host work of the step outside its operations"
DEVICE = "completion: device work of the step outside its operations"
KINDS = {  # what is injected, and what must be named
    "dispatch": ("2x", DISPATCH),
    "device": ("2x@device", DEVICE),
    "append": ("2x@append", "append"),
    "qk": ("2x@qk", "QK^T"),
    "softmax": ("2x@softmax", "softmax"),
    "pv": ("2x@pv", "PV"),
    "pv on the device": ("2x@pv+device", "PV"),
    "first visit": ("12x@first", "first call at this length in a process"),
    "allocation": ("2x@alloc", "allocation of outputs"),
    "one process in three": ("3x@pv/3", "PV, in some processes only"),
    "null": (None, None),
}
NEEDS = 0.95


def measure(backend: str, kind: str, seed: int) -> tuple[bool, str | None, str]:
    """Whether the length was found and attributed, the cause named for it, and the sentence."""
    inject, _ = KINDS[kind]
    with tempfile.TemporaryDirectory() as folder:
        small = ["--num-layers", "1", "--num-heads", "1", "--head-dim", "8"] if backend == "simulated" else []
        # 12 sweeps, of which 4 are slow, over 151 lengths: fewer of any could not tell a slow process from chance
        seldom = kind == "one process in three"
        sweeps = (
            ["--sweeps", "12", "--len", "380:530", "--min-ratio", "1.5"]
            if seldom
            else ["--sweeps", "5", "--len", "396:446"]
        )
        out = ["-o", str(Path(folder) / "run.jsonl"), "--json", "--warmup", "0.1", "--seed", str(seed)]
        injected = ["--inject", f"{LENGTH}:{inject}"] if inject else []
        command = [sys.executable, "-m", "pykvbench", "attn", "--backend", backend]
        done = subprocess.run([*command, *small, *sweeps, *injected, *out], capture_output=True, text=True, check=True)
    document = json.loads(done.stdout)
    at = [one for one in document.get("attributions", ()) if not inject or one["lengths"] == [LENGTH, LENGTH]]
    if not at:
        return False, None, "not attributed"
    named = [one for one in at if one["cause"]] or at
    return True, named[0]["cause"], named[0]["sentence"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="simulated", choices=("simulated", "cpu", "mlx-cpu"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=tuple(KINDS), default=tuple(KINDS))
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args()
    rows, right = [], True
    for kind in options.only:
        expected = KINDS[kind][1] or ""
        if options.backend == "cpu" and kind == "device":
            expected = DISPATCH  # the call waits for its work, so that device and host are one
        runs = [measure(options.backend, kind, seed) for seed in range(options.seeds)]
        if kind == "null":
            good = sum(cause is None for _, cause, _ in runs)
            wrong = options.seeds - good
        else:
            good = sum(cause is not None and cause.startswith(expected) for _, cause, _ in runs)
            wrong = sum(cause is not None and not cause.startswith(expected) for _, cause, _ in runs)
        found = sum(attributed for attributed, _, _ in runs)
        right &= good >= NEEDS * options.seeds and not wrong
        others = sorted({sentence for _, cause, sentence in runs if not (cause or "").startswith(expected)})
        rows.append({"kind": kind, "seeds": options.seeds, "found": found, "right": good, "wrong": wrong})
        if not options.json:
            print(f"{kind:<22} found {found:>2}, right {good:>2} of {options.seeds}, wrong {wrong}", flush=True)
            for sentence in others:
                print(f"    {sentence}", flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
