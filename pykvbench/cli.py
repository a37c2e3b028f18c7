"""The command line: declares options, calls one core function, prints. What is heavy is imported when needed."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pykvbench import __version__
from pykvbench.cell import BACKENDS, CACHES, KERNELS, Cell
from pykvbench.errors import PykvbenchError, UsageError
from pykvbench.geometry import DTYPES, MODELS, Geometry, geometry
from pykvbench.lengths import parse_lengths

if TYPE_CHECKING:
    from pykvbench.analysis.finding import Result
    from pykvbench.experiment.plan import Plan
    from pykvbench.experiment.run import Progress

Command = TypeVar("Command", bound=Callable[..., Any])

FINDINGS, USAGE, INCOMPLETE = 1, 2, 3  # exit statuses
ATTN_LAYERS = (
    4  # all layers have one shape, so more of them repeat the same work: 4 keep a sweep short and outweigh a sync
)


class Failure(click.ClickException):
    """A PykvbenchError on its way to the terminal: one sentence, exit status 2."""

    exit_code = USAGE


class Commands(click.Group):
    """Turns what the core raises on purpose into one sentence and an exit status, never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PykvbenchError as error:
            raise Failure(str(error)) from None


def _names(option: str, known: Sequence[str], default: str | None, text: str) -> Callable[[Command], Command]:
    """A repeatable option that takes known names, several at once in a comma list."""

    def read(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
        names = [name.strip() for value in values or ([default] if default else []) for name in value.split(",")]
        for name in names:
            if name not in known:
                raise Failure(f"{option} {name} is unknown; choose one of {', '.join(known)}.")
        return tuple(dict.fromkeys(names))

    plural = option.strip("-") + "s"
    suffix = f"  [default: {default}]" if default else ""
    return click.option(
        option, plural, multiple=True, callback=read, metavar="[" + "|".join(known) + "]", help=text + suffix
    )


def cell_options(command: Command) -> Command:
    """Options that multiply into cells, and the geometry they share."""
    options = (
        _names("--backend", BACKENDS, None, "Framework and device; several are interleaved. Default: the best here."),
        _names("--kernel", KERNELS, "manual", "Attention as matmul, softmax, matmul, or the framework's fused one."),
        _names("--cache", CACHES, "prealloc", "How the KV cache grows."),
        _names("--dtype", tuple(DTYPES), "float32", "Element type of Q, K and V."),
        click.option(
            "--model", default="gpt2", show_default=True, metavar="NAME", help=f"Geometry preset: {', '.join(MODELS)}."
        ),
        click.option(
            "--num-layers",
            type=int,
            help=f"Layers stepped through. Default: {ATTN_LAYERS}, or the model's if it has fewer.",
        ),
        click.option("--num-heads", type=int, help="Query heads instead of the preset's."),
        click.option("--num-kv-heads", type=int, help="KV heads instead of the preset's."),
        click.option("--head-dim", type=int, help="Head dimension instead of the preset's."),
        click.option("--batch", type=int, default=1, show_default=True, help="Sequences stepped at once."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def result_options(command: Command) -> Command:
    """Options of every command that ends in a verdict."""
    options = (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout and nothing else."),
        click.option(
            "--min-ratio", type=float, default=1.10, show_default=True, help="Smallest excess that is a finding."
        ),
        click.option("--fail-on-finding", is_flag=True, help="Exit with status 1 when there is a finding."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="pykvbench")
def main() -> None:
    """Is LLM decoding slow at some KV lengths because of the attention kernel dispatched there, or for another reason?

    \b
    Start with:  pykvbench attn --len 380:530
    """
    with contextlib.suppress(ValueError):  # not in the main thread: nothing to handle
        signal.signal(signal.SIGTERM, _interrupt)


@main.command()
@cell_options
@click.option(
    "--len",
    "lengths",
    default="380:530",
    show_default=True,
    metavar="RANGE",
    help="KV lengths, both ends included: 380:530, 380:530:2, 64:4096:*2, 128,256, 1k:2k.",
)
@click.option(
    "--sweeps", type=int, default=5, show_default=True, help="Visits to every length, each in a fresh process."
)
@click.option(
    "--samples", type=int, default=7, show_default=True, help="Steady samples a visit, after the first and second call."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the values and of the orders.")
@click.option(
    "--warmup",
    type=float,
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Stepping before each sweep's first visit.",
)
@click.option(
    "--timeout",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="A visit that takes longer is given up.",
)
@click.option(
    "--inject",
    multiple=True,
    metavar="LENGTH:RATIOx",
    help="Add work on the host at a length, to see it found; labelled in the run.",
)
@click.option("--simulate", metavar="PROGRAM", help="What --backend simulated does, such as 421=21x,noise=3%.")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="Run file to write. Default: a dated file under runs/."
)
@click.option(
    "--resume", type=click.Path(path_type=Path), help="Continue this run file; every other option comes from it."
)
@result_options
@click.pass_context
def attn(
    ctx: click.Context,
    /,
    lengths: str,
    out: Path | None,
    resume: Path | None,
    as_json: bool,
    min_ratio: float,
    fail_on_finding: bool,
    **options: Any,
) -> None:
    """Time one attention decode step at every KV length and say what stands out.

    Every sweep visits the lengths in its own shuffled order in a fresh process, so that a bad length and a bad minute
    look different.

    \b
    Example:  pykvbench attn --backend mps --len 380:530
    """
    from pykvbench import record
    from pykvbench.experiment import run as experiment
    from pykvbench.machine import machine

    if resume is not None:
        path, before = resume, record.read(resume)
        with _progress(len(before.visits)) as report:
            status = experiment.resume(before, path, report)
    else:
        plan = _plan(lengths, **options)
        path = out or _dated(plan)
        facts = machine()
        for line in (_cost(plan), *experiment.warnings(plan, facts)):
            click.echo(line, err=True)
        with _progress(plan.visits) as report:
            status = experiment.start(plan, path, sys.argv[1:], facts, report)
    result = _show(path, min_ratio, as_json)
    if status != "complete":
        click.echo(
            f"The run is {status}; what was measured is in {path}. Finish it with: pykvbench attn --resume {path}",
            err=True,
        )
        ctx.exit(INCOMPLETE)
    click.echo(f"Run file: {path}", err=True)
    ctx.exit(FINDINGS if fail_on_finding and result.findings else 0)


@main.command()
@click.argument("path", type=click.Path(path_type=Path), metavar="RUN|CSV")
@result_options
@click.pass_context
def analyze(ctx: click.Context, /, path: Path, as_json: bool, min_ratio: float, fail_on_finding: bool) -> None:
    """Say what a run file shows, or anyone's own table of lengths and times.

    A CSV needs a column length (or budget, for whole generations) and one of time_s, time_ms, time_us, time_ns; the
    columns sweep and order are used when present.

    \b
    Example:  pykvbench analyze runs/before.jsonl --json
    """
    result = _show(path, min_ratio, as_json)
    ctx.exit(FINDINGS if fail_on_finding and result.findings else 0)


@main.command()
@click.argument("path", type=click.Path(path_type=Path), metavar="RUN|CSV")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help="Picture to write: .png, .svg or .pdf."
)
def plot(path: Path, out: Path) -> None:
    """Draw latency against length, and against the time of measurement.

    \b
    Example:  pykvbench plot runs/before.jsonl -o before.png
    """
    from pykvbench.analysis.file import analyze_file
    from pykvbench.dispatch.landmarks import landmarks_of_run
    from pykvbench.report.plot import draw

    run, result = analyze_file(path)
    draw(run, result, out, landmarks_of_run(run) if run is not None else ())
    click.echo(f"Picture: {out}", err=True)


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout and nothing else.")
def doctor(as_json: bool) -> None:
    """Say which backends work here, how good the clock is, and what would disturb a run.

    \b
    Example:  pykvbench doctor
    """
    from pykvbench.experiment.probe import examine
    from pykvbench.report.doctor import render

    examination = examine()
    click.echo(json.dumps(examination, indent=2) if as_json else render(examination))


def _plan(
    lengths: str,
    backends: tuple[str, ...],
    kernels: tuple[str, ...],
    caches: tuple[str, ...],
    dtypes: tuple[str, ...],
    model: str,
    num_layers: int | None,
    num_heads: int | None,
    num_kv_heads: int | None,
    head_dim: int | None,
    batch: int,
    sweeps: int,
    samples: int,
    seed: int,
    warmup: float,
    timeout: float,
    inject: tuple[str, ...],
    simulate: str | None,
) -> Plan:
    """The experiment that the options describe."""
    from pykvbench.drivers.availability import best_backend
    from pykvbench.drivers.program import parse_program
    from pykvbench.experiment.inject import parse_injection
    from pykvbench.experiment.plan import Plan

    shape: Callable[[str, int | None], Geometry] = lambda dtype, layers: geometry(  # noqa: E731
        model, dtype, batch, layers, num_heads, num_kv_heads, head_dim
    )
    layers = min(ATTN_LAYERS, shape("float32", None).num_layers) if num_layers is None else num_layers
    names = backends or (best_backend(),)
    if simulate is not None:
        if names != ("simulated",):
            raise UsageError("--simulate programs the simulated device only; add --backend simulated.")
        parse_program(simulate)
    return Plan(
        cells=tuple(
            Cell(backend, kernel, cache, shape(dtype, layers))
            for backend in names
            for kernel in kernels
            for cache in caches
            for dtype in dtypes
        ),
        lengths=parse_lengths(lengths),
        sweeps=sweeps,
        samples=samples,
        seed=seed,
        warmup_s=warmup,
        timeout_s=timeout,
        simulate=simulate,
        inject=tuple(parse_injection(text) for text in inject),
    )


def _cost(plan: Plan) -> str:
    """What the run will do, said before it starts."""
    from pykvbench.experiment.plan import CALLS_BEFORE_STEADY

    processes = len(plan.cells) * plan.sweeps
    calls = plan.visits * (plan.samples + CALLS_BEFORE_STEADY)
    cells = ", ".join(cell.label for cell in plan.cells)
    return (
        f"{cells}: {len(plan.lengths)} lengths x {plan.sweeps} sweeps x {plan.samples} samples = {calls} steps in "
        f"{processes} fresh processes; each adds its start-up and {plan.warmup_s:g} s of warm-up."
    )


def _dated(plan: Plan) -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{stamp}-attn-{'-'.join(dict.fromkeys(cell.backend for cell in plan.cells))}.jsonl"


@contextlib.contextmanager
def _progress(visits: int) -> Iterator[Callable[[Progress], None]]:
    """A bar on stderr, where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda progress: None
        return
    with click.progressbar(
        length=visits, file=sys.stderr, show_pos=True, item_show_func=lambda item: item or ""
    ) as bar:

        def report(progress: Progress) -> None:
            bar.length = progress.visits
            bar.update(progress.done - bar.pos, f"{progress.cell}, sweep {progress.sweep + 1}")

        yield report


def _show(path: Path, min_ratio: float, as_json: bool) -> Result:
    """Analyse a file and print what it says."""
    from pykvbench.analysis.file import analyze_file, describe
    from pykvbench.report.text import render

    run, result = analyze_file(path, min_ratio)
    if as_json:
        click.echo(json.dumps(result.to_json(), indent=2))
    else:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        click.echo(render(result, header=describe(run), width=shutil.get_terminal_size().columns, colour=colour))
    return result


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
