"""docs/teaching.md: its plans, misunderstandings and points are those of the notebooks.

.venv/bin/python -m tests.project.test_teaching     # writes titles, minutes and sums anew
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator

import pytest

from workbook import notebooks
from workbook.common import paths
from workbook.lessons import syllabus

PAGE = (paths.root() / "docs/teaching.md").read_text("utf-8")
_NOTEBOOK = re.compile(
    r"\[([^\]]+)\]\(\.\./(?:lectures|assignments)/([\w/]+/)?(\w+)/\w+\.ipynb\) \((\d+)\)"
)
_NUMBER = {"1": "1_architecture", "2": "2_backends", "3": "3_acceleration"}


@functools.cache
def known() -> dict[str, tuple[str, float]]:
    """The title and the minutes of each notebook's header, by `1_architecture/01__first_model`."""
    start = notebooks.read(paths.root() / "lectures/00__start/lesson.py").header
    found = {"00__start": (str(start["title"]), float(str(start["minutes"])))}
    for entry in syllabus.entries():
        folder = "" if entry.folder == "assignments" else f"{entry.folder}/"
        found[folder + entry.name] = (entry.title, entry.minutes)
    return found


def renewed(page: str) -> str:
    """The page with the titles and minutes that the headers have now, and the sums of rows."""
    headers = known()

    def notebook(found: re.Match[str]) -> str:
        title, minutes = headers[f"{found[2] or ''}{found[3]}"]
        return re.sub(r"^\[[^\]]+\](.*) \(\d+\)$", rf"[{title}]\1 ({minutes:g})", found[0])

    def row(found: re.Match[str]) -> str:
        cells = [_NOTEBOOK.sub(notebook, cell) for cell in (found[2], found[4])]
        sums = [sum(int(one[-1]) for one in _NOTEBOOK.findall(cell)) for cell in cells]
        return f"| {found[1]} | {cells[0]} | {sums[0]} | {cells[1]} | {sums[1]} |"

    return re.sub(r"(?m)^\| (\d+) \| (\[.*) \| (\d+) \| (\[.*) \| (\d+) \|$", row, page)


def plan(heading: str) -> list[list[list[str]]]:
    """The rows of a plan's table: for each, the notebooks of its two columns."""
    part = PAGE.partition(f"\n## {heading}")[2].partition("\n## ")[0]
    rows = []
    for line in re.findall(r"(?m)^\| \d+ \| (.*) \|$", part):
        one, _, other, _ = line.split(" | ")
        columns = [_NOTEBOOK.findall(cell) for cell in (one, other)]
        rows.append([[f"{folder}{name}" for _, folder, name, _ in found] for found in columns])
    return rows


def asked_for(assignment: str) -> set[str]:
    """The notebooks that an assignment's text asks for, e.g. `1/05`."""
    (source,) = paths.root().glob(f"solutions/{assignment}/a?.py")
    text = next(
        cell.source
        for cell in notebooks.read(source).cells
        if re.search(r"What comes before|Read these first|What you should know", cell.source)
    )
    lecture, found = "", set()
    for lectures, notebook in re.findall(
        r"[Ll]ecture (\d)|\b(\d\d)\b", text.partition("Plan for")[0]
    ):
        lecture = lectures or lecture
        if notebook:
            found.add(f"{lecture}/{notebook}")
    return found


def options(notebook: str) -> Iterator[tuple[str, bool]]:
    """The options of a notebook's predictions, and whether each is right."""
    lecture, _, number = notebook.partition("/")
    (source,) = paths.root().glob(f"lectures/{_NUMBER[lecture]}/{number}__*/lesson.py")
    for cell in notebooks.read(source).cells:
        if not re.search(r"(?m)^predict\(", cell.source):
            continue
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "predict":
                for one in node.args[2:3]:
                    for text, answer in ast.literal_eval(one).items():
                        yield text, answer is None


def test_minutes_titles_and_sums_are_those_of_the_notebooks() -> None:
    assert len(_NOTEBOOK.findall(PAGE)) > 60
    assert renewed(PAGE) == PAGE, "Run .venv/bin/python -m tests.project.test_teaching"


def test_other_minutes_are_written_with_their_sum() -> None:
    one = "[No](../lectures/1_architecture/03__schedulers/03__schedulers.ipynb) (1)"
    title, minutes = known()["1_architecture/03__schedulers"]
    new = one.replace("[No]", f"[{title}]").replace("(1)", f"({minutes:g})")
    row = f"| 1 | {one}, {one} | 2 | {one} | 7 |"
    assert renewed(row) == f"| 1 | {new}, {new} | {2 * minutes:g} | {new} | {minutes:g} |"


@pytest.mark.parametrize(
    ("heading", "rows"), [("A semester", 12), ("An intensive week", 5), ("A workshop", 2)]
)
def test_an_assignment_comes_after_the_notebooks_that_it_asks_for(heading: str, rows: int) -> None:
    seen: set[str] = set()
    table = plan(heading)
    assert len(table) == rows
    for row in table:
        for name in [name for column in row for name in column]:
            if re.match(r"a\d__", name):
                assert asked_for(name), name
                lacking = asked_for(name) - seen
                assert not lacking, f"{heading}: {name} asks for {sorted(lacking)}"
            seen.add(re.sub(r"^(\d)_\w+/(\d\d)__.*", r"\1/\2", name))


def test_the_semester_has_every_notebook_and_assignment_once() -> None:
    rows = plan("A semester")
    taken = [name for row in rows for column in row for name in column]
    assert sorted(taken) == sorted(known())
    minutes = known()
    for week, (in_class, _) in enumerate(rows, 1):
        total = sum(minutes[name][1] for name in in_class)
        assert total <= 60, (
            f"Week {week} has {total:g} minutes in class, and 60 are there: move a notebook of "
            "this row in docs/teaching.md to the column at home, or to another week."
        )
    sums = [sum(minutes[name][1] for row in rows for name in row[n]) / 60 for n in (0, 1)]
    words = " ".join(PAGE.split())
    assert "{:.0f} hours in class and {:.0f} at home".format(*sums) in words
    most = max(sum(minutes[name][1] for name in at_home) for _, at_home in rows)
    assert 180 < most <= 210, f'The page says "up to three and a half"; it is {most / 60:.1f} hours'


def test_due_weeks_are_two_weeks_after_an_assignment_is_given_out() -> None:
    begun = {
        name[:2]: week
        for week, (_, at_home) in enumerate(plan("A semester"), 1)
        for name in at_home
        if re.match(r"a\d__", name)
    }
    stated = re.findall(r"\b(a\d) (?:is due in week|in) (\d+)[,.]", " ".join(PAGE.split()))
    assert {name: int(week) - 2 for name, week in stated} == begun


def test_each_misunderstanding_is_a_wrong_option_of_its_notebook() -> None:
    rows = re.findall(r'(?m)^\| (\d/\d\d) \| "(.*)" \| .+ \|$', PAGE)
    assert len(rows) >= 20
    for notebook, option in rows:
        assert (option, False) in set(options(notebook)), f"{notebook}: {option}"


def test_written_cells_and_their_points_are_those_of_the_assignments() -> None:
    rows = re.findall(r"(?m)^\| (a\d) \| ([\w., ]+) \| (\d+) \|$", PAGE)
    expected = []
    for source in sorted(paths.root().glob("solutions/a?__*/a?.py")):
        cells = [c for c in notebooks.read(source).cells if c.kind == "written"]
        points = sum(cell.points for cell in cells)
        expected.append((source.stem, ", ".join(cell.id for cell in cells), f"{points:g}"))
    assert rows == expected
    answers = 40 * sum(len(cells.split(", ")) for _, cells, _ in rows)
    assert f"with 40 students, {answers * 1.5 / 60:.0f} hours in the semester" in PAGE


def test_the_parts_of_the_class_report_are_its_headings() -> None:
    template = (paths.root() / "grader/pages/templates/class.html").read_text("utf-8")
    part = PAGE.partition("\n## Reading the class report")[2]
    named = [row for row in re.findall(r"(?m)^\| ([^|]+) \|", part) if row not in ("part", "---")]
    headings = re.findall(r"<h2>(.*?)</h2>", template)
    assert named
    assert named == [heading for heading in headings if heading in named]


def test_every_week_has_a_question_to_open_with() -> None:
    part = PAGE.partition("\n## A class of 90 minutes")[2].partition("\n## ")[0]
    assert re.findall(r"(?m)^\| (\d+) \| .+\? \| ", part) == [str(n) for n in range(1, 13)]


if __name__ == "__main__":
    (paths.root() / "docs/teaching.md").write_text(renewed(PAGE), "utf-8")
