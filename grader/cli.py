"""The command line: `grader autograde · feedback · report · export · release · formgrader`.

Exit status: 0, all went well; 1, an error, with a message on stderr; 2, there is no such command or
option; 3, the run went through, but some submissions could not be graded or written, and the
messages name them; 130, stopped by Ctrl-C, with all results so far kept.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
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
    from .classroom.export import Format

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
        int | None, typer.Option(min=1, help="Submissions at a time. Default: one per core.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="A dask scheduler's address, instead of this machine.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Grade again what is graded.")] = False,
    notebook_seconds: Annotated[
        float,
        typer.Option(min=10, help="The most for one notebook. With another limit, all is graded."),
    ] = 300,
    cell_seconds: Annotated[
        float, typer.Option(min=1, help="The most for one cell of it; the same applies.")
    ] = 120,
    unsandboxed: Annotated[
        bool,
        typer.Option(
            "--unsandboxed", help="Run students' code with your own rights. Read it first."
        ),
    ] = False,
) -> None:
    """Take what is in the inbox, grade what is new, and write the gradebook."""
    from .classroom.autograde import autograde as grade_class
    from .judge.grade_submission import Settings

    classroom, which = Classroom.default(), _named(assignment)
    with classroom.lock():
        _take(classroom, which, source)
        settings = Settings(
            secret=classroom.secret(),
            wall_s=notebook_seconds,
            cell_s=cell_seconds,
            unsandboxed=unsandboxed,
        )
        outcome = grade_class(
            classroom,
            which,
            settings,
            workers=workers,
            scheduler=scheduler,
            force=force,
            console=err,
        )
    _show(classroom, which, outcome)
    if outcome.failed or outcome.unwritten:
        raise typer.Exit(3)


@app.command()
def feedback(assignment: Name = None) -> None:
    """Write a page for each student."""
    from .pages.feedback import pages, write_feedback

    classroom, which = _graded(assignment)
    _write("feedback", classroom, which, pages(classroom, which).values(), write_feedback)
    out.print(f"  feedback   {classroom.feedback}/<student>/{which.name}.html", soft_wrap=True)


@app.command()
def report(assignment: Name = None) -> None:
    """Write the class report."""
    from .pages.class_report import page, write_class_report

    classroom, which = _graded(assignment)
    file = page(classroom, which)
    _write("report", classroom, which, [file], write_class_report)
    out.print(f"  report     {file}", soft_wrap=True)


@app.command()
def export(
    assignment: Name = None,
    format: Annotated[
        str, typer.Option("--format", help="nbgrader, canvas or moodle: whose table.")
    ] = "nbgrader",
    worksheet: Annotated[
        Path | None,
        typer.Option(help="The file to fill in: Moodle's grading worksheet, Canvas's gradebook."),
    ] = None,
    column: Annotated[
        str, typer.Option(help="The assignment's title in Canvas, where it has another one.")
    ] = "",
    to: Annotated[
        Path | None, typer.Option(help="The file. Default: in grader/work/report/.")
    ] = None,
) -> None:
    """Write the scores as the CSV that nbgrader, Canvas or Moodle takes.

    For Moodle it also writes the feedback pages as a zip that Moodle takes.
    """
    from .classroom.export import table
    from .classroom.export_moodle import feedback_zip

    classroom, which, columns = Classroom.default(), _named(assignment), _format(format)
    made = table(classroom, which, columns, worksheet, column)
    path = to or classroom.report / f"{which.name}.{columns}.csv"
    write(path, made.text.encode())
    out.print(f"  scores     {path}", soft_wrap=True)
    if columns == "moodle":
        feedback(assignment)
        archive = path.with_suffix(".feedback.zip")
        write(archive, feedback_zip(classroom, which, made.places))
        out.print(f"  zip        {archive}", soft_wrap=True)
    for note in made.notes:
        err.print(f"[yellow]![/] {escape(note)}", soft_wrap=True)


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
    from workbook.common import paths

    program = Path(sys.executable).parent / "jupyter"
    # So nbgrader finds its configuration, in whichever folder the command is given.
    before = os.environ.get("JUPYTER_CONFIG_PATH", "")
    environment = {
        **os.environ,
        "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, (str(Path(__file__).parent), before))),
        "PATH": os.pathsep.join((str(program.parent), os.environ.get("PATH", os.defpath))),
    }
    arguments = ["lab", f"--ServerApp.root_dir={paths.root()}", "--LabApp.default_url=/formgrader"]
    os.execve(program, [str(program), *arguments, *context.args], environment)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Such as a8__streams, or a8.")],
) -> None:
    """Write the skeleton of an assignment; AUTHORING.md leads on from there."""
    from workbook.common import paths

    from .authoring import skeleton

    files = skeleton.new(name)
    for file in files:
        out.print(f"  {escape(str(file.relative_to(paths.root())))}", soft_wrap=True)
    out.print(f"Grade it with `grader try {name}`, then put your own tasks in its place.")


@app.command("try")
def try_(
    assignment: Name = None,
    only: Annotated[str, typer.Option(help="Only submissions whose name holds this text.")] = "",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Submissions at a time. Default: one per core.")
    ] = None,
) -> None:
    """Grade an assignment's solution, its untouched release and its mutants."""
    from .authoring import show, trial

    which = _named(assignment)
    tried = trial.run(which, only=only, workers=workers, console=err)
    show.show(which, tried, out)
    if not tried.is_as_expected:
        raise typer.Exit(1)


def main() -> None:
    """Run the command that was given; errors become messages, and Ctrl-C prints no traceback."""
    kept = "Stopped. What was graded is kept; the same command goes on from there."
    terminal.run(app, err, stopped=kept)


def _named(name: str | None) -> Assignment:
    """The assignment of this name; without a name, the only one.

    Raises:
        WorkbookError: there is none of this name, or there are several.
    """
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


def _graded(name: str | None) -> tuple[Classroom, Assignment]:
    """The classroom, and the assignment of this name.

    Raises:
        WorkbookError: nothing of it has been graded yet; and as `_named`.
    """
    classroom, which = Classroom.default(), _named(name)
    if not classroom.results_index(which.name):
        raise WorkbookError(
            f"Nothing of {which.name} has been graded yet.",
            where=str(classroom.home),
            todo=f"Grade it first: `grader autograde {which.short}`.",
        )
    return classroom, which


def _format(name: str) -> Format:
    """The format of this name.

    Raises:
        WorkbookError: there is none.
    """
    from typing import get_args

    from .classroom.export import Format

    for format in get_args(Format):
        if format == name:
            return format  # type: ignore[no-any-return]  # get_args gives no types
    raise WorkbookError(
        f"There is no format {name!r}.", todo=f"Choose one of {', '.join(get_args(Format))}."
    )


def _take(classroom: Classroom, which: Assignment, source: Path | None) -> None:
    """Take what is in the inbox, or in the folder that was named.

    An inbox that is missing is an error only where nothing was taken from it before.
    """
    from .classroom import intake

    inbox = source or classroom.inbox
    if source is not None or inbox.is_dir() or not classroom.submissions(which.name):
        intake.take_inbox(classroom, which, inbox)


def _show(classroom: Classroom, which: Assignment, outcome: Outcome) -> None:
    """Print what a run did."""
    out.print(_table(classroom, which, outcome))
    out.print(
        f"{len(outcome.graded)} graded in {outcome.seconds:.1f} s, {len(outcome.known)} known."
    )
    out.print(f"  gradebook  {classroom.gradebook}", soft_wrap=True)
    for student, why in {**outcome.failed, **outcome.unwritten}.items():
        err.print(f"[bold red]✗[/] {escape(student)}: {escape(why)}")


def _table(classroom: Classroom, which: Assignment, outcome: Outcome) -> Table:
    """The points and flags of each student."""
    points = which.checks
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("student")
    table.add_column("points", justify="right")
    table.add_column("flags")
    for student, graded in classroom.results(which.name).items():
        earned = sum(check.credit * points.get(check.id, 0) for check in graded.verdict.checks)
        flags = ", ".join(dict.fromkeys(flag.kind for flag in graded.verdict.flags))
        colour = "red" if student in outcome.failed else "yellow"
        table.add_row(escape(student), f"{earned:g}", f"[{colour}]{escape(flags)}[/]")
    table.caption = f"of {sum(points.values()):g} points that checks give"
    return table


def _write(
    kind: str,
    classroom: Classroom,
    which: Assignment,
    pages: Iterable[Path],
    writer: Callable[[Classroom, Assignment], None],
) -> None:
    """Write pages, unless they are there and nothing that they show has changed.

    A hidden file beside the class report keeps what they were made from the last time.
    """
    from .pages.page import fingerprint

    now = fingerprint(classroom, which).encode()
    last = classroom.report / f".{which.name}.{kind}"
    if last.is_file() and last.read_bytes() == now and all(page.is_file() for page in pages):
        return
    writer(classroom, which)
    write(last, now)


if __name__ == "__main__":
    main()
