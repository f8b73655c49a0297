"""`python -m benchmarks [NAME …]`: run benchmarks (see this package's docstring)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from workbook import assignments
from workbook.common import terminal

from . import USUAL, costs, grading, run

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument()] = None,
    rounds: Annotated[int, typer.Option(min=1)] = 5,
    seconds: Annotated[float, typer.Option(min=0.5)] = 4.0,
    submissions: Annotated[int, typer.Option(min=4)] = 20,
    minutes: Annotated[float, typer.Option(min=0.1)] = 30.0,
    loads: Annotated[int, typer.Option(min=1)] = 1000,
    deploys: Annotated[int, typer.Option(min=1)] = 200,
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
