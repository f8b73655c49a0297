"""Print a trial: a table of expected against got, and what to do about each difference."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from workbook.assignments import Assignment

from .trial import Trial


def show(assignment: Assignment, trial: Trial, out: Console) -> None:
    """Print what came out of a trial.

    Args:
        assignment: that was tried.
        trial: what `trial.run` returned.
        out: where it is printed.
    """
    for path in trial.built:
        out.print(f"  built      {escape(str(path.relative_to(assignment.home)))}", soft_wrap=True)
    out.print(_table(trial))
    for row in trial.rows:
        for difference in row.differences:
            _say(out, f"{row.name}: {difference.got}", todo=difference.todo)
    for gap in trial.gaps:
        _say(out, gap.what, where=gap.where, todo=gap.todo)
    differ = sum(bool(row.differences) for row in trial.rows)
    if trial.is_as_expected:
        out.print(f"All {len(trial.rows)} are as expected.")
    else:
        out.print(f"{differ} of {len(trial.rows)} differ; {len(trial.gaps)} gaps.")


def _table(trial: Trial) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in ("", "submission", "expected", "got"):
        table.add_column(heading)
    for row in trial.rows:
        mark = "[bold red]✗[/]" if row.differences else "[green]✓[/]"
        table.add_row(mark, escape(row.name), escape(row.expected), escape(row.got))
    return table


def _say(out: Console, what: str, *, where: str = "", todo: str) -> None:
    out.print(f"[bold red]✗[/] {escape(what)}")
    if where:
        out.print(f"  [dim]where:[/] {escape(where)}", soft_wrap=True)
    out.print(f"  [dim]to do:[/] {escape(todo)}")
