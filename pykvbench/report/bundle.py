"""The folder that `report` writes: which runs it takes, what is in it, and that it never touches what is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pykvbench.analysis.attribution import attributions
from pykvbench.analysis.case import Case, case_of
from pykvbench.analysis.finding import Result
from pykvbench.analysis.reproduction import Reproduction
from pykvbench.dispatch.landmarks import landmarks_of_run
from pykvbench.dispatch.layout import fixed_capacity
from pykvbench.errors import RunFileError, UsageError
from pykvbench.record import Run
from pykvbench.report import evidence, issue, negative, plot, repro
from pykvbench.report.foreign import plain, scrub_line
from pykvbench.report.repro import Reproducer
from pykvbench.report.versions import described

Reproduce = Callable[[str, Reproducer], Reproduction]  # runs a reproducer's text


@dataclass(frozen=True)
class Bundle:
    """What goes into the folder, and the one line that says what it comes to."""

    text: str
    script: str | None
    headline: str


def check(path: Path, run: Run | None, out: Path) -> Run:
    """The run, if a report can be made of it into `out`; raises UsageError with the remedy otherwise."""
    if run is None:
        raise RunFileError(f"{path} is a table, and a report needs raw samples; measure with pykvbench attn.")
    command = run.header.get("command", "attn")
    if command != "attn":
        raise RunFileError(
            f"{path} is not a run of `attn`, and only visits to single lengths can convict a length; "
            "measure the lengths in question with pykvbench attn --len."
        )
    if run.plan.get("inject"):
        raise UsageError(
            f"{path} has extra work injected on purpose, so its findings are no bugs; run it again without --inject."
        )
    if not len(run.visits):
        raise RunFileError(f"{path} holds no visit, so there is nothing to report; measure again with pykvbench attn.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists and is not an empty folder; name another one with -o.")
    return run


def prepare(run: Run, result: Result, reproduce: Reproduce) -> Bundle:
    """The text of the report, after its reproducer was run; a negative report where no length is slow or wrong."""
    case = case_of(result)
    if case is None:
        return Bundle(negative.render(run, result), None, negative.headline(run, result))
    found = evidence.attribution_of(case, attributions(run))
    what = reproducer(run, result, case)
    script = None if what is None else repro.script(what)
    done = reproduce(script, what) if script is not None and what is not None else _none(run, case)
    subject = issue.Subject(run, result, case, found, script, done)
    shows = f"Reproduced in {done.shown} of {len(done.attempts)} fresh processes." if done.executed else ""
    return Bundle(issue.render(subject), script, f"{repro.claim(case)} {issue.standing(subject) or shows}")


def reproducer(run: Run, result: Result, case: Case) -> Reproducer | None:
    """What shows a case in a file of its own; None where nothing can, as for the simulated device."""
    cell, curve = run.cells[case.cell], result.cells[case.cell].curve
    if not repro.reproducible(cell):
        return None
    device = described(run, case.cell)
    threads = device.get("threads")
    return Reproducer(
        case=case,
        cell=cell,
        rows=fixed_capacity(int(curve.lengths[0]), int(curve.lengths[-1])),
        samples=int(run.visits.total.shape[1]),
        step_ns=float(np.nanmedian(curve.median_ns)),
        threads=threads if isinstance(threads, int) else 1,
        gpu=cell.backend in ("mps", "cuda") or device.get("device") == "gpu",
    )


def write(out: Path, path: Path, run: Run, result: Result, bundle: Bundle) -> None:
    """Write issue.md, repro.py where there is one, run.png and run.jsonl, the run file without what tells who or where.

    Raises UsageError when the folder cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "issue.md").write_text(bundle.text, encoding="utf-8")
        if bundle.script is not None:
            (out / "repro.py").write_text(bundle.script, encoding="utf-8")
        with open(path, "rb") as source, open(out / "run.jsonl", "wb") as copy:
            copy.writelines(map(scrub_line, source))
    except OSError as error:
        raise UsageError(f"{out} cannot be written ({error.strerror}); name another folder with -o.") from None
    if any(np.isfinite(cell.curve.median_ns).any() for cell in result.cells):
        plot.draw(run, result, out / "run.png", landmarks_of_run(run))


def said(bundle: Bundle) -> str:
    """The headline for a terminal, without Markdown."""
    return bundle.headline.replace("**", "").replace("\\", "").replace("`", "")


def _none(run: Run, case: Case) -> Reproduction:
    """Why there is no reproducer."""
    backend = run.cells[case.cell].backend
    if backend == "simulated":
        return Reproduction(reason="The device is simulated, so no framework has this.")
    return Reproduction(reason=f"A step of {plain(run.cells[case.cell].label)} does not fit a file of its own.")
