"""pykvbench compare."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import click

from pykvbench.cli.options import min_ratio_option
from pykvbench.cli.show import FINDINGS
from pykvbench.errors import UsageError


@click.command("compare", short_help="MLX against PyTorch in one run, or before against after.")
@click.argument("paths", type=click.Path(path_type=Path), metavar="RUN...", nargs=-1, required=True)
@click.option("--anyway", is_flag=True, help="Compare runs that were not measured alike; what differs is still said.")
@click.option("--fail-if-slower", metavar="PERCENT", help="Exit with status 1 when a later one is slower by more: 5%.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Picture to write as well: .png, .svg or .pdf.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print markdown, to paste into an issue.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout and nothing else.")
@min_ratio_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    paths: tuple[Path, ...],
    anyway: bool,
    fail_if_slower: str | None,
    out: Path | None,
    as_markdown: bool,
    as_json: bool,
    min_ratio: float,
) -> None:
    """Compare the cells of one run with each other, or each cell of a run with the same cell in later runs.

    Says how many times longer one takes than the other, where, and how sure that is; where the curves cross; and which
    spikes one has and the other has not.

    \b
    Example:  pykvbench compare runs/before.jsonl runs/after.jsonl --fail-if-slower 5%

    Differences within 2 % count as the same. Runs whose machine, shape or settings differ are refused, with what
    differs; exit status 2.
    """
    from pykvbench import record
    from pykvbench.analysis.capacity_pairs import compare_capacity
    from pykvbench.analysis.pairs import Named, compare_run, compare_runs
    from pykvbench.analysis.reuse_pairs import compare_reuse
    from pykvbench.report import comparison_plot, comparison_text

    limit = None if fail_if_slower is None else _share(fail_if_slower)
    if as_json and as_markdown:
        raise UsageError("--json and --markdown cannot both be printed; choose one of them.")
    named = [Named(path.stem, record.read(path)) for path in paths]
    if any(item.run.is_capacity for item in named):
        report = compare_capacity(named, anyway)
    elif any(item.run.is_reuse for item in named):
        report = compare_reuse(named, anyway)
    elif len(named) == 1:
        report = compare_run(named[0].run, min_ratio)
    else:
        report = compare_runs(named, anyway, min_ratio)
    if out is not None:
        comparison_plot.draw(report, out)
        click.echo(f"Picture: {out}", err=True)
    if as_json:
        click.echo(json.dumps(comparison_text.to_json(report), indent=2))
    elif as_markdown:
        click.echo(comparison_text.markdown(report), nl=False)
    else:
        click.echo(comparison_text.text(report, shutil.get_terminal_size().columns), nl=False)
    ctx.exit(FINDINGS if limit is not None and report.is_slower_by(limit) else 0)


def _share(text: str) -> float:
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 10_000:
        raise UsageError(f"--fail-if-slower {text} is not a percentage; write one such as 5%.")
    return percent / 100
