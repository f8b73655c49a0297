"""Run a command, or a whole notebook, where it can reach nothing of this machine.

from grader import sandbox

outcome = sandbox.run(["/bin/sh", "-c", "echo hello"], limits=sandbox.Limits(wall_s=10))
outcome.stdout      # b"hello\\n"
"""

from .command import Isolation
from .limits import Limits
from .running import Running, run, start
from .supervisor import Outcome
from .this_machine import Protection, protection

__all__ = [
    "Isolation",
    "Limits",
    "Outcome",
    "Protection",
    "Running",
    "protection",
    "run",
    "start",
]
