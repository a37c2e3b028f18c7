"""pykvbench reuse."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykvbench.cell import CACHES
from pykvbench.cli.options import cell_options, run_options
from pykvbench.cli.show import dated, finish, progress, show
from pykvbench.lengths import parse_lengths

if TYPE_CHECKING:
    from pykvbench.experiment.request import Request
    from pykvbench.experiment.reuse_plan import ReusePlan


@click.command("reuse", short_help="Time to first token: compute a prompt, or restore its KV.")
@cell_options(CACHES, "prealloc", "2 for attention alone, the model's for other bodies")
@click.option(
    "--len", "lengths", default="1k,4k", show_default=True, metavar="RANGE", help="Tokens of the prompt: 8192,16384."
)
@click.option(
    "--tier",
    "tiers",
    default="device,host,disk",
    show_default=True,
    metavar="LIST",
    help="Where KV is restored from, beside computing the prompt again.",
)
@click.option(
    "--body",
    type=click.Choice(("attention", "block", "model")),
    default="attention",
    show_default=True,
    help="What is around the attention: nothing, a layer, or a model.",
)
@click.option("--chunk", type=int, default=512, show_default=True, help="Tokens of the prompt computed at once.")
@click.option("--repeats", type=int, default=5, show_default=True, help="Fresh processes for every length.")
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Use the files of KV in this folder and leave new ones there, instead of removing them.",
)
@run_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout and nothing else.")
@click.option("--fail-on-finding", is_flag=True, help="Exit with status 1 when there is a finding.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    request: Request,
    lengths: str,
    tiers: str,
    body: str,
    chunk: int,
    repeats: int,
    keep: Path | None,
    seed: int,
    warmup: float,
    timeout: float,
    out: Path | None,
    as_json: bool,
    fail_on_finding: bool,
) -> None:
    """Time to first token by computing a prompt again, against restoring its KV from device, host and disk.

    Says how many times faster restoring is, and from which length it pays. Files of KV are written beside the run
    file and read past the page cache.

    Defaults: attention alone in 2 layers, prompts that any machine computes in seconds, chunks of 512 tokens, whose
    scores stay small beside the caches, every tier, and 5 fresh processes for each length.

    \b
    Example:  pykvbench reuse --model llama-3.2-1b --len 2k,8k --tier host,disk
    """
    from pykvbench.experiment import reuse_run as experiment
    from pykvbench.experiment.request import ATTN_LAYERS
    from pykvbench.experiment.reuse_plan import ReusePlan, parse_tiers
    from pykvbench.machine import machine

    plan = ReusePlan(
        cells=request.cells(ATTN_LAYERS if body == "attention" else None, body),
        lengths=parse_lengths(lengths),
        tiers=parse_tiers(tiers),
        chunk=chunk,
        repeats=repeats,
        seed=seed,
        warmup_s=warmup,
        timeout_s=timeout,
        keep=keep,
    )
    path, facts = out or dated("reuse", plan.cells), machine()
    for line in (_cost(plan), *experiment.warnings(plan, facts)):
        click.echo(line, err=True)
    with progress(len(plan.launches())) as report:
        status = experiment.start(plan, path, sys.argv[1:], facts, report)
    finish(ctx, path, status, show(path, as_json=as_json), fail_on_finding)


def _cost(plan: ReusePlan) -> str:
    """What the run will do, said before it starts."""
    from pykvbench.analysis.sentences import counted

    cells = ", ".join(cell.label for cell in plan.cells)
    disk = f", up to {plan.disk_bytes / 2**20:.0f} MiB on the disk" if plan.disk_bytes else ""
    return (
        f"{cells}: {counted(len(plan.lengths), 'prompt')} x {counted(plan.repeats, 'repeat')} in "
        f"{counted(len(plan.launches()), 'fresh process')}, each computing its prompt twice or more{disk}; then "
        "shorter prompts, to find from where restoring pays."
    )
