"""The pages show what they should, hide what they must, and run no code."""

from __future__ import annotations

import csv
import io
import shutil
from html.parser import HTMLParser

import pytest
from a_class import answered, classroom, pack
from hypothesis import given
from hypothesis import strategies as st
from nbgrader.api import Gradebook
from typer.testing import CliRunner

from grader.classroom import drop, export, gradebook, intake, late_penalties, regrades
from grader.classroom.causes import Explained
from grader.classroom.classroom import Classroom
from grader.cli import app
from grader.pages import class_report, feedback
from grader.pages.boxes import boxes
from grader.vocabulary import own
from grader.vocabulary.results import CheckResult, Flag, Graded, Standing, Stopped, Verdict
from workbook.assignments import Assignment

ATTACK = "<script>alert(1)</script>"


def result(id: str, credit: float, rationale: str = "", help: str = "") -> CheckResult:
    status = "passed" if credit == 1 else "partial" if credit else "failed"
    return CheckResult(
        id=id,
        sentence=f"{id} holds.",
        status=status,  # type: ignore[arg-type]
        credit=credit,
        rationale=rationale,
        help=help,
    )


def graded(toy: Assignment, key: str, *checks: CheckResult, **more: object) -> Graded:
    verdict = Verdict(
        assignment=toy.name,
        checks=checks,
        flags=more.pop("flags", ()),  # type: ignore[arg-type]
        me=more.pop("me", ()),  # type: ignore[arg-type]
        log="SECRET INPUTS",
    )
    return Graded(
        key=key,
        assignment=toy.name,
        verdict=verdict,
        notebook=more.pop("notebook", toy.release.read_text()),  # type: ignore[arg-type]
        sandbox="bubblewrap",
        executed=2.0,
        judged=3.0,
        **more,  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module")
def a_class(tmp_path_factory: pytest.TempPathFactory, toy: Assignment) -> Classroom:
    """Five students: one right, two with the same mistake, one hostile, one unreadable."""
    where = classroom(tmp_path_factory.mktemp("work"))
    for name in ("anna", "bob_LATE_41_1_a9", "Cy Li_77_assignsubmission_file_a9", "=cmd()"):
        pack(where.inbox / f"{name}.zip", {"a9.ipynb": answered(toy, "number = 1", name)})
    (where.inbox / "eve.zip").write_text("no zip")
    records = {record.source: record for record in intake.take_inbox(where, toy, where.inbox)}
    good = result("a9.first", 1)

    def placed(check: CheckResult, value: float, alias: str = "") -> CheckResult:
        figure = Standing(value=value, text=f"×{value:.1f}", alias=alias)
        return check.model_copy(update={"id": "a9.second", "standing": figure})

    wrong = "Rows differ in {} of 50, by up to {}."
    hostile = graded(
        toy,
        "d" * 64,
        result("a9.first", 0, f"It said {ATTACK}", help=ATTACK),
        placed(good, 2.04, f"Speedy{ATTACK}"),
        flags=(Flag(kind="edited cell", detail=f"a9.first was edited {ATTACK}"),),
        notebook=answered(toy, "number = 0", "Because.").decode(),
        errors=(Stopped(cell=7, name=f"E{ATTACK}", message=ATTACK),),
        log='E1121 server.cc:241] "CudaDriverHelper has not been initialized."\n'
        'E1121 model_repository_manager.cc:470] "Failed to set config modification time: …"\n'
        "I1121 of no interest\n"
        "E1121 a complaint\n"
        + "".join(f"line {n}\n" for n in range(500))
        + f"\x1b[31mthe end {ATTACK}\n",
    )
    results = {
        "anna": graded(toy, "a" * 64, good, placed(result("a9.second", 1), 2.01, "CMD")),
        "bob_41": graded(
            toy,
            "b" * 64,
            good,
            result("a9.second", 0, wrong.format(7, "0.25")),
            me=(own.DEFAULT,),
        ),
        "Cy_Li_77": graded(
            toy,
            "c" * 64,
            good,
            placed(result("a9.second", 0.5, wrong.format(12, "1e-3")), 11.2, "Speedy"),
            flags=(Flag(kind="looked for the judge", detail="It read /proc."),),
            me=(own.DEFAULT,),
        ),
        "cmd": hostile,
        "eve": intake.refused_result(toy, records["eve.zip"].problem),
    }
    for item in results.values():
        where.store(item)
    where.save_results_index(toy.name, {who: item.key for who, item in results.items()})
    writer = gradebook.Writer(where, toy)
    for who, item in results.items():
        writer.write(who, item.key)
    with Gradebook(f"sqlite:///{where.gradebook}") as book:
        for cell, words in (
            ("a9-why", "Write what the costs are"),
            ("a9-number", "It was cut off <b>"),
        ):
            book.find_comment(cell, "a9", toy.name, "cmd").manual_comment = words
        book.db.commit()
    feedback.write_feedback(where, toy)
    class_report.write_class_report(where, toy)
    return where


def page(where: Classroom, student: str) -> str:
    return (where.feedback / student / "a9__toy.html").read_text()


class Reader(HTMLParser):
    """Counts what a page could run or fetch, and whether its elements close."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "iframe", "object", "embed", "link", "img", "form"):
            self.bad.append(tag)
        self.bad += [name for name, _ in attrs if name.startswith("on") or name in ("src", "href")]
        if tag not in ("meta", "br", "hr", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "rect":
            assert self.open.pop() == tag


def test_no_page_runs_or_fetches_anything(a_class: Classroom) -> None:
    pages = [*a_class.feedback.rglob("*.html"), *a_class.report.glob("*.html")]
    assert len(pages) == 6
    for path in pages:
        reader = Reader()
        reader.feed(path.read_text())
        assert reader.bad == []
        assert reader.open == []


def test_a_student_reads_points_reasons_and_their_own_errors(a_class: Classroom) -> None:
    text = page(a_class, "cmd")
    assert "<title>a9__toy: cmd</title>" in text
    assert "A toy" in text
    assert "5 of 20 points" in text
    assert "not yet: 0 of 10 points" in text
    assert "Your written answers are still to be read" in text
    assert "Cell 7: <code>E&lt;script&gt;" in text
    assert "a9.first was edited" in text
    assert "line 499" in text
    assert "the end" in text
    assert "line 400\n" not in text
    assert "Write what the costs are" in text
    assert "It was cut off &lt;b&gt;" in text
    assert "\x1b" not in text
    assert "hint(" not in text


def test_a_student_reads_no_log_where_all_is_well_and_never_the_judges(a_class: Classroom) -> None:
    heading = "Errors in your server's log"
    assert heading in page(a_class, "cmd")
    assert heading not in page(a_class, "anna")
    assert "of no interest" not in page(a_class, "cmd")
    assert "CudaDriverHelper" not in page(a_class, "cmd")
    assert "modification time" not in page(a_class, "cmd")
    everything = "".join(path.read_text() for path in a_class.feedback.rglob("*.html"))
    assert "SECRET INPUTS" not in everything
    assert "read /proc" not in everything  # only the instructor sees this


def test_an_unreadable_submission_gets_its_reason(a_class: Classroom) -> None:
    text = page(a_class, "eve")
    assert '<p class="score">Not graded yet</p>' in text
    assert "`workbook submit a9` checks your work" in text
    assert "of 20 points" not in text
    assert text.count("It is not a zip file") == 1
    assert "not attempted" not in text
    assert "no answer" not in text


def test_the_class_report_finds_what_wrong_answers_share(a_class: Classroom) -> None:
    text = (a_class.report / "a9__toy.html").read_text()
    assert "Cy_Li_77, bob_41" in text
    assert "Rows differ in 12 of 50, by up to 1e-3." in text
    assert "Rows differ in 7 of 50" not in text  # one example is enough
    assert "looked for the judge" in text
    assert '<td>Cy_Li_77, bob_41</td><td>same data</td><td>They left me = "self-study"' in text
    assert "5 submissions" in text
    assert "Median 11.2, mean 10.6, from 5 to 15." in text


def test_the_class_reads_places_and_aliases_and_no_ids(
    a_class: Classroom, toy: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna, cy, cmd = (page(a_class, who) for who in ("anna", "Cy_Li_77", "cmd"))
    assert (
        "has place 2 of 3, with ×2.0; the best is ×11.2. The class reads your place under" in anna
    )
    assert "<bdi>CMD (2)</bdi> <b>(you)</b>" in anna  # another student has the id cmd
    assert "has place 1 of 3, with ×11.2. The class reads" in cy
    assert "under your alias, <bdi>Speedy</bdi>" in cy
    assert "has place 2 of 3, with ×2.0; the best is ×11.2" in cmd
    assert "under “no name”, because there is no alias of yours that can be shown" in cmd
    for text in (anna, cy, cmd):
        table = text.partition("<h2>Fastest</h2>")[2].partition("<h2>")[0]
        assert [row.split("</td>")[0] for row in table.split('<tr><td class="number">')[1:]] == [
            *("1", "2", "2")
        ]
        assert table.count("no name</span>") == 1
        assert not any(id in table for id in ("anna", "Cy_Li_77", "Cy Li", "cmd"))
    for who in ("bob_41", "eve"):
        assert "Fastest" not in page(a_class, who)
    report = (a_class.report / "a9__toy.html").read_text()
    table = report.partition("<h2>Fastest</h2>")[2].partition("<h2>")[0]
    assert "<td>anna</td><td><bdi>CMD</bdi></td><td><bdi>CMD (2)</bdi></td>" in table
    assert table.count("<rect") == 3
    # With two students, a table would tell each of them who has the other place.
    rules = a_class.home / "grades.toml"
    before = {path: path.read_text() for path in a_class.feedback.rglob("*.html")}
    try:
        rules.write_text('[excused]\na9 = ["cmd"]\n')
        monkeypatch.setattr("grader.classroom.grade_rules._check_names", lambda *_: None)
        feedback.write_feedback(a_class, toy)
        text = page(a_class, "anna")
        assert "Fastest" not in page(a_class, "cmd")
    finally:
        rules.unlink()
        for path, former in before.items():
            path.write_text(former)
    assert "Your submission has place 2 of 2, with ×2.0.</p>" in text
    assert "Speedy" not in text


def test_pages_that_say_the_same_are_not_written_again(a_class: Classroom, toy: Assignment) -> None:
    before = {path: path.stat().st_ino for path in a_class.feedback.rglob("*.html")}
    feedback.write_feedback(a_class, toy)
    assert {path: path.stat().st_ino for path in a_class.feedback.rglob("*.html")} == before


def test_one_cause_has_one_box() -> None:
    lost = "The server ended while this check was asking your model."
    wait = "This check waits for {}, which has not passed yet."
    idle = "`x=` has no value yet: this cell hands over `...` or None there."
    told = {
        "a.one": ("failed", 0, "Row 3 differs."),
        "a.two": ("waits", 0, wait.format("a.one")),
        "a.three": ("waits", 0, wait.format("a.two")),  # and a.two waits for a.one
        "a.four": ("failed", 0, lost),
        "a.five": ("failed", 0, lost),
        "a.six": ("partial", 0.5, "Row 3 differs."),
        "a.seven": ("not attempted", 0, idle),
        "a.eight": ("not attempted", 0, idle.replace("x=", "y=")),
        "a.nine": ("passed", 1, ""),
        "a.ten": ("passed", 1, ""),
        "a.eleven": ("waits", 0, wait.format("a.unknown")),
    }
    results = {
        id: CheckResult(id=id, sentence="", status=status, credit=credit, rationale=why)  # type: ignore[arg-type]
        for id, (status, credit, why) in told.items()
    }
    parts = {id: (10 * result.credit, 10.0) for id, result in results.items()}
    found = boxes(Explained(results, {}, frozenset(), frozenset()), parts)
    assert [[line.id for line in box.lines] for box in found] == [
        *(["a.one"], ["a.four", "a.five"], ["a.six"], ["a.seven", "a.eight"]),
        *(["a.nine"], ["a.ten"], ["a.eleven"]),
    ]
    assert [line.id for line in found[0].waiting] == ["a.two", "a.three"]
    assert (found[0].earned, found[0].most) == (0, 30)
    assert sum(box.most for box in found) == 110
    assert sum(box.earned for box in found) == 25


def test_pages_tell_the_due_date_and_what_late_days_cost(
    a_class: Classroom, toy: Assignment
) -> None:
    file = a_class.home / "deadlines.toml"
    stamps = [a_class.submission(who, toy.name) / "timestamp.txt" for who in ("anna", "bob_41")]
    before = {path: path.read_text() for path in a_class.feedback.rglob("*.html")}
    report = a_class.report / "a9__toy.html"
    before[report] = report.read_text()
    try:
        file.write_text(
            'timezone = "Europe/Berlin"\n[a9]\ndue = 2026-11-20T23:59:00\npercent_per_day = 10\n'
            "extensions = {bob_41 = 2}\n"
        )
        for stamp in stamps:
            stamp.write_text("2026-11-22 09:00:00 UTC")
        writer = gradebook.Writer(a_class, toy)
        writer.write("anna", a_class.results_index(toy.name)["anna"])
        late_penalties.refresh(a_class, toy)
        feedback.write_feedback(a_class, toy)
        class_report.write_class_report(a_class, toy)
        anna, bob = page(a_class, "anna"), page(a_class, "bob_41")
        table = report.read_text()
    finally:
        file.unlink()
        for stamp in stamps:
            stamp.unlink()
        writer.write("anna", a_class.results_index(toy.name)["anna"])
        for path, text in before.items():
            path.write_text(text)
    assert "Due 20 November 2026, 23:59 (Europe/Berlin). Handed in 22 November 2026, 10:00" in anna
    assert ": 2 days late. That costs 4 points." in anna
    assert "11 of 20 points" in anna
    assert "Due 22 November 2026, 23:59 (Europe/Berlin), with your extension of 2 days." in bob
    assert "days late" not in bob
    assert "2 days late, -4" in table
    assert "+2 days" in table
    assert "<th>Late</th>" in table


def test_a_regrade_request_is_kept_with_the_marks(
    a_class: Classroom, toy: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADER_WORK", str(a_class.home))
    run = CliRunner()
    report = a_class.report / "a9__toy.html"
    before = {path: path.read_text() for path in (*a_class.feedback.rglob("*.html"), report)}
    try:
        assert run.invoke(app, ["regrade", "anna", "a9", "--reply", "Yes."]).exit_code == 1
        assert run.invoke(app, ["regrade", "nobody", "a9", "--request", "?"]).exit_code == 1
        words = f"My rows are right. {ATTACK}"
        done = run.invoke(app, ["regrade", "anna", "a9", "--request", "-"], input=words)
        assert done.exit_code == 0, done.output
        assert "no reply yet" in done.output
        notes = export.table(a_class, toy, "nbgrader").notes
        assert "A regrade request waits for a reply: anna." in notes
        feedback.write_feedback(a_class, toy)
        assert "There is no reply yet" in page(a_class, "anna")
        assert run.invoke(app, ["regrade", "anna", "a9", "--reply", "They are."]).exit_code == 0
        feedback.write_feedback(a_class, toy)
        class_report.write_class_report(a_class, toy)
        assert "My rows are right. &lt;script&gt;" in page(a_class, "anna")
        assert "at 15 points:</b> They are." in page(a_class, "anna")
        assert "They are." in report.read_text()
        assert "My rows" not in page(a_class, "bob_41")
        assert not any("regrade" in text for text in export.table(a_class, toy, "nbgrader").notes)
        paths = drop.find(a_class, "anna")[0].paths
        assert regrades.path(a_class, toy.name, "anna") in paths
    finally:
        shutil.rmtree(a_class.home / "regrades", ignore_errors=True)
        for path, text in before.items():
            path.write_text(text)


def test_no_cell_of_a_table_is_a_formula(a_class: Classroom, toy: Assignment) -> None:
    text = export.table(a_class, toy, "nbgrader").text
    assert "cmd" in text
    for row in csv.reader(io.StringIO(text)):
        for value in row:
            assert not value.strip().startswith(("=", "+", "-", "@"))


@given(st.text(), st.floats(allow_nan=False), st.integers(0, 10**9))
def test_figures_do_not_make_another_mistake(words: str, number: float, count: int) -> None:
    one = class_report.without_figures(f"{count} rows differ by {number}: {words}")
    other = class_report.without_figures(f"{count + 1} rows differ by 0.5: {words}")
    assert one == other
    assert not any(c in "0123456789" for c in class_report.without_figures(f"{count} {number}"))


def test_the_command_line_says_where_the_files_are(
    a_class: Classroom, toy: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADER_WORK", str(a_class.home))
    run = CliRunner()
    shown = run.invoke(app, ["feedback", "a9"])
    assert shown.exit_code == 0, shown.output
    assert "<student>/a9__toy.html" in "".join(shown.output.split("\n"))
    shown = run.invoke(app, ["export", "a9", "--to", f"{a_class.home}/c.csv"])
    assert shown.exit_code == 0, shown.output
    assert (a_class.home / "c.csv").read_text() == export.table(a_class, toy, "nbgrader").text
    assert run.invoke(app, ["export", "a9", "--format", "canvas"]).exit_code == 1
    assert run.invoke(app, ["export", "a9", "--format", "excel"]).exit_code == 1
    assert run.invoke(app, ["report", "a8"]).exit_code == 1


def test_the_class_report_says_what_took_long(toy: Assignment) -> None:
    """The longest submission first, with the cell and the checks that took most of the time."""
    slow_check = result("a9.second", 0, "No.").model_copy(update={"seconds": 62.0})
    loop = Flag(kind="execution", detail="Cell 5 was interrupted after 180 s.")
    found = class_report._slow(
        {
            "quick": graded(toy, "a" * 64, result("a9.first", 1)),
            "check": graded(toy, "b" * 64, slow_check).model_copy(update={"judged": 70.0}),
            "loop": graded(toy, "c" * 64, flags=(loop,)).model_copy(update={"executed": 190.0}),
        }
    )
    assert [(one["student"], one["why"]) for one in found] == [
        ("loop", "Cell 5 was interrupted after 180 s."),
        ("check", "a9.second took 62 s."),
    ]
