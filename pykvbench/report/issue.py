"""The text of a bug report, in the form that PyTorch's or MLX's maintainers ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pykvbench.analysis.attribution import Attribution
from pykvbench.analysis.case import Case
from pykvbench.analysis.finding import Result
from pykvbench.analysis.reproduction import Reproduction
from pykvbench.record import Run
from pykvbench.report import evidence, numbers, repro, sentence
from pykvbench.report.foreign import code, plain
from pykvbench.report.versions import framework_version, versions

_SEEN = "No KV length should cost more than a longer one: fewer keys can be attended by masking some of more keys."


@dataclass(frozen=True)
class Subject:
    """All that a report is made of; `script` is None where no reproducer can exist."""

    run: Run
    result: Result
    case: Case
    attribution: Attribution | None
    script: str | None
    reproduction: Reproduction

    @property
    def backend(self) -> str:
        """The backend of the cell that the report is about."""
        return self.run.cells[self.case.cell].backend

    @property
    def simulated(self) -> bool:
        """Whether the times are programmed."""
        return self.backend == "simulated"

    @property
    def in_some(self) -> bool:
        """Whether the effect is known to be in some processes only."""
        return self.case.finding.kind == "intermittent"


def render(subject: Subject) -> str:
    """The report; its first line says so when the reproducer does not show what is claimed."""
    form = _mlx if subject.backend in ("mlx", "mlx-cpu") else _torch
    lines = [*_first(subject), *form(subject)]
    return "\n".join(lines).rstrip() + "\n"


def title(subject: Subject) -> str:
    """The claim in one line, as an issue's title."""
    version = framework_version(subject.run, subject.case.cell)
    shape = subject.run.cells[subject.case.cell].geometry
    where = ", ".join(part for part in (subject.backend, code(version) if version else "", shape.dtype) if part)
    return f"{repro.claim(subject.case).removesuffix('.')} ({where})"


def standing(subject: Subject) -> str:
    """What the reproducer came to, in one sentence; empty when it shows what is claimed."""
    done, claimed = subject.reproduction, _claimed(subject.case)
    if subject.simulated:
        return (
            "**Simulated device: a demonstration, not a bug.** These times are programmed; nothing can reproduce them."
        )
    if not done.executed:
        return f"**The reproducer was not executed here:** {plain(done.reason)}"
    if done.reproduced(subject.in_some):
        return ""
    ended = [attempt for attempt in done.attempts if attempt.status in (0, 1) and attempt.observed is not None]
    if not ended:
        return f"**Not reproduced:** the reproducer did not come to its end in {_count(done)}; see its output below."
    return (
        f"**Not reproduced:** the reproducer shows the effect in {done.shown} of {_count(done)} "
        f"(observed {_observed(done, subject.case)}; claimed {claimed})."
    )


def _first(subject: Subject) -> Sequence[str]:
    line = standing(subject)
    heading = f"**Title:** {title(subject)}"
    return (line, "", heading, "") if line else (heading, "")


def _torch(subject: Subject) -> Sequence[str]:
    return (
        "### 🐛 Describe the bug",
        "",
        *_bug(subject),
        *_expected(subject),
        *_reproduce(subject),
        *_context(subject),
        "**Tools used.** Measured and filled in by pykvbench, a program. Reporter: name here every other tool, AI "
        "included, that you used, as PyTorch's policy on AI-assisted development asks.",
        "",
        "### Versions",
        "",
        *versions(subject.run, subject.case.cell),
        "",
        "Reporter: add the output of `python -m torch.utils.collect_env`; it names no Apple GPU and no power source.",
    )


def _mlx(subject: Subject) -> Sequence[str]:
    return (
        "- [ ] Reporter: MLX's form forbids issues written by AI and asks for your word. This text was filled in by "
        "pykvbench, a program, from what it measured; put it in your own words, and name here every tool you used.",
        "",
        "**Describe the bug**",
        "",
        *_bug(subject),
        *_reproduce(subject),
        *_expected(subject),
        "**Desktop**",
        "",
        *versions(subject.run, subject.case.cell),
        "",
        "**Additional context**",
        "",
        *_context(subject),
    )


def _bug(subject: Subject) -> Sequence[str]:
    """The claim, what was observed, and the table."""
    run, case = subject.run, subject.case
    cell, shape = subject.result.cells[case.cell], run.cells[case.cell].geometry
    step = (
        f"One decode step of {code(run.cells[case.cell].kernel)} attention ({sentence.geometry(shape)}, {shape.dtype}, "
        f"{code(run.cells[case.cell].cache)} cache): a new row of K and V is written and one query attends all L keys."
    )
    return (
        repro.claim(case),
        "",
        step,
        "",
        f"**Observed.** {_observation(subject)}",
        "",
        *evidence.table(case, cell, shape),
        "",
        evidence.accounting(case, shape, run),
        "",
        f"**Cause.** {_cause(subject)}",
        "",
        *_workaround(subject),
    )


def _expected(subject: Subject) -> Sequence[str]:
    heading = "**Expected.**" if subject.backend not in ("mlx", "mlx-cpu") else "**Expected behavior**"
    if subject.case.ratio is None:
        return (f"{heading} The result that float64 gives, up to rounding.", "")
    return (f"{heading} {_SEEN}", "")


def _reproduce(subject: Subject) -> Sequence[str]:
    """The reproducer inline, and what it printed here."""
    heading = "**Reproducer**" if subject.backend not in ("mlx", "mlx-cpu") else "**To Reproduce**"
    if subject.script is None:
        return (f"{heading}: none. {plain(subject.reproduction.reason)}", "")
    framework = repro.framework(subject.run.cells[subject.case.cell])
    lines = [
        f"{heading} (repro.py; needs {framework} alone, exits with 1 when the effect is there)",
        "",
        "```python",
        subject.script.rstrip(),
        "```",
        "",
        _executed(subject),
        "",
    ]
    if subject.reproduction.attempts:
        shown = subject.reproduction.attempts[0]
        lines += [*evidence.fenced(shown.output), ""]
    return lines


def _executed(subject: Subject) -> str:
    done = subject.reproduction
    if not done.executed:
        return f"It was not executed here: {plain(done.reason)}"
    statuses = ", ".join("given up" if one.status is None else str(one.status) for one in done.attempts)
    return (
        f"Executed in {_count(done)} with `python -W error repro.py` before this was written"
        f"{f' ({plain(done.where)})' if done.where else ''}: shows in {done.shown} of {len(done.attempts)}, observed "
        f"{_observed(done, subject.case)}, claimed {_claimed(subject.case)}; exit status {statuses}. The first printed:"
    )


def _context(subject: Subject) -> Sequence[str]:
    """Contrasts, controls, predictions and raw samples."""
    run, case = subject.run, subject.case
    return (
        "**Contrasts tried**",
        "",
        *evidence.contrasts(subject.attribution),
        "",
        "**Controls**",
        "",
        *evidence.controls(case, subject.result, run),
        "",
        "**Predicted route and landmarks** (from versions and shapes alone)",
        "",
        *evidence.predictions(case, run),
        "",
        *evidence.folded("Raw samples", evidence.fenced("\n".join(evidence.samples(case, run)))),
        "",
    )


def _observation(subject: Subject) -> str:
    finding, curve = subject.case.finding, subject.result.cells[subject.case.cell].curve
    if subject.case.ratio is None:
        return plain(finding.note)
    slow = max(subject.case.slow, key=lambda length: _excess(subject, length))
    longer = [length for length in subject.case.others if length > slow]
    cost = {length: float(curve.median_ns[curve.lengths == length][0]) for length in (slow, *longer)}
    cheapest = min(longer, key=lambda length: cost[length])
    proof = [f"{numbers.ratio(subject.case.ratio)}"]
    proof += [f"in {finding.votes} sweeps, each a fresh process"] if finding.votes else []
    proof += [f"p = {numbers.p_value(finding.p)}"] if finding.p is not None else []
    apparent = "" if finding.confidence == "confirmed" else " This finding is apparent, not confirmed."
    return (
        f"{finding.kind} at L = {sentence.span(finding.lengths)}: {slow} keys take {numbers.duration(cost[slow])}, "
        f"{cheapest} keys {numbers.duration(cost[cheapest])}; {', '.join(proof)}.{apparent}"
    )


def _excess(subject: Subject, length: int) -> float:
    curve = subject.result.cells[subject.case.cell].curve
    at = int(np.flatnonzero(curve.lengths == length)[0])
    return float(np.nan_to_num(curve.median_ns[at] / curve.baseline_ns[at]))


def _cause(subject: Subject) -> str:
    if subject.attribution is None:
        return "Not looked for in this run."
    return plain(subject.attribution.cause or "No contrast explains it.")


def _workaround(subject: Subject) -> Sequence[str]:
    found = subject.attribution.workaround if subject.attribution is not None else None
    return (f"**Workaround.** {plain(found)}", "") if found else ()


def _claimed(case: Case) -> str:
    return "a wrong result" if case.ratio is None else numbers.ratio(case.ratio)


def _observed(done: Reproduction, case: Case) -> str:
    values = [one.observed for one in done.attempts if one.observed is not None]
    said = [f"{value:.1e}" if case.ratio is None else numbers.ratio(value) for value in values]
    return ", ".join(said) or "nothing"


def _count(done: Reproduction) -> str:
    return f"{len(done.attempts)} fresh process{'es' if len(done.attempts) > 1 else ''}"
