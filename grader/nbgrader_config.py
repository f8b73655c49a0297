"""nbgrader's configuration for this course. `nbgrader …` reads it when it is run in this folder.

It comes from the function that `grader autograde` uses as well, so that both give the same marks.
"""

from grader.classroom import gradebook
from grader.classroom.classroom import Classroom

get_config().merge(gradebook.config(Classroom.default()))  # type: ignore[name-defined]  # noqa: F821
