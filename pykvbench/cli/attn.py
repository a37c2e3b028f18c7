"""pykvbench attn."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykvbench.cell import CACHES
from pykvbench.cli.options import cell_options, result_options, run_options
from pykvbench.cli.show import dated, finish, progress, show
from pykvbench.lengths import parse_lengths

if TYPE_CHECKING:
    from pykvbench.experiment.interpreter import Interpreter
    from pykvbench.experiment.plan import Plan
    from pykvbench.experiment.request import Request


@click.command("attn", short_help="Time a decode step at every KV length: is one slow?")
@cell_options(CACHES, "prealloc", "2, or the model's if it has fewer")
@click.option(
    "--len",
    "lengths",
    default="380:530",
    show_default=True,
    metavar="RANGE",
    help="KV lengths, both ends included: 380:530, 380:530:2, 64:4096:*2, 128,256, 1k:2k.",
)
@click.option(
    "--sweeps",
    type=int,
    default=5,
    show_default=True,
    help="Visits to every length, each in a fresh process; 3 or more.",
)
@click.option("--samples", type=int, default=7, show_default=True, help="Timed calls a visit, after its first two.")
@click.option(
    "--inject",
    multiple=True,
    metavar="LENGTH:RATIOx[@PLACE]",
    help="Add work at a length, to see it found and attributed; labelled in the run. PLACE: append, qk, softmax, pv, "
    "first, alloc, device, joined by +; /3 at the end for every third process.",
)
@click.option(
    "--attribute/--no-attribute",
    default=True,
    help="Whether to measure, after a confirmed finding, what it is due to.  [default: attribute]",
)
@click.option("--cpus", metavar="LIST", help="CPUs that the measuring processes are held to, such as 0,1 (Linux).")
@click.option(
    "--python",
    "programs",
    multiple=True,
    metavar="PROGRAM",
    help="Measure every cell under this Python instead, such as another environment's; several are interleaved.",
)
@run_options
@click.option("--resume", type=click.Path(path_type=Path), help="Continue this run file; all else comes from it.")
@result_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    request: Request,
    lengths: str,
    sweeps: int,
    samples: int,
    inject: tuple[str, ...],
    attribute: bool,
    cpus: str | None,
    programs: tuple[str, ...],
    seed: int,
    warmup: float,
    timeout: float,
    out: Path | None,
    resume: Path | None,
    as_json: bool,
    min_ratio: float,
    fail_on_finding: bool,
) -> None:
    """Time one attention decode step at every KV length and say what stands out.

    Every sweep visits the lengths in its own shuffled order in a fresh process, so that a bad length and a bad minute
    look different.

    \b
    Example:  pykvbench attn --backend mps --len 380:530

    Defaults: GPT-2's heads in float32, attention by hand over a slice of a fixed buffer, so that neither a fused kernel
    nor a growing cache is in the way; 2 layers, since all have one shape. In a quiet run of this range 5 sweeps agree
    on a length by chance less than once in a million runs, and the median of 7 samples survives 3 stalls.
    """
    from pykvbench import record
    from pykvbench.experiment import run as experiment
    from pykvbench.experiment.affinity import parse_cpus
    from pykvbench.experiment.inject import parse_injection
    from pykvbench.experiment.interpreter import interpreters, under
    from pykvbench.experiment.plan import Plan
    from pykvbench.experiment.request import ATTN_LAYERS
    from pykvbench.machine import machine

    if resume is not None:
        path, before = resume, record.read(resume)
        backends = [cell.backend for cell in before.cells]
        with interpreters(programs, backends) as pythons, progress(len(before.visits)) as report:
            status = experiment.resume(before, path, report, pythons)
            if attribute and status == "complete":
                status = _attribute(path, min_ratio, pythons)
    else:
        cells = request.cells(ATTN_LAYERS, here=not programs)
        with interpreters(programs, [cell.backend for cell in cells]) as pythons:
            plan = Plan(
                cells=under(cells, pythons),
                lengths=parse_lengths(lengths),
                sweeps=sweeps,
                samples=samples,
                seed=seed,
                warmup_s=warmup,
                timeout_s=timeout,
                simulate=request.simulate,
                inject=tuple(parse_injection(text) for text in inject),
                cpus=() if cpus is None else parse_cpus(cpus),
                interpreters=pythons,
            )
            path, facts = out or dated("attn", plan.cells), machine()
            for line in (_cost(plan), *experiment.warnings(plan, facts)):
                click.echo(line, err=True)
            with progress(plan.visits) as report:
                status = experiment.start(plan, path, sys.argv[1:], facts, report)
            if attribute and status == "complete":
                status = _attribute(path, min_ratio, pythons)
    result = show(path, min_ratio, as_json)
    finish(ctx, path, status, result, fail_on_finding, f" Finish it with: pykvbench attn --resume {path}")


def _attribute(path: Path, min_ratio: float, pythons: tuple[Interpreter, ...]) -> str:
    """Contrast what the sweeps confirmed, if anything, and return the run's status."""
    from pykvbench import record
    from pykvbench.analysis.targets import targets
    from pykvbench.analysis.verdict import analyze_run
    from pykvbench.experiment import attribution

    run = record.read(path)
    found = targets(run, analyze_run(run, min_ratio))
    attributed = bool(run.contrasts) and run.end is not None and run.end.get("status") == "complete"
    if not found.chosen or attributed:
        return "complete"
    for line in (attribution.cost(run, found.chosen), *found.left_out):
        click.echo(line, err=True)
    with progress(1) as report:
        return attribution.attribute(run, path, found.chosen, found.left_out, report, pythons)


def _cost(plan: Plan) -> str:
    """What the run will do, said before it starts."""
    from pykvbench.analysis.sentences import counted
    from pykvbench.experiment.plan import CALLS_BEFORE_STEADY

    processes = len(plan.cells) * plan.sweeps
    calls = plan.visits * (plan.samples + CALLS_BEFORE_STEADY)
    cells = ", ".join(cell.label for cell in plan.cells)
    return (
        f"{cells}: {counted(len(plan.lengths), 'length')} x {counted(plan.sweeps, 'sweep')} x "
        f"{counted(plan.samples, 'sample')} = {calls} steps in {counted(processes, 'fresh process')}; each adds its "
        f"start-up and {plan.warmup_s:g} s of warm-up."
    )
