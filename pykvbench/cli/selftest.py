"""pykvbench selftest."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import click

from pykvbench.cell import CACHES
from pykvbench.cli.options import cell_options
from pykvbench.cli.show import progress

if TYPE_CHECKING:
    from pykvbench.experiment.request import Request

NOT_FIT = 1


@click.command("selftest", short_help="Test the instrument on this machine.")
@cell_options(CACHES, "prealloc", "2, or the model's if it has fewer")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of where and how much is injected.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout and nothing else.")
@click.pass_context
def command(ctx: click.Context, /, request: Request, seed: int, as_json: bool) -> None:
    """Test the instrument on this machine: extra work of known size at random lengths must be found, and nothing else.

    Injects 1.1x to 21x on the host, on the device and in one operation, asks attribution where each was, and states
    the limit of detection. Takes about a minute. Exits with status 1, and advice, when the instrument is not fit.

    \b
    Example:  pykvbench selftest --backend cpu
    """
    from pykvbench.analysis.selftest import judge
    from pykvbench.errors import UsageError
    from pykvbench.experiment import selftest
    from pykvbench.experiment.request import ATTN_LAYERS
    from pykvbench.machine import machine
    from pykvbench.report.selftest import render

    cell, *more = request.cells(ATTN_LAYERS)
    if more:
        raise UsageError("selftest takes one backend, kernel, cache and dtype; run it once for each.")
    with progress(0) as report:
        measured = selftest.measure(cell, seed, request.simulate, machine(), report)
    result = judge(measured.fitness, measured.run, measured.injected)
    if as_json:
        click.echo(json.dumps(result.to_json(), indent=2))
    else:
        click.echo(render(result, shutil.get_terminal_size().columns), nl=False)
    ctx.exit(0 if result.fit else NOT_FIT)
