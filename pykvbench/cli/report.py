"""pykvbench report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pykvbench.analysis.reproduction import Reproduction
    from pykvbench.report.repro import Reproducer


@click.command("report", short_help="Write a bug report: text, one-file reproducer, picture.")
@click.argument("path", type=click.Path(path_type=Path), metavar="RUN")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help="Folder to write: a new or an empty one."
)
def command(path: Path, out: Path) -> None:
    """Write a bug report of a run's largest finding: issue text, one-file reproducer, picture and run file.

    The reproducer needs torch or mlx alone. It is run in fresh processes first, and the report says what it showed.
    A run without a slow length gives a negative report: what was covered, and what it could have seen.

    \b
    Example:  pykvbench report runs/before.jsonl -o report/
    """
    from pykvbench.analysis.file import analyze_file
    from pykvbench.experiment.reproduce import reproduce
    from pykvbench.machine import machine
    from pykvbench.report import bundle

    analysed, result = analyze_file(path)
    run = bundle.check(path, analysed, out)

    def execute(script: str, what: Reproducer) -> Reproduction:
        click.echo("Trying the reproducer in fresh processes ...", err=True)
        in_some = what.case.finding.kind == "intermittent"
        return reproduce(script, what.cell, what.rows, what.seconds, machine(), in_some, what.gpu)

    prepared = bundle.prepare(run, result, execute)
    bundle.write(out, path, run, result, prepared)
    click.echo(bundle.said(prepared))
    click.echo(f"Report: {out / 'issue.md'}", err=True)
