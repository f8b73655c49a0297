"""The rubrics of an assignment's written answers, from the instructor's notebook.

In the source, a written cell's solution ends with its rubric: a line `**Rubric** (10 points)`, and
below it a table with the columns `points` and `for`. What stands above that line is the model
answer, which no student gets.
"""

from __future__ import annotations

import re

from workbook.assignments import Assignment, cells
from workbook.common.errors import WorkbookError
from workbook.notebooks import MARKER, dotted

_BEGIN = re.compile(r"^\*\*Rubric\b.*$", re.MULTILINE | re.IGNORECASE)


def rubrics(assignment: Assignment) -> dict[str, str]:
    """The rubric of each written answer that has one, as Markdown, by the cell's id.

    Example: `rubrics(assignments.named("a2"))["a2.why"]` begins with `**Rubric** (10 points)`.

    Where the instructor's notebook is missing, there are none.
    """
    try:
        notebook = cells.read(assignment.instructor)
        found = {}
        for cell in notebook["cells"]:
            tag = cell["metadata"].get("nbgrader", {})
            if tag.get("grade") and tag.get("solution"):
                source = cell["source"]
                text = source if isinstance(source, str) else "".join(source)
                if (begin := _BEGIN.search(text)) is not None:
                    kept = text[begin.start() :].splitlines()
                    lines = [line for line in kept if not MARKER.search(line)]
                    found[dotted(tag["grade_id"])] = "\n".join(lines).strip()
    except (WorkbookError, KeyError, TypeError, AttributeError):
        return {}
    return found


def rows(rubric: str) -> list[tuple[str, str]]:
    """The table of a rubric: (points, for what). Empty where it has no table of two columns.

    Example: `rows("| points | for |\\n|---|---|\\n| 2 | a threshold |") == [("2", "a threshold")]`.
    """
    table = [
        [part.strip() for part in line.strip().strip("|").split("|")]
        for line in rubric.splitlines()
        if line.strip().startswith("|")
    ]
    return [(row[0], row[1]) for row in table[2:] if len(row) == 2]
