"""The command line: `grader autograde · feedback · report · export · release · formgrader`.

Exit status: 0 all went well; 1 an error, said on stderr; 2 the command is not one; 3 the run went
through, and some submissions could not be graded or written (the table names them); 130 stopped by
Ctrl-C, all results so far are kept.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from workbook.common import terminal
from workbook.common.errors import WorkbookError

from .classroom.classroom import Classroom, write

if TYPE_CHECKING:
    from workbook.assignments import Assignment

    from .classroom.autograde import Outcome
    from .pages.pages import Format

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)
app = typer.Typer(
    help="Grade a class: submissions into a gradebook, feedback and a report.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="ASSIGNMENT", help="Such as a2 or a2__forest. Default: the only one there is."
    ),
]


@app.command()
def autograde(
    assignment: Name = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="A folder of zips and folders. Default: grader/work/inbox."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Submissions at a time. Default: one a core.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="A dask scheduler's address, instead of this machine.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Grade again what is graded.")] = False,
    notebook_seconds: Annotated[
        float,
        typer.Option(min=10, help="The most that one notebook may take; changed, all is graded."),
    ] = 300,
    cell_seconds: Annotated[
        float, typer.Option(min=1, help="The most that one cell of it may take; the same.")
    ] = 120,
    unsandboxed: Annotated[
        bool,
        typer.Option(
            "--unsandboxed", help="Run students' code with your own rights. Read it first."
        ),
    ] = False,
) -> None:
    """Take what is in the inbox, grade what is new, and write the gradebook."""
    from .classroom import intake
    from .classroom.autograde import autograde as run
    from .judge.grade import Settings

    here, which = Classroom.default(), _named(assignment)
    inbox = source or here.inbox
    with here.alone():
        if source is not None or inbox.is_dir() or not here.submissions(which.name):
            intake.take(here, which, inbox)
        settings = Settings(
            secret=here.secret(),
            wall_s=notebook_seconds,
            cell_s=cell_seconds,
            unsandboxed=unsandboxed,
        )
        outcome = run(
            here,
            which,
            settings,
            workers=workers,
            scheduler=scheduler,
            force=force,
            console=err,
        )
    out.print(_table(here, which, outcome))
    out.print(
        f"{len(outcome.graded)} graded in {outcome.seconds:.1f} s, {len(outcome.known)} known."
    )
    out.print(f"  gradebook  {here.gradebook}", soft_wrap=True)
    for student, why in {**outcome.failed, **outcome.unwritten}.items():
        err.print(f"[bold red]✗[/] {escape(student)}: {escape(why)}")
    if outcome.failed or outcome.unwritten:
        raise typer.Exit(3)


@app.command()
def feedback(assignment: Name = None) -> None:
    """Write a page for each student."""
    here, which = Classroom.default(), _named(assignment)
    _write(here, which, "feedback")
    out.print(f"  feedback   {here.feedback}/<student>/{which.name}.html", soft_wrap=True)


@app.command()
def report(assignment: Name = None) -> None:
    """Write the class report."""
    here, which = Classroom.default(), _named(assignment)
    _write(here, which, "report")
    out.print(f"  report     {here.report / f'{which.name}.html'}", soft_wrap=True)


@app.command()
def export(
    assignment: Name = None,
    format: Annotated[
        str, typer.Option("--format", help="nbgrader, canvas or moodle: whose columns.")
    ] = "nbgrader",
    to: Annotated[
        Path | None, typer.Option(help="The file. Default: in grader/work/report/.")
    ] = None,
) -> None:
    """Write the scores as CSV."""
    from typing import get_args

    from .pages import pages

    here, which = Classroom.default(), _named(assignment)
    if format not in get_args(pages.Format):
        raise WorkbookError(
            f"There is no format {format!r}.",
            todo=f"Choose one of {', '.join(get_args(pages.Format))}.",
        )
    chosen: Format = format  # type: ignore[assignment]  # it is one of them
    path = to or here.report / f"{which.name}.{format}.csv"
    write(path, pages.table(here, which, chosen).encode())
    out.print(f"  scores     {path}", soft_wrap=True)


@app.command()
def release(
    destination: Annotated[Path, typer.Argument(help="A folder that is not there yet.")],
) -> None:
    """Write what a class gets: the course without solutions and hidden checks."""
    from workbook import assignments

    files = assignments.release(destination)
    out.print(
        f"{len(files)} files in {destination}. No solution and no hidden check is among them.",
        soft_wrap=True,
    )


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def formgrader(context: typer.Context) -> None:
    """Open nbgrader's formgrader in JupyterLab, to read written answers and to look at notebooks.

    Further arguments go to JupyterLab.
    """
    import os

    from workbook.common import paths

    program = Path(sys.executable).parent / "jupyter"
    # nbgrader finds its configuration on Jupyter's path; it must not depend on the folder.
    before = os.environ.get("JUPYTER_CONFIG_PATH", "")
    environment = {
        **os.environ,
        "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, (str(Path(__file__).parent), before))),
        "PATH": os.pathsep.join((str(program.parent), os.environ.get("PATH", os.defpath))),
    }
    arguments = ["lab", f"--ServerApp.root_dir={paths.root()}", "--LabApp.default_url=/formgrader"]
    os.execve(program, [str(program), *arguments, *context.args], environment)


def main() -> None:
    """The entry point: errors are sentences, Ctrl-C is quiet."""
    kept = "Stopped. What was graded is kept; the same command goes on from there."
    terminal.enter(app, err, stopped=kept)


def _named(name: str | None) -> Assignment:
    from workbook import assignments

    if name is not None:
        return assignments.named(name)
    known = assignments.find()
    if len(known) != 1:
        raise WorkbookError(
            "Which assignment?",
            todo=f"Name one: {', '.join(found.name for found in known) or 'there is none'}.",
        )
    return known[0]


def _write(here: Classroom, which: Assignment, what: str) -> None:
    """Write pages, unless nothing has changed that they show."""
    from .pages import pages

    if not here.results_index(which.name):
        raise WorkbookError(
            f"Nothing of {which.name} has been graded yet.",
            where=str(here.home),
            todo=f"Grade it first: `grader autograde {which.short}`.",
        )
    now = pages.fingerprint(here, which).encode()
    mark = here.report / f".{which.name}.{what}"
    students = here.results_index(which.name) if what == "feedback" else {}
    written = [here.feedback / who / f"{which.name}.html" for who in students] or [
        here.report / f"{which.name}.html"
    ]
    if mark.is_file() and mark.read_bytes() == now and all(page.is_file() for page in written):
        return
    (pages.feedback if what == "feedback" else pages.classroom)(here, which)
    write(mark, now)


def _table(here: Classroom, which: Assignment, outcome: Outcome) -> Table:
    points = which.checks
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("student")
    table.add_column("points", justify="right")
    table.add_column("flags")
    for student, graded in here.results(which.name).items():
        earned = sum(check.credit * points.get(check.id, 0) for check in graded.verdict.checks)
        flags = ", ".join(dict.fromkeys(flag.kind for flag in graded.verdict.flags))
        colour = "red" if student in outcome.failed else "yellow"
        table.add_row(escape(student), f"{earned:g}", f"[{colour}]{escape(flags)}[/]")
    table.caption = f"of {sum(points.values()):g} points that checks give"
    return table


if __name__ == "__main__":
    main()
