"""The command line: `grader inbox · autograde · drop · feedback · report · export · release · …`.

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
    from .classroom.intake import Taken

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
            _refresh(classroom, which)
            _show(classroom, which, outcome)
            failed |= bool(outcome.failed or outcome.unwritten or outcome.unknown)
    if failed or waits:
        raise typer.Exit(3)


@app.command()
def inbox(
    source: Annotated[
        Path | None,
        typer.Option("--from", help="A folder of submissions. Default: grader/work/inbox."),
    ] = None,
) -> None:
    """Say what lies in the inbox, whose it is, and when it came. Nothing is graded or changed."""
    from .classroom import dry_run, roster

    classroom = Classroom.default()
    known = which_assignments.built()
    with classroom.lock():
        if source is None and classroom.make_inbox():
            err.print(f"Made {escape(str(classroom.inbox))}", soft_wrap=True)
        taken = dry_run.look(classroom, known, source or classroom.inbox)
    listed = roster.read(classroom)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("assignment", "student", "name", "handed in", "entry", ""):
        table.add_column(title)
    for which in known:
        for record in taken.records[which.name]:
            person = listed.students.get(record.student) if listed else None
            came = record.time.partition(".")[0] or ("late, by Canvas" if record.late else "")
            state = dry_run.state(classroom, which.name, record)
            name = person.name if person else record.name
            cells = (which.short, record.student, name, came, record.source, state)
            table.add_row(*map(escape, cells))
    if table.row_count:
        out.print(table)
    if listed is not None:
        for which in known:
            there = {*classroom.submissions(which.name)}
            there |= {record.student for record in taken.records[which.name]}
            missing = ", ".join(student.id for student in listed.without(there))
            if there and missing:
                out.print(f"Nothing of {which.short} from: {escape(missing)}", soft_wrap=True)
    _show_taken(taken)
    if any(report.waits for report in taken.reported):
        raise typer.Exit(3)
    if not table.row_count:
        _say_nothing_there(source or classroom.inbox)
        raise typer.Exit(4)


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

    For Moodle and Canvas it also writes the feedback pages as a zip that they take: in Moodle,
    "Upload multiple feedback files in a zip"; in Canvas, "Upload Submissions".
    """
    from .classroom import export_canvas, export_moodle
    from .classroom.export import format_named, table
    from .classroom.export_rows import list_names
    from .classroom.records import read_reports

    classroom, which, columns = (
        Classroom.default(),
        which_assignments.named(assignment),
        format_named(format),
    )
    with classroom.lock():
        _refresh(classroom, which)
    made = table(classroom, which, columns, worksheet, column, final=final)
    path = to or classroom.report / f"{which.name}.{columns}.csv"
    write(path, made.text.encode())
    out.print(f"  scores     {path}", soft_wrap=True)
    left_out: list[str] = []
    if columns != "nbgrader":
        feedback(assignment)
        archive = path.with_suffix(".feedback.zip")
        if columns == "moodle":
            content = export_moodle.feedback_zip(classroom, which, made.places)
        else:
            content, left_out = export_canvas.feedback_zip(classroom, which)
        write(archive, content)
        out.print(f"  zip        {archive}", soft_wrap=True)
    strangers = [report.source for report in read_reports(classroom) if report.waits]
    waiting = f"In the inbox, and not graded: {list_names(strangers)}."
    without = f"Handed in not through Canvas, so not in the zip: {list_names(left_out)}."
    _show_notes([*made.notes, *[without] * bool(left_out), *[waiting] * bool(strangers)])


@app.command("answers")
def answers_(
    assignment: One = None,
    reader: Annotated[
        list[str] | None, typer.Option(help="Somebody who reads a share; may be repeated.")
    ] = None,
    take: Annotated[
        list[Path] | None, typer.Option(help="A table that was filled in; may be repeated.")
    ] = None,
) -> None:
    """Write the written answers as tables, without names, a share for each reader; or take them.

    A reader writes x under each item of the rubric that an answer earns.
    """
    from .classroom import answer_sheets

    classroom, which = Classroom.default(), which_assignments.named(assignment)
    which_assignments.graded(classroom, which.name)  # else it says that nothing is graded yet
    if reader and take:
        raise WorkbookError("Tables are written or taken.", todo="Give --reader or --take.")
    with classroom.lock():
        if take:
            done = answer_sheets.take(classroom, which, take)
            for who, (count, mean) in done.read.items():
                out.print(f"  {escape(who)}: {count} read, {mean:.1f} points on average")
            _show_notes(done.left)
        _refresh(classroom, which)
        if not take:
            for file in answer_sheets.write_sheets(classroom, which, reader or ()):
                out.print(f"  answers    {file}", soft_wrap=True)


@app.command()
def regrade(
    student: Annotated[str, typer.Argument(help="The student's id, as in the class report.")],
    assignment: Annotated[str, typer.Argument(help="Such as a2 or a2__forest.")],
    request: Annotated[
        str, typer.Option(help="What the student says. `-`: read it from the standard input.")
    ] = "",
    reply: Annotated[str, typer.Option(help="What you reply to the last request; `-` too.")] = "",
) -> None:
    """Keep a student's regrade request and your reply with the marks; without options, show them.

    Change the points in `grader formgrader` first: the reply keeps the points that count then.
    """
    from .classroom import regrades

    if request == reply == "-":
        raise WorkbookError("Only one text can come from the standard input.", todo="Give one `-`.")
    words, answer = (sys.stdin.read() if text == "-" else text for text in (request, reply))
    classroom, which = Classroom.default(), which_assignments.named(assignment)
    with classroom.lock():
        if words:
            regrades.ask(classroom, which, student, words)
        if answer:
            regrades.reply(classroom, which, student, answer)
    for one in regrades.of(classroom, which.name).get(student, []):
        out.print(f"{one.time:%Y-%m-%d %H:%M} UTC, {one.before:g} points: {escape(one.words)}")
        if one.replied is None:
            out.print("  no reply yet")
        else:
            out.print(f"  {one.replied:%Y-%m-%d %H:%M} UTC, {one.after:g}: {escape(one.reply)}")


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
    with classroom.lock():
        for which in which_assignments.graded(classroom, None):
            _refresh(classroom, which)
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
    name: Annotated[str, typer.Argument(help="Such as a8__double, or a8.")],
) -> None:
    """Write the skeleton of an assignment; docs/writing_an_assignment.md leads on from there."""
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
    _show_taken(taken)
    return any(report.waits for report in taken.reported)


def _show_taken(taken: Taken) -> None:
    """Print the downloads of a class in an inbox, what is not graded, and notes on the others."""
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


def _refresh(classroom: Classroom, which: Assignment) -> None:
    """Compute what people's marks and late days give: a rubric or a due date may have changed."""
    from .classroom import answer_sheets, deadlines

    done = answer_sheets.refresh(classroom, which)
    for text in done.changed:
        out.print(escape(text), soft_wrap=True)
    _show_notes(done.left)
    if deadlines.of(classroom, which.name) is not None:
        from .classroom import late_penalties  # late: nbgrader takes seconds to import

        late_penalties.refresh(classroom, which)


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
    if waiting := _ungraded(classroom, which):
        err.print(
            f"[bold red]✗[/] Not graded, so without points: {escape(', '.join(waiting))}. The "
            "class report says what to do, and what to answer them.",
            soft_wrap=True,
        )
    for student in outcome.unknown:
        err.print(
            f"[bold red]✗[/] {escape(student)} is not in the class list, and not graded. Add the "
            f"student, or remove the submission: `grader drop {escape(student)}`."
        )


def _ungraded(classroom: Classroom, which: Assignment) -> list[str]:
    """The students whose result is no mark, and whom no person has given points instead."""
    from .classroom.ungraded import ungraded, why_ungraded

    results = classroom.results(which.name)
    if not any(why_ungraded(who, graded, which) for who, graded in results.items()):
        return []
    from .classroom import gradebook

    marks = {mark.student: mark for mark in gradebook.marks(classroom, which.name)}
    return list(ungraded(classroom, which, marks))


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
