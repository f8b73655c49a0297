"""From py:percent sources to notebooks: reading, building, executing.

from workbook.notebooks import building, executing, notebook, read

node = notebook(read(Path("lectures/00__start/lesson.py")))   # a notebook without outputs
building.build(building.lectures()[0])                 # written beside its source
executing.run(Path("lectures/00__start/lesson.py"))           # with outputs
"""

from .source import (
    END,
    KINDS,
    MARKER,
    STUB,
    Cell,
    Source,
    check_calls,
    dotted,
    grade_id,
    notebook,
    read,
    text,
)

__all__ = [
    "END",
    "KINDS",
    "MARKER",
    "STUB",
    "Cell",
    "Source",
    "check_calls",
    "dotted",
    "grade_id",
    "notebook",
    "read",
    "text",
]
