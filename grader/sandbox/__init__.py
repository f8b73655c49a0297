"""Run a command in a sandbox: it sees only the files that it is given, and no network.

    from grader import sandbox

    outcome = sandbox.run(["/bin/sh", "-c", "echo hello"], limits=sandbox.Limits(wall_s=10))
    outcome.stdout      # b"hello\\n"

running.py describes what a command in a sandbox sees, and what it cannot do.
"""

from .command import Isolation
from .fork_server import ForkOfThisProcess, ForkServer
from .limits import Limits
from .running import Running, run, start
from .supervisor import Outcome
from .this_machine import Protection, protection

__all__ = [
    "ForkOfThisProcess",
    "ForkServer",
    "Isolation",
    "Limits",
    "Outcome",
    "Protection",
    "Running",
    "protection",
    "run",
    "start",
]
