"""nbgrader's configuration for this course, read by `nbgrader …` run in this folder.

Made from the same function that `grader autograde` uses, so that both give the same marks.
"""

from grader.classroom import gradebook
from grader.classroom.classroom import Classroom

get_config().merge(gradebook.config(Classroom.default()))  # type: ignore[name-defined]  # noqa: F821
