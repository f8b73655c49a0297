"""`python -m benchmarks [NAME …]`: run benchmarks (see this package's docstring)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from workbook import assignments
from workbook.common import terminal

from . import USUAL, costs, grading, run

app = typer.Typer(
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def main(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Some of them, peers, llm, endurance, grading or costs. Default: all but those."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each comparison.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.5, help="Length of a measurement.")] = 4.0,
    submissions: Annotated[int, typer.Option(min=4, help="Of grading: copies to grade.")] = 20,
    minutes: Annotated[float, typer.Option(min=0.1, help="Of endurance: minutes of load.")] = 30.0,
    loads: Annotated[int, typer.Option(min=1, help="Of endurance: loads and unloads.")] = 1000,
    deploys: Annotated[int, typer.Option(min=1, help="Of endurance: redeploys.")] = 200,
    output: Annotated[Path | None, typer.Option(help="In place of BENCHMARKS.md.")] = None,
) -> None:
    """Run benchmarks and write their results."""
    wanted = list(names or USUAL)
    if "grading" in wanted:
        wanted.remove("grading")
        grading.run(assignments.named("a2"), submissions, Console())
    if "costs" in wanted:
        wanted.remove("costs")
        costs.run(Console())
    if wanted:
        run(
            wanted,
            output=output,
            rounds=rounds,
            seconds=seconds,
            minutes=minutes,
            loads=loads,
            deploys=deploys,
        )


if __name__ == "__main__":
    terminal.run(app, Console(stderr=True), stopped={})
