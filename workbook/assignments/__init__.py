"""What an assignment is, how it is built and released, and how a student submits it.

    from workbook import assignments

    forest = assignments.named("a2")        # or assignments.find() for all of them
    assignments.build(forest)               # solutions/a2__forest/a2.py → assignments/a2__forest/
    assignments.leaks(forest.handout)       # [] if it holds nothing that students must not see
    assignments.release(Path("course"))     # the course as a class gets it

On the command line: `workbook build`, `workbook submit`, `grader release`.
"""

from .assignment import CLUTTER, MOST_ENTRIES, Assignment, files, find, is_clutter, named
from .build import build, programs_on_path
from .gate import Leak, gate, leaks
from .rebuild import update, update_all
from .release import release

__all__ = [
    "CLUTTER",
    "MOST_ENTRIES",
    "Assignment",
    "Leak",
    "build",
    "files",
    "find",
    "gate",
    "is_clutter",
    "leaks",
    "named",
    "programs_on_path",
    "release",
    "update",
    "update_all",
]
