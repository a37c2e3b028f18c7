"""pykvbench analyze."""

from __future__ import annotations

from pathlib import Path

import click

from pykvbench.cli.options import result_options
from pykvbench.cli.show import FINDINGS, show


@click.command("analyze", short_help="Say what a run file shows, or anyone's CSV of times.")
@click.argument("path", type=click.Path(path_type=Path), metavar="RUN|CSV")
@result_options
@click.pass_context
def command(ctx: click.Context, /, path: Path, as_json: bool, min_ratio: float, fail_on_finding: bool) -> None:
    """Say what a run file shows, or anyone's own table of lengths and times.

    A CSV needs a column length (or budget, for whole generations) and one of time_s, time_ms, time_us, time_ns; the
    columns sweep and order are used when present.

    \b
    Example:  pykvbench analyze runs/before.jsonl --json

    Nothing is measured, and neither torch nor mlx is needed. One pass in ascending or unknown order can only give
    apparent findings: a bad length and a bad minute look the same in it.
    """
    result = show(path, min_ratio, as_json)
    ctx.exit(FINDINGS if fail_on_finding and result.findings else 0)
