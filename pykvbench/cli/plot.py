"""pykvbench plot."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("plot", short_help="Draw a run or a CSV: latency against length, and over time.")
@click.argument("path", type=click.Path(path_type=Path), metavar="RUN|CSV")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help="Picture to write: .png, .svg or .pdf."
)
def command(path: Path, out: Path) -> None:
    """Draw latency against length and against the time of measurement, a decode run's fan of
    trajectories, a capacity run's memory and tails, or a reuse run's times to first token.

    \b
    Example:  pykvbench plot runs/before.jsonl -o before.png
    """
    from pykvbench.analysis.file import analyze_file
    from pykvbench.dispatch.landmarks import landmarks_of_run
    from pykvbench.report import capacity_plot, fan, reuse_plot
    from pykvbench.report.plot import draw

    run, result = analyze_file(path)
    if run is not None and run.is_capacity:
        capacity_plot.draw(run, result, out)
    elif run is not None and run.is_reuse:
        reuse_plot.draw(run, result, out)
    elif run is not None and run.is_decode:
        fan.draw(run, result, out)
    else:
        draw(run, result, out, landmarks_of_run(run) if run is not None else ())
    click.echo(f"Picture: {out}", err=True)
