"""Distribute tests among pytest's workers: by file, and in four files by what they test.

The tests of a file share a server, so one worker runs them all. `PARTS` names the files that take
minutes and are divided further: by assignment, lecture or task. In test_assignments.py each
assignment's mutants are a group of their own. The longest groups begin first, so that no worker is
busy long after the others have ended.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Mapping, Sequence

from xdist.scheduler import LoadFileScheduling

_ASSIGNMENT = re.compile(r"\ba\d+__[a-z0-9_]+")
#: Files that are divided, and what the tests of a group have in common in their names. A test
#: without it belongs to the group of the file.
PARTS = {
    "tests/grader/test_assignments.py": _ASSIGNMENT,
    "tests/attacks/test_every_assignment.py": _ASSIGNMENT,
    "tests/lectures/test_lectures_run.py": re.compile(r".+"),
    "tests/lectures/test_tasks.py": re.compile(r"(?<=\[)\w+\.\w+(?=\])"),
}


def group(nodeid: str) -> str:
    """The group of a test: one worker runs all tests of a group.

    Example::

        group("tests/zoo/test_zoo.py::test_iris")                                 # the file
        group("tests/grader/test_assignments.py::test_solution[a2__forest-0]")    # and a2__forest
        group("tests/grader/test_assignments.py::test_mutant[a2__forest: one]")   # and its mutants
        group("tests/lectures/test_lectures_run.py::test_runs[08__fil]")          # and the test
        group("tests/lectures/test_tasks.py::test_hints[python.verdict]")  # and python.verdict

    Args:
        nodeid: the test's node id.

    Returns:
        The test's file; for a test of one assignment, also its name, and whether it tries a mutant;
        for a test of one task, also the task's id; a lecture's test itself.
    """
    file, _, test = nodeid.partition("::")
    found = PARTS[file].search(test) if file in PARTS else None
    mutants = " mutants" * test.startswith("test_mutant[")
    return f"{file}::{found[0]}{mutants}" if found else file


def in_order(nodeids: Sequence[str], seconds: Mapping[str, float]) -> dict[str, int]:
    """Each test's place in the run: the longest groups come first.

    Args:
        nodeids: the node ids of all tests, in the order of their files.
        seconds: how long groups took, from tests/durations.csv. A test of another group is taken
            to last a second.
    """
    groups = {nodeid: group(nodeid) for nodeid in nodeids}
    tests = collections.Counter(groups.values())

    def place(nodeid: str) -> tuple[float, str]:
        name = groups[nodeid]
        return -seconds.get(name, tests[name]), name

    return {nodeid: rank for rank, nodeid in enumerate(sorted(nodeids, key=place))}


class Scheduling(LoadFileScheduling):
    """xdist's scheduling by file, with `group` in place of the file."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)
