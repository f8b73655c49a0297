"""nbgrader preprocessors, which pass the judge's results to nbgrader, and a Markdown filter.

`Restore` is the first of nbgrader's sanitizing preprocessors. It replaces the notebook that was
handed in with the one that was run in the sandbox, in which the released cells are restored.

`Grade` replaces nbgrader's preprocessor that runs the notebook. It runs no code. It writes the
judge's result into the cell of each check. nbgrader's own SaveAutoGrades then reads the points from
these cells.

`SaveCells` takes the place of nbgrader's, which refuses an assignment whose cells have changed
since somebody handed it in.

Formgrader shows the notebook in an instructor's browser. An output of the student's code could
contain a script. So only text and PNG images of the outputs are kept.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bleach
import nbformat
from nbconvert.filters import markdown2html
from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_markdown_cell, new_output
from nbgrader import api, preprocessors, utils
from nbgrader.api import MissingEntry
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool, Unicode

from workbook import assignments
from workbook.notebooks import dotted

from ..judge import grade_submission as grading
from ..vocabulary.panel import Panel
from ..vocabulary.results import CheckResult, Graded
from . import intake
from .causes import explain
from .classroom import Classroom
from .names import shown
from .private import without_paths
from .rubric import rubrics

#: The most characters of text per cell that formgrader shows, and of one image in base64.
MOST_TEXT = 20_000
MOST_IMAGE = 4 << 20

#: A terminal's colours and other commands to it.
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CELL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_TAGS = {
    *("p", "br", "hr", "em", "strong", "code", "pre", "blockquote", "ul", "ol", "li", "del"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "a", "table", "thead", "tbody", "tr", "th", "td"),
    *("div", "span", "sub", "sup", "b", "i"),
}


class FromStore(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader carries no types
    """The base of both preprocessors: finds the stored result of a submission."""

    work = Unicode(help="The folder of the class, such as grader/work.").tag(config=True)
    key = Unicode(
        "", help="The key of the result to take. Default: that of the submission's files."
    ).tag(config=True)
    unsandboxed = Bool(
        False, help="Where a submission has no result yet, grade it without a sandbox."
    ).tag(config=True)

    def graded(self, resources: dict[str, Any]) -> Graded:
        """The stored result of a submission. Where there is none, the submission is graded now.

        Args:
            resources: nbconvert's; nbgrader puts the student and the assignment into it.

        Raises:
            WorkbookError: nothing can be graded here: there is no sandbox, or no release.
        """
        about = resources["nbgrader"]
        classroom = Classroom(Path(self.work))
        assignment = assignments.named(about["assignment"])
        if self.key and (found := classroom.find(assignment.name, self.key)):
            return found
        known = intake.record(classroom, assignment.name, about["student"])
        if known and known.problem:
            return intake.refused_result(assignment, known.problem)
        place = classroom.submission(about["student"], assignment.name)
        settings = grading.Settings(
            secret=classroom.secret(),
            unsandboxed=self.unsandboxed,
            **classroom.limits(assignment.name),
        )
        key = grading.key(place, assignment.name, settings)
        found = classroom.find(assignment.name, key)
        if found is None:
            self.log.info("Grading %s: there is no result yet", place)
            found = grading.grade(place, assignment.name, settings)
            classroom.store(found)
        return found


class Restore(FromStore):
    """Replace the notebook that was handed in with the one that was run."""

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Return the notebook that was run; nothing of `nb` is used."""
        graded = self.graded(resources)
        restored = nbformat.reads(graded.notebook, as_version=4)  # type: ignore[no-untyped-call]
        harmless(restored, Path(self.work))
        _add_rubrics(restored, rubrics(assignments.named(graded.assignment)))
        restored.metadata["grader"] = {"key": graded.key}
        return restored, resources


class Grade(FromStore):
    """Write the judge's results into the cells of the checks. It replaces nbgrader's Execute."""

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Give each check's cell the panel of its result, its score, and no other output."""
        graded = self.graded(resources)
        explained = explain(graded, assignments.named(graded.assignment))
        for cell in nb.cells:
            if cell.cell_type == "code" and utils.is_grade(cell) and not utils.is_solution(cell):
                id = dotted(cell.metadata.nbgrader["grade_id"])
                most = float(cell.metadata.nbgrader["points"])
                result = explained.results.get(id) or CheckResult(
                    id=id, sentence="", status="not attempted", credit=0
                )
                note = explained.notes.get(id, "")
                panel = Panel(result, points=(min(most, result.credit * most), most), note=note)
                cell.outputs = list(_show(panel, Path(self.work)))
        return nb, resources


class SaveCells(preprocessors.SaveCells):  # type: ignore[misc]
    """Write the cells of a released notebook into the gradebook, also if there are submissions.

    Cells that are gone are removed with their points, and new ones are added to every submission
    without points. `gradebook.check_cells` has refused this where a person gave what would be lost.
    """

    def _create_notebook(self, nb: NotebookNode) -> None:
        with contextlib.suppress(MissingEntry):
            notebook = self.gradebook.find_notebook(self.notebook_id, self.assignment_id)
            if notebook.submissions:
                self._follow(notebook)
        super()._create_notebook(nb)

    def _follow(self, notebook: Any) -> None:
        """Give a notebook of the gradebook the cells of the release."""
        database = self.gradebook.db
        wanted = {
            api.GradeCell: self.new_grade_cells,
            api.SolutionCell: self.new_solution_cells,
            api.TaskCell: self.new_task_cells,
            api.SourceCell: self.new_source_cells,
        }
        held = [*notebook.grade_cells, *notebook.solution_cells, *notebook.task_cells]
        for cell in held:
            if cell.name not in wanted[type(cell)]:
                for row in (*(cell.grades or ()), *(cell.comments or ())):
                    database.delete(row)
        for cell in (*held, *notebook.source_cells):
            if cell.name not in wanted[type(cell)]:
                database.delete(cell)
        there = {(type(cell), cell.name) for cell in (*held, *notebook.source_cells)}
        for kind, cells in wanted.items():
            for name, about in cells.items():
                if (kind, name) in there:
                    continue
                cell = kind(name=name, notebook=notebook, **about)
                database.add(cell)
                database.flush()
                for submitted in notebook.submissions:
                    if kind in (api.GradeCell, api.TaskCell):
                        database.add(api.Grade(cell_id=cell.id, notebook=submitted))
                    if kind in (api.SolutionCell, api.TaskCell):
                        database.add(api.Comment(cell_id=cell.id, notebook=submitted))
        database.commit()


def safe_markdown(source: str) -> str:
    """Markdown as HTML without scripts: the output of nbconvert's own filter, cleaned."""
    cleaned: str = bleach.clean(
        markdown2html(source),
        tags=_TAGS,
        attributes={"a": ["href", "title"], "th": ["align"], "td": ["align"]},
        protocols={"http", "https", "mailto"},
    )
    return cleaned


def harmless(nb: NotebookNode, home: Path | None = None) -> None:
    """Remove from a student's notebook everything that a browser could run.

    It keeps only what is known to be harmless. It does not search for harmful content. Control
    characters, and in outputs the paths of this machine, are replaced.

    Args:
        nb: the notebook, which is changed.
        home: the classroom's folder; by default that of this checkout.
    """
    nb.metadata = from_dict({"language_info": {"name": "python"}})  # type: ignore[no-untyped-call]
    for number, cell in enumerate(nb.cells):
        nbgrader = cell.metadata.get("nbgrader")
        cell.metadata = from_dict({"nbgrader": nbgrader} if nbgrader else {})  # type: ignore[no-untyped-call]
        cell.pop("attachments", None)
        cell.source = shown(cell.source)
        if not _CELL_ID.fullmatch(str(cell.get("id", ""))):
            cell.id = f"cell-{number}"
        if cell.cell_type == "code":
            cell.execution_count = _number(cell.get("execution_count"))
            cell.outputs = list(_outputs(cell.get("outputs", []), home))


def _add_rubrics(nb: NotebookNode, texts: dict[str, str]) -> None:
    """Put the rubric below each written answer, so that formgrader shows it while one grades."""
    cells = []
    for cell in nb.cells:
        cells.append(cell)
        if utils.is_grade(cell) and utils.is_solution(cell):
            id = cell.metadata.nbgrader["grade_id"]
            if text := texts.get(dotted(id)):
                below = new_markdown_cell(text)  # type: ignore[no-untyped-call]
                below.id = f"rubric-{id}"[:64]
                cells.append(below)
    nb.cells = cells


def _show(panel: Panel, home: Path) -> Iterator[NotebookNode]:
    text, page = (without_paths(part, home) for part in (str(panel), panel._repr_html_()))
    yield new_output("display_data", {"text/plain": text, "text/html": page})  # type: ignore[no-untyped-call]
    # nbgrader's determine_grade takes the first execute_result for the score.
    score = panel.points[0] if panel.points else 0.0
    yield new_output("execute_result", {"text/plain": repr(score)}, execution_count=None)  # type: ignore[no-untyped-call]


def _outputs(outputs: Any, home: Path | None) -> Iterator[NotebookNode]:
    left = MOST_TEXT
    for output in outputs if isinstance(outputs, list) else ():
        kind = output.get("output_type")
        data = output.get("data") if isinstance(output.get("data"), dict) else {}
        image = _png(data.get("image/png"))
        if kind == "stream":
            text = _text(output.get("text"))
        elif kind == "error":
            text = f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
        else:
            text = "" if image else _text(data.get("text/plain"))
        if image:
            yield new_output("display_data", {"image/png": image})  # type: ignore[no-untyped-call]
        text = without_paths(shown(_ANSI.sub("", text)), home)
        if text and left > 0:
            name = "stderr" if kind == "error" or output.get("name") == "stderr" else "stdout"
            yield new_output("stream", name=name, text=text[:left])  # type: ignore[no-untyped-call]
            left -= len(text)


def _text(value: Any) -> str:
    """A text of nbformat, which may be a list of lines; "" for any other value."""
    if isinstance(value, list):
        value = "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _png(value: Any) -> str | None:
    """A PNG in base64, decoded and encoded again; None for any other value."""
    text = _text(value)
    if not text or len(text) > MOST_IMAGE:
        return None
    try:
        content = base64.b64decode(text)
    except (binascii.Error, ValueError):
        return None
    return base64.b64encode(content).decode() if content.startswith(b"\x89PNG\r\n") else None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
