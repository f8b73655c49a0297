"""`Command`: a command that runs in a sandbox, and the files that it sees there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from .limits import Limits, prlimit

Network = Literal["own", "outer"]
Isolation = Literal["sandbox", "unsandboxed"]


@dataclasses.dataclass(frozen=True)
class Command:
    """A program with its arguments, and the sandbox that it runs in.

    The fields are the arguments of `sandbox.run`, where they are explained.
    """

    words: Sequence[str]
    read_only: Mapping[str, Path] = dataclasses.field(default_factory=dict)
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cwd: str = "/tmp"
    limits: Limits = dataclasses.field(default_factory=Limits)
    network: Network = "own"
    nesting: bool = False

    @property
    def variables(self) -> dict[str, str]:
        """All environment variables that it gets: four defaults, and those of the caller."""
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": "/tmp/home",
            "LANG": "C.UTF-8",
            "TMPDIR": "/tmp",
            **self.environment,
        }

    @property
    def limited(self) -> list[str]:
        """The command line, started by the program that sets the kernel's limits."""
        return [*prlimit(self.limits), *self.words]
