"""nbgrader's configuration for this course, read by `nbgrader …` run in this folder.

Made from the same function that `grader autograde` uses, so that both give the same marks.
"""

from grader import gradebook
from grader.desk import desk

get_config().merge(gradebook.config(desk()))  # type: ignore[name-defined]  # noqa: F821
