"""README is short and leads to every page; the tables of docs/students.md are complete.

.venv/bin/python -m tests.project.test_readme     # writes the tables of lectures and paths anew
"""

from __future__ import annotations

import posixpath
import re

from tests.project import pages
from tests.project.test_teaching import asked_for
from workbook import assignments, notebooks
from workbook.common import paths
from workbook.lessons import syllabus
from workbook.zoo.demonstrations import ENGINES, LLAMAS, MODELS

README = (paths.root() / "README.md").read_text("utf-8")
STUDENTS = (paths.root() / "docs/students.md").read_text("utf-8")


def first_cells(heading: str) -> list[str]:
    """The first cell of each row of the tables under a heading of docs/students.md."""
    part = STUDENTS.partition(f"\n{heading}\n")[2]
    part = re.split(r"(?m)^#", part)[0]
    return re.findall(r"(?m)^\| ([^|]+) \|", part)


def names(cells: list[str]) -> list[str]:
    return sorted(name for cell in cells for name in re.findall(r"`([^`]+)`", cell))


def test_readme_has_at_most_8_kilobytes() -> None:
    assert len(README.encode()) <= 8192, "Move what one kind of reader needs to its page in docs/"


def test_readme_leads_to_every_page() -> None:
    linked = {link.partition("#")[0] for link in pages.links(README)}
    there = {str(path.relative_to(paths.root())) for path in pages.own()} - {"README.md"}
    assert there - linked <= {"BENCHMARKS.md"}  # docs/developers.md says how it is made


def test_readme_counts_the_notebooks() -> None:
    lessons = [one for one in syllabus.entries() if one.folder in syllabus.LECTURES]
    start = notebooks.read(paths.root() / "lectures/00__start/lesson.py").header
    minutes = [*(one.minutes for one in lessons), float(str(start["minutes"]))]
    stated = f"There are {len(minutes)} of them, {min(minutes):g} to {max(minutes):g} minutes each"
    assert stated in README
    theirs = sum(one.minutes for one in syllabus.entries() if one.folder == "assignments")
    hours = f"{sum(minutes) / 60:.0f} hours", f"{theirs / 60:g}"
    assert "lectures together take about {}, the seven assignments another {};".format(*hours) in (
        " ".join(README.split())
    )
    assert "takes {} for the lectures and {} for the assignments".format(*hours) in STUDENTS
    begin = f"after the start page ({start['minutes']} minutes more)"
    assert begin in STUDENTS


def test_the_table_of_assignments_has_their_minutes() -> None:
    page = (paths.root() / "docs/students.md").read_text("utf-8")
    for source in sorted((paths.root() / "solutions").glob("a*__*/a?.py")):
        minutes = notebooks.read(source).header["minutes"]
        name = source.parent.name
        link = re.escape(f"[`{name}`](../assignments/{name}/{source.stem}.ipynb)")
        assert re.search(rf"(?m)^\| {link} \|.*\| {minutes} \|$", page), source


def test_the_table_of_assignments_names_the_notebooks_that_they_ask_for() -> None:
    rows = re.findall(r"(?m)^\| \[`(a\d__\w+)`\]\(.*\| ([^|]+) \| \d+ \|$", STUDENTS)
    assert len(rows) == len(assignments.find())
    for name, listed in rows:
        first = {
            f"{part[0]}/{notebook}"
            for part in listed.removeprefix("lecture ").split("; lecture ")
            for notebook in re.findall(r"\b\d\d\b", part)
        }
        assert first == asked_for(name), name


def test_each_assignment_comes_after_the_last_notebook_that_it_asks_for() -> None:
    part = " ".join(STUDENTS.partition("**All of it**")[2].partition("\n\n")[0].split())
    stated = {
        name: after
        for names, after in re.findall(r"(a\d(?: and a\d)?) after (\d/\d\d)", part)
        for name in names.split(" and ")
    }
    assert stated == {one.short: max(asked_for(one.name)) for one in assignments.find()}


def _from_docs(link: str) -> str:
    """A link of the start page, as docs/ has it."""
    return posixpath.normpath(f"../lectures/00__start/{link}")


def renewed(page: str) -> str:
    """The page with its tables of lectures and paths as the headers of the notebooks have them."""
    entries = syllabus.entries()
    rows = ["| lecture | minutes | notebooks |", "|---|---:|---|"]
    for folder in syllabus.LECTURES:
        own = [one for one in entries if one.folder == folder]
        number, _, name = folder.partition("_")
        listed = " · ".join(
            f"{e.name[:2]} [{e.title}]({_from_docs(e.link)}) ({e.minutes:g})" for e in own
        )
        rows.append(f"| {number}, {name} | {sum(one.minutes for one in own):g} | {listed} |")
    # The start page's own table, with links from docs/.
    ways = re.sub(
        r"\]\((.+?)\)", lambda found: f"]({_from_docs(found[1])})", syllabus.routes().data
    )
    for name, lines in (("lectures", rows), ("paths", ways.splitlines())):
        before, _, rest = page.partition(f"<!-- {name} -->\n")
        after = rest.partition("<!-- end -->")[2]
        page = "\n".join([f"{before}<!-- {name} -->", "", *lines, "", f"<!-- end -->{after}"])
    return page


def test_the_tables_of_lectures_and_paths_are_those_of_the_syllabus() -> None:
    assert STUDENTS.count("<!-- end -->") == 2
    assert renewed(STUDENTS) == STUDENTS, "Run .venv/bin/python -m tests.project.test_readme"


def test_every_assignment_has_a_row() -> None:
    assert names(first_cells("## Assignments")) == [one.name for one in assignments.find()]


def test_every_model_has_a_row() -> None:
    steps = {"language_tokenizer", "language_onnx", "language_labels", "llama_tokenizer"}
    listed = {*names(first_cells("## The models")), *names(first_cells("### Language models"))}
    assert listed | steps == {*MODELS, *ENGINES, *LLAMAS}


if __name__ == "__main__":
    (paths.root() / "docs/students.md").write_text(renewed(STUDENTS), "utf-8")
