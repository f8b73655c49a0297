"""The command line: `grader autograde · drop · feedback · report · export · release · …`.

Exit status: 0, all went well; 1, an error, with a message on stderr; 2, there is no such command or
option; 3, the run went through, but some submissions could not be graded or written, or belong to
nobody, and the messages name them; 4, there is nothing to grade; 130, stopped by Ctrl-C, with all
results so far kept. `make grade` writes pages and report after 0 and 3, and then ends with 0: one
stranger in the inbox is no failure.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from workbook.common import terminal
from workbook.common.errors import WorkbookError

from .classroom import which_assignments
from .classroom.classroom import Classroom, write
from .vocabulary import own

if TYPE_CHECKING:
    from workbook.assignments import Assignment

    from .classroom.autograde import Outcome

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
    typer.Argument(metavar="ASSIGNMENT", help="Such as a2 or a2__forest. Default: all."),
]
One = Annotated[
    str | None,
    typer.Argument(
        metavar="ASSIGNMENT", help="Such as a2 or a2__forest. Default: the only one there is."
    ),
]
#: What is kept of a command's work when Ctrl-C stops it.
_KEPT = {
    "autograde": "What was graded is kept; the same command goes on from there.",
    "feedback": "The pages that were written are whole; the same command writes the rest.",
    "report": "The pages that were written are whole; the same command writes the rest.",
    "export": "A table is written whole, or not at all.",
    "totals": "A table is written whole, or not at all.",
    "drop": "What is left is shown when the same command is given again.",
    "release": "Nothing was written.",
    "try": "Nothing of a trial is kept.",
    "solve": "Delete the folder, and give the command again.",
}


@app.command()
def autograde(
    assignment: Name = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="A folder of submissions. Default: grader/work/inbox."),
    ] = None,
    student: Annotated[
        list[str] | None, typer.Option(help="Only this student's submission; may be repeated.")
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
    ] = 480,
    cell_seconds: Annotated[
        float, typer.Option(min=1, help="The most for one cell of it; the same applies.")
    ] = 180,
    unsandboxed: Annotated[
        bool,
        typer.Option(
            "--unsandboxed", help="Run students' code with your own rights. Read it first."
        ),
    ] = False,
) -> None:
    """Take what is in the inbox, grade what is new, and write the gradebook.

    Without the name of an assignment, all that were handed in are graded.
    """
    from .classroom.autograde import autograde as grade_class
    from .judge.grade_submission import Settings

    classroom = Classroom.default()
    meant = None if assignment is None else which_assignments.named(assignment)
    failed = False
    with classroom.lock():
        waits = _take(classroom, meant, source)
        todo = list(which_assignments.handed_in(classroom, meant, student or ()))
        if not todo and waits:
            raise WorkbookError(
                "Nothing in the inbox can be graded.", todo="Look at the reasons above."
            )
        if not todo:
            _say_nothing_there(source or classroom.inbox)
            raise typer.Exit(4)
        settings = Settings(
            secret=classroom.secret(),
            wall_s=notebook_seconds,
            cell_s=cell_seconds,
            unsandboxed=unsandboxed,
        )
        for which, theirs in todo:
            outcome = grade_class(
                classroom,
                which,
                settings,
                workers=workers,
                scheduler=scheduler,
                force=force,
                students=list(theirs) or None,
                console=err,
            )
            _show(classroom, which, outcome)
            failed |= bool(outcome.failed or outcome.unwritten or outcome.unknown)
    if failed or waits:
        raise typer.Exit(3)


@app.command()
def drop(
    student: Annotated[str, typer.Argument(help="The student's id, as in the class report.")],
    assignment: Annotated[
        str | None, typer.Argument(metavar="ASSIGNMENT", help="Default: all of the student's.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove a student's submission, its result and its marks, after saying what there is."""
    from .classroom import drop as dropping

    classroom = Classroom.default()
    with classroom.lock():
        name = None if assignment is None else which_assignments.named(assignment).name
        found = dropping.find(classroom, student, name)
        for one in found:
            marks = "not in the gradebook" if one.points is None else f"{one.points:g} points"
            if one.by_hand:
                marks += f", {one.by_hand:g} of them given by a person"
            if one.comments:
                marks += f", {one.comments} comments of a person"
            out.print(f"{escape(one.student)}, {one.assignment}: {marks}")
            for path in one.paths:
                out.print(f"  {escape(str(path))}", soft_wrap=True)
        if not yes and not sys.stdin.isatty():
            raise WorkbookError("Nothing was removed.", todo="Say --yes to remove it.")
        if not yes and not typer.confirm("Remove this?"):
            raise typer.Exit(0)
        for one in found:
            dropping.remove(classroom, one)
            if one.source:
                err.print(
                    f"[yellow]![/] {escape(one.source)} is still in the inbox: take it out, or it "
                    "is graded again.",
                    soft_wrap=True,
                )
    out.print("Removed. `grader feedback` and `grader report` write the pages anew.")


@app.command()
def feedback(assignment: Name = None) -> None:
    """Write a page for each student and assignment."""
    from .pages.feedback import pages, write_feedback
    from .pages.page import write_if_changed

    classroom = Classroom.default()
    for which in which_assignments.graded(classroom, assignment):
        write_if_changed(
            "feedback", classroom, which, pages(classroom, which).values(), write_feedback
        )
        out.print(f"  feedback   {classroom.feedback}/<student>/{which.name}.html", soft_wrap=True)


@app.command()
def report(assignment: Name = None) -> None:
    """Write the class report of each assignment."""
    from .pages.class_report import page, write_class_report
    from .pages.page import write_if_changed

    classroom = Classroom.default()
    for which in which_assignments.graded(classroom, assignment):
        file = page(classroom, which)
        write_if_changed("report", classroom, which, [file], write_class_report)
        out.print(f"  report     {file}", soft_wrap=True)


@app.command()
def export(
    assignment: One = None,
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
    final: Annotated[
        bool,
        typer.Option(
            "--final", help="Refuse if somebody is not graded, or a written answer not read."
        ),
    ] = False,
) -> None:
    """Write the scores as the CSV that nbgrader, Canvas or Moodle takes.

    For Moodle it also writes the feedback pages as a zip that Moodle takes.
    """
    from .classroom import late_penalties
    from .classroom.export import format_named, table
    from .classroom.export_moodle import feedback_zip
    from .classroom.export_rows import list_names
    from .classroom.records import read_reports

    classroom, which, columns = (
        Classroom.default(),
        which_assignments.named(assignment),
        format_named(format),
    )
    with classroom.lock():  # the due dates, or points by hand, may have changed since
        late_penalties.refresh(classroom, which)
    made = table(classroom, which, columns, worksheet, column, final=final)
    path = to or classroom.report / f"{which.name}.{columns}.csv"
    write(path, made.text.encode())
    out.print(f"  scores     {path}", soft_wrap=True)
    if columns == "moodle":
        feedback(assignment)
        archive = path.with_suffix(".feedback.zip")
        write(archive, feedback_zip(classroom, which, made.places))
        out.print(f"  zip        {archive}", soft_wrap=True)
    strangers = [report.source for report in read_reports(classroom) if report.waits]
    waiting = f"In the inbox, and not graded: {list_names(strangers)}."
    _show_notes([*made.notes, *[waiting] * bool(strangers)])


@app.command()
def totals(
    to: Annotated[
        Path | None, typer.Option(help="The file. Default: grader/work/report/totals.csv.")
    ] = None,
) -> None:
    """Write one table over all assignments, with each student's total in percent.

    `grader/work/grades.toml` can give weights, say how many assignments count, and excuse students.
    """
    from .classroom import totals as course

    classroom = Classroom.default()
    made = course.table(classroom)
    path = to or classroom.report / "totals.csv"
    write(path, made.text.encode())
    out.print(f"  totals     {path}", soft_wrap=True)
    _show_notes(made.notes)


@app.command("cluster")
def cluster_() -> None:
    """Make the certificate for a cluster of several machines, and say how to start one."""
    from .classroom import cluster

    out.print(cluster.instructions(cluster.make_certificate(Classroom.default())), soft_wrap=True)


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


@app.command(
    "formgrader", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def formgrader_(context: typer.Context) -> None:
    """Open nbgrader's formgrader in JupyterLab, to read written answers and to look at notebooks.

    Further arguments go to JupyterLab.
    """
    from .classroom import formgrader

    formgrader.run(context.args)


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
    assignment: One = None,
    only: Annotated[str, typer.Option(help="Only submissions whose name holds this text.")] = "",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Submissions at a time. Default: one per core.")
    ] = None,
) -> None:
    """Grade an assignment's solution, its untouched release and its mutants."""
    from .authoring import show, trial

    which = which_assignments.named(assignment)
    tried = trial.run(which, only=only, workers=workers, console=err)
    show.show(which, tried, out)
    if not tried.is_as_expected:
        raise typer.Exit(1)


@app.command()
def solve(
    assignment: One = None,
    id: Annotated[
        str, typer.Option("--id", help="The student's id; the data are hers.")
    ] = own.DEFAULT,
    to: Annotated[
        Path | None, typer.Option(help="The folder for it. Default: .workbook/solved.")
    ] = None,
) -> None:
    """Write what a student of this id hands in who has everything right; for tests of a class."""
    from workbook.common import paths

    from .authoring import submissions
    from .classroom import names

    which = which_assignments.named(assignment)
    if names.clean(id) != id:
        raise WorkbookError(
            f"{id[:80]!r} cannot be an id.", todo=f"Write it as {names.clean(id)!r}."
        )
    inbox = to or paths.state("solved")
    folder = submissions.solution(which, inbox / id / which.name, id)
    out.print(f"  {escape(str(folder))}", soft_wrap=True)
    out.print(
        f"Grade it in a class of its own: `GRADER_WORK=/tmp/class grader autograde --from {inbox}`",
        soft_wrap=True,
    )


def main() -> None:
    """Run the command that was given; errors become messages, and Ctrl-C prints no traceback."""
    terminal.run(app, err, stopped=_KEPT)


def _take(classroom: Classroom, named: Assignment | None, source: Path | None) -> bool:
    """Take what is in the inbox, or in the folder that was named, and say what is not graded.

    Returns:
        Whether something that may be a submission is not graded.
    """
    from .classroom import intake

    if source is None and classroom.make_inbox():
        err.print(f"Made {escape(str(classroom.inbox))}", soft_wrap=True)
    known = which_assignments.built()
    if named is not None and named not in known:
        known.append(named)  # if it is not built, the grading reports that
    taken = intake.take(classroom, known, source or classroom.inbox, assumed=named)
    for one in taken.downloads:
        err.print(
            f"{escape(one.source)}: {one.count} submission{'s' * (one.count != 1)}, as "
            f"{one.system.title()} names them",
            soft_wrap=True,
        )
    for report in taken.reported:
        sign = "[bold red]✗[/]" if report.waits else "[yellow]![/]"
        err.print(f"{sign} {escape(report.source)}: {escape(report.reason)}", soft_wrap=True)
    for record in (record for records in taken.records.values() for record in records):
        if record.note:
            err.print(
                f"[yellow]![/] {escape(record.student)}: {escape(record.note)}", soft_wrap=True
            )
    return any(report.waits for report in taken.reported)


def _show_notes(notes: Iterable[str]) -> None:
    """Print what an instructor should know of a table."""
    for note in notes:
        err.print(f"[yellow]![/] {escape(note)}", soft_wrap=True)


def _say_nothing_there(inbox: Path) -> None:
    """Say where submissions are put."""
    out.print("There is no submission yet. Put what students handed in into the inbox:")
    out.print(f"  {escape(str(inbox))}", soft_wrap=True)
    out.print("README.txt there says what can lie in it. Then run `make grade` again.")


def _show(classroom: Classroom, which: Assignment, outcome: Outcome) -> None:
    """Print what a run did."""
    from .classroom import by_hand

    out.print(_table(classroom, which, outcome))
    out.print(
        f"{len(outcome.graded)} graded in {outcome.seconds:.1f} s, {len(outcome.known)} known."
    )
    out.print(f"  gradebook  {classroom.gradebook}", soft_wrap=True)
    for student, why in {**outcome.failed, **outcome.unwritten}.items():
        err.print(f"[bold red]✗[/] {escape(student)}: {escape(why)}")
    for student, cells in by_hand.stale(classroom, which.name).items():
        named = ", ".join(one.cell for one in cells)
        err.print(
            f"[yellow]![/] {escape(student)}: what a person gave for {named} is stale: it has "
            "changed since. Grade it again: `grader formgrader`."
        )
    for student in outcome.unknown:
        err.print(
            f"[bold red]✗[/] {escape(student)} is not in the class list, and not graded. Add the "
            f"student, or remove the submission: `grader drop {escape(student)}`."
        )


def _table(classroom: Classroom, which: Assignment, outcome: Outcome) -> Table:
    """The points and flags of each student."""
    from .classroom import roster
    from .classroom.ungraded import why_ungraded

    points = which.checks
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("student")
    table.add_column("points", justify="right")
    table.add_column("flags")
    for student, graded in classroom.results(which.name).items():
        earned = sum(check.credit * points.get(check.id, 0) for check in graded.verdict.checks)
        flags = ", ".join(dict.fromkeys(flag.kind for flag in graded.verdict.flags))
        colour = "red" if student in outcome.failed else "yellow"
        shown = "-" if why_ungraded(student, graded, which) else f"{earned:g}"
        table.add_row(escape(student), shown, f"[{colour}]{escape(flags)}[/]")
    known = roster.read(classroom)
    for missing in known.without(classroom.results_index(which.name)) if known else ():
        table.add_row(escape(missing.id), "", "[dim]no submission[/]")
    table.caption = f"of {sum(points.values()):g} points that checks give; -: not graded"
    return table


if __name__ == "__main__":
    main()
