"""pykvbench capacity."""

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
    from pykvbench.experiment.capacity_plan import CapacityPlan
    from pykvbench.experiment.request import Request


@click.command("capacity", short_help="Serve many sequences: KV memory, tail latency, what fits.")
@cell_options(CACHES, "prealloc", "the model's")
@click.option(
    "--context", default="256:1k:*2", show_default=True, metavar="RANGE", help="Tokens in every sequence on arrival."
)
@click.option(
    "--concurrency", default="1,2,4,8", show_default=True, metavar="RANGE", help="Sequences that are served at once."
)
@click.option("--tokens", type=int, default=32, show_default=True, help="New tokens that each sequence is due.")
@click.option("--budget", metavar="SIZE", help="Memory that all caches together may take: 16GiB, 512MiB.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="LIST",
    help="What to do with sequences beyond the budget: reject, queue, evict-recompute, spill-host, spill-disk. "
    "Default: each in turn.",
)
@click.option("--repeats", type=int, default=3, show_default=True, help="Fresh processes for every load and policy.")
@run_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout and nothing else.")
@click.option("--fail-on-finding", is_flag=True, help="Exit with status 1 when there is a finding.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    request: Request,
    context: str,
    concurrency: str,
    tokens: int,
    budget: str | None,
    policies: tuple[str, ...],
    repeats: int,
    seed: int,
    warmup: float,
    timeout: float,
    out: Path | None,
    as_json: bool,
    fail_on_finding: bool,
) -> None:
    """Serve many sequences at once: the memory their KV caches take, when the tail of latency breaks, what fits.

    Every sequence has caches of its own and is decoded round-robin with the others, a token a turn. Beyond --budget
    each policy shows what it costs: refusing, waiting, computing caches again, or moving them out and back.

    \b
    Example:  pykvbench capacity --model llama-3.2-1b --context 1k:4k:*2 --budget 1GiB

    Defaults: small loads that fit any machine, all layers of the model, no limit of memory, and 3 fresh processes for
    each load, of which medians are shown.
    """
    from pykvbench.dispatch.footprint import allocator_name
    from pykvbench.drivers.availability import availability
    from pykvbench.experiment import capacity_run as experiment
    from pykvbench.experiment.capacity_plan import CapacityPlan, device_memory, parse_policies
    from pykvbench.machine import machine
    from pykvbench.sizes import parse_size

    limit = None if budget is None else parse_size(budget)
    named = parse_policies(policies, limit)
    contexts, concurrencies = parse_lengths(context, "--context"), parse_lengths(concurrency, "--concurrency")
    cells, facts = request.cells(), machine()
    gpu = availability("mlx").gpu
    allocators = tuple(allocator_name(cell, str(facts.get("os")), gpu) for cell in cells)
    plan = CapacityPlan(
        cells=cells,
        contexts=contexts,
        concurrencies=concurrencies,
        allocators=allocators,
        memory=tuple(device_memory(allocator, facts) for allocator in allocators),
        budget=limit,
        policies=named,
        tokens=tokens,
        repeats=repeats,
        seed=seed,
        warmup_s=warmup,
        timeout_s=timeout,
        simulate=request.simulate,
    )
    path = out or dated("capacity", plan.cells)
    for line in (_cost(plan), *experiment.warnings(plan, facts)):
        click.echo(line, err=True)
    with progress(len(plan.launches())) as report:
        status = experiment.start(plan, path, sys.argv[1:], facts, report)
    finish(ctx, path, status, show(path, as_json=as_json), fail_on_finding)


def _cost(plan: CapacityPlan) -> str:
    """What the run will do, said before it starts."""
    from pykvbench.sizes import format_size

    points = plan.points()
    steps = sum(point.concurrency for point in points) * plan.tokens * plan.repeats
    cells = ", ".join(cell.label for cell in plan.cells)
    most = format_size(max(plan.needed(point) for point in points))
    return (
        f"{cells}: {len(points)} loads x {plan.repeats} repeats = {steps} steps in {len(plan.launches())} fresh "
        f"processes, about twice as many to check them, caches of up to {most}; each process adds its start-up "
        f"and {plan.warmup_s:g} s of warm-up."
    )
