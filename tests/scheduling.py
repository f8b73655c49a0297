"""How tests are shared among pytest's workers: by file, and in one file also by assignment.

The tests of a file share a server, so one worker runs them all. Those of test_assignments.py are
the same for each assignment, and take minutes: there each assignment goes to a worker of its own.
"""

from __future__ import annotations

import re

from xdist.scheduler import LoadFileScheduling

#: The file whose tests are shared by assignment. They have its name in their parameters.
PER_ASSIGNMENT = "tests/grader/test_assignments.py"
_NAME = re.compile(r"\ba\d+__[a-z0-9_]+")


def group(nodeid: str) -> str:
    """What is the same for all tests that one worker runs.

    Example::

        group("tests/zoo/test_zoo.py::test_iris")                                 # the file
        group("tests/grader/test_assignments.py::test_solution[a2__forest-0]")    # and a2__forest

    Args:
        nodeid: a test's.

    Returns:
        The test's file; for a test of one assignment, also its name.
    """
    file, _, test = nodeid.partition("::")
    found = _NAME.search(test) if file == PER_ASSIGNMENT else None
    return f"{file}::{found[0]}" if found else file


class Scheduling(LoadFileScheduling):
    """xdist's scheduling by file, with `group` in place of the file."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)
