"""pykvbench doctor."""

from __future__ import annotations

import json

import click


@click.command("doctor", short_help="Say what works here, and what would disturb a run.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout and nothing else.")
def command(as_json: bool) -> None:
    """Say which backends work here, how good the clock is, and what would disturb a run.

    Opens each backend for a moment in a process of its own. Run it first on a new machine, and before each long run.

    \b
    Example:  pykvbench doctor
    """
    from pykvbench.experiment.probe import examine
    from pykvbench.report.doctor import render

    examination = examine()
    click.echo(json.dumps(examination, indent=2) if as_json else render(examination))
