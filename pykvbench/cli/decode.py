"""pykvbench decode."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykvbench.cell import BODIES, CACHES, NO_CACHE
from pykvbench.cli.options import cell_options, result_options, run_options
from pykvbench.cli.show import dated, finish, progress, show
from pykvbench.lengths import parse_lengths

if TYPE_CHECKING:
    from pykvbench.experiment.decode_plan import DecodePlan
    from pykvbench.experiment.request import Request


@click.command("decode", short_help="Time whole generations: length, budget, history or time?")
@cell_options((*CACHES, NO_CACHE), "concat", "2 for attention alone, the model's for other bodies")
@click.option(
    "--budget",
    default="480:656:16",
    show_default=True,
    metavar="RANGE",
    help="New tokens in a generation (max_tokens).",
)
@click.option(
    "--prompt", default="65", show_default=True, metavar="RANGE", help="Tokens in the cache before the first step."
)
@click.option(
    "--body",
    type=click.Choice(BODIES),
    default="attention",
    show_default=True,
    help="What is around the attention: nothing, a layer, a model, or the library's own model.",
)
@click.option("--repeats", type=int, default=5, show_default=True, help="Generations of every budget.")
@click.option(
    "--history",
    type=click.Choice(("fresh", "shared")),
    default="fresh",
    show_default=True,
    help="A process for each generation, or one for all of a cell's.",
)
@click.option(
    "--order",
    type=click.Choice(("shuffled", "ascending")),
    default="shuffled",
    show_default=True,
    help="Ascending budgets in a shared process repeat the paper's protocol: 3 warm-up generations, then the repeats.",
)
@run_options
@result_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    request: Request,
    budget: str,
    prompt: str,
    body: str,
    repeats: int,
    history: str,
    order: str,
    seed: int,
    warmup: float,
    timeout: float,
    out: Path | None,
    as_json: bool,
    min_ratio: float,
    fail_on_finding: bool,
) -> None:
    """Time every step of whole generations and say whether their cost follows length, budget, history or time.

    A 640-token generation contains each step of a 512-token one: where it is faster, no length is to blame.

    \b
    Example:  pykvbench decode --backend mps --budget 480:656:16

    Defaults: budgets and prompt of the report that this question comes from (arXiv 2605.08913), a cache that grows by
    concatenation, as in that report, and a fresh process for each of 5 generations of every budget, all shuffled.
    """
    from pykvbench.experiment import decode_run as experiment
    from pykvbench.experiment.decode_plan import DecodePlan
    from pykvbench.experiment.request import ATTN_LAYERS
    from pykvbench.machine import machine

    plan = DecodePlan(
        cells=request.cells(ATTN_LAYERS if body == "attention" else None, body),
        budgets=parse_lengths(budget, "--budget"),
        prompts=parse_lengths(prompt, "--prompt"),
        repeats=repeats,
        history=history,
        order=order,
        seed=seed,
        warmup_s=warmup,
        timeout_s=timeout,
        simulate=request.simulate,
    )
    path, facts = out or dated("decode", plan.cells), machine()
    for line in (_cost(plan), *experiment.warnings(plan, facts)):
        click.echo(line, err=True)
    with progress(plan.trajectories) as report:
        status = experiment.start(plan, path, sys.argv[1:], facts, report)
    finish(ctx, path, status, show(path, min_ratio, as_json), fail_on_finding)


def _cost(plan: DecodePlan) -> str:
    """What the run will do, said before it starts."""
    from pykvbench.analysis.sentences import counted

    processes = len(plan.launches())
    steps = len(plan.cells) * len(plan.prompts) * sum(plan.budgets) * plan.repeats
    cells = ", ".join(cell.label for cell in plan.cells)
    return (
        f"{cells}: {counted(len(plan.budgets), 'budget')} x {counted(len(plan.prompts), 'prompt')} x "
        f"{counted(plan.repeats, 'repeat')} = {steps} steps in {counted(processes, 'process')}; each adds its start-up "
        f"and {plan.warmup_s:g} s of warm-up."
    )
