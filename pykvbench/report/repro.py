"""The reproducer of a finding: one short file that needs the framework alone, and tells by its exit status.

Everything that comes from the run file enters as a number that is checked to be one, or picks one of our own texts by
name; no string of the run file is ever written into the code.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from types import ModuleType

from pykvbench.analysis.case import Case
from pykvbench.cell import Cell
from pykvbench.report import repro_mlx, repro_torch

LINES = 60  # at most; what a maintainer reads before running it
TOLERANCE = {"float32": 5e-5, "float16": 0.03, "bfloat16": 0.2}  # as a run's own check has them
_SECONDS = 3.0  # of measuring, about
_AROUND = 3  # how many times a step's time its preparation and its caller take, about
_ROUNDS = (5, 51)
_TEXTS: dict[str, ModuleType] = {
    "cpu": repro_torch,
    "mps": repro_torch,
    "cuda": repro_torch,
    "mlx": repro_mlx,
    "mlx-cpu": repro_mlx,
}

_HEAD = """\
# <claim>
# <way>; needs <framework> alone. Exit 1: it shows here, 0: not<otherwise>.
<imports>

<import framework>

<settings>
LAYERS, B, H, HKV, D, ROWS, DTYPE, ROUNDS, CALLS = <sizes>, <dtype>, <rounds>, <calls>
CLAIMED, PRESENT, TOLERANCE, SLOW = <claimed>, <present>, <tolerance>, <slow>
OTHERS = <others>
<values>
<kept>


def step(n):  # one token over n keys through all layers: seconds, and the last layer's output
    <fresh>
    rows = [[t[:, :, n - 1 : n] * 1 for t in kv] for kv in KV]
    <ready>
    began, x = time.perf_counter(), Q
    <begin>
    for cache, row in zip(caches, rows):
        <update>
        <attend>
        x = Q + o
    <finished>
    return time.perf_counter() - began, o


<exact>


"""

_SLOW = """\
warm = time.perf_counter() + 1  # clocks ramp by time, not by count
while time.perf_counter() < warm:
    step(OTHERS[0])
times = {n: [] for n in SLOW + OTHERS}
for _ in range(ROUNDS):  # shuffled, so that a bad moment hits other lengths in each round
    for n in random.sample(sorted(times), len(times)):
        times[n] += [step(n)[0] for _ in range(CALLS)][2:]
cost = {n: sorted(times[n])[len(times[n]) // 2] for n in sorted(times)}
print("\\n".join(f"{n:7} keys {cost[n] * 1e6:10.1f} us{'  slow' * (n in SLOW)}" for n in cost))
ratio = sorted(cost[n] / min(cost[m] for m in OTHERS if m > n) for n in SLOW)[len(SLOW) // 2]
worst = max(error(n, step(n)[1]) for n in cost)
print(f"numerics off by {worst:.1e}, allowed {TOLERANCE}; no length should cost more than a longer one:")
print(f"observed {ratio:.2f}x, expected 1.00x, claimed {CLAIMED}x, counted as there from {PRESENT}x on")
raise SystemExit(int(ratio >= PRESENT) if worst <= TOLERANCE else 2)
"""

_WRONG = """\
worst = {n: 0.0 for n in sorted(SLOW + OTHERS)}
for _ in range(ROUNDS):
    for n in random.sample(sorted(worst), len(worst)):
        off = [error(n, step(n)[1]) for _ in range(CALLS)]
        worst[n] = max(worst[n], *(e if e == e else float("inf") for e in off))
for n in worst:
    print(f"{n:7} keys: off by {worst[n]:.1e}{'  wrong' * (n in SLOW)}")
observed = max(worst[n] for n in SLOW)
print(f"observed {observed:.1e}, expected at most {TOLERANCE}, over {len(worst)} lengths")
raise SystemExit(int(observed > TOLERANCE))
"""


@dataclass(frozen=True)
class Reproducer:
    """What a reproducer is made of besides the cell: where to look, for what, and how long.

    rows       tokens that a fixed buffer holds; for the caches that grow, at least the longest length
    samples    calls a visit; the first two of more than three are not counted
    step_ns    what a step takes, about
    threads    CPU threads of torch, where the device is the CPU
    gpu        whether the run's device was a GPU
    """

    case: Case
    cell: Cell
    rows: int
    samples: int
    step_ns: float
    threads: int = 1
    gpu: bool = False

    @property
    def present(self) -> float | None:
        """The ratio from which on the effect is there: half of the claim, as a logarithm."""
        return None if self.case.ratio is None else round(math.sqrt(self.case.ratio), 3)

    @property
    def calls(self) -> int:
        """Calls a visit, as in the run: first, second, and the steady ones."""
        return 2 + max(1, min(int(self.samples), 15))

    @property
    def rounds(self) -> int:
        """Visits to every length, so that measuring takes some seconds."""
        lengths = len(self.case.slow) + len(self.case.others)
        visit_s = self.calls * max(1.0, self.step_ns) * _AROUND / 1e9
        return max(_ROUNDS[0], min(_ROUNDS[1], int(_SECONDS / (lengths * visit_s))))

    @property
    def seconds(self) -> float:
        """How long it may take before it is given up: a slow start, and many times what it should take."""
        lengths = len(self.case.slow) + len(self.case.others)
        worst = max(1.0, self.case.ratio or 1.0)
        return 120.0 + 10 * self.rounds * lengths * self.calls * self.step_ns * worst / 1e9


def reproducible(cell: Cell) -> bool:
    """Whether a finding of this cell can be shown in a file of its own: attention steps on a real framework."""
    return cell.backend in _TEXTS and cell.body == "attention" and cell.cache in repro_torch.UPDATE


def framework(cell: Cell) -> str:
    """What the cell's reproducer imports: torch or mlx."""
    return "torch" if _TEXTS[cell.backend] is repro_torch else "mlx"


def claim(case: Case) -> str:
    """The claim in one line."""
    *most, last = (str(length) for length in case.slow)
    lengths = f"{', '.join(most)} and {last}" if most else last
    if case.ratio is None:
        return f"The output of decode attention over {lengths} keys is wrong."
    return f"Decode attention over {lengths} keys takes {case.ratio:.3g}x as long as over longer caches."


def way(cell: Cell) -> str:
    """On what, and how, attention is computed."""
    return f"{cell.backend}, {cell.kernel} attention, {cell.cache} cache, {cell.geometry.dtype}"


def script(what: Reproducer) -> str:
    """The reproducer's text, at most LINES lines."""
    case, cell, shape = what.case, what.cell, what.cell.geometry
    texts = _TEXTS[cell.backend]
    masked, grouped = cell.cache == "padded", shape.num_kv_heads != shape.num_heads
    wrong = case.ratio is None
    rows = max(int(what.rows), *(length + 1 for length in (*case.slow, *case.others)))
    sizes = (shape.num_layers, shape.batch, shape.num_heads, shape.num_kv_heads, shape.head_dim, rows)
    parts = {
        "claim": claim(case),
        "way": way(cell),
        "framework": framework(cell),
        "otherwise": "" if wrong else ", 2: wrong results",
        "imports": "\n".join(f"import {name}" for name in texts.IMPORTS[cell.backend].split()),
        "import framework": texts.FRAMEWORK,
        "settings": texts.SETTINGS[cell.backend],
        "sizes": ", ".join(str(int(size)) for size in sizes),
        "dtype": texts.DTYPE.replace("<dtype>", shape.dtype),
        "slow": [int(length) for length in case.slow],
        "others": [int(length) for length in case.others],
        "claimed": None if wrong else float(f"{case.ratio:.3g}"),
        "present": what.present,
        "tolerance": TOLERANCE[shape.dtype],
        "rounds": _ROUNDS[0] if wrong else what.rounds,
        "calls": what.calls,
        "values": texts.VALUES,
        "kept": texts.KEPT[cell.cache],
        "fresh": texts.FRESH[cell.cache],
        "ready": texts.READY[cell.backend].replace("<hidden>", ", MASK" if masked else ""),
        "begin": texts.BEGIN[cell.cache],
        "update": texts.UPDATE[cell.cache],
        "attend": texts.ATTEND[cell.kernel],
        "finished": texts.FINISHED[cell.backend],
        "exact": texts.EXACT,
        "mask": texts.MASKS[cell.kernel] if masked else "",
        "grouped": texts.GROUPED if grouped else "",
        "device": texts.DEVICES[cell.backend],
        "threads": max(1, min(int(what.threads), 1024)),
    }
    return _fill(_HEAD + (_WRONG if wrong else _SLOW), {name: str(value) for name, value in parts.items()})


def _fill(template: str, parts: dict[str, str]) -> str:
    """The template with its names replaced; texts of several lines keep the indent, empty ones take no line."""
    lines: list[str] = []
    for line in template.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        alone = re.fullmatch(r"\s*<([a-z ]+)>", line)
        if alone and not parts[alone[1]]:
            continue
        filled = re.sub(r"<([a-z ]+)>", lambda match: parts.get(match[1], match[0]), line)
        filled = filled.replace("\n", "\n" + indent)
        lines.append(re.sub(r"<([a-z ]+)>", lambda match: parts.get(match[1], match[0]), filled))
    return "\n".join(line.rstrip() for line in "\n".join(lines).splitlines()) + "\n"
