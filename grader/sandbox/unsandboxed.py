"""`Unsandboxed`: a command that runs without a sandbox, because a person has decided so."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import IO

from . import process_tree
from .command import Command
from .process_tree import Process


class Unsandboxed:
    """A command with the caller's own rights, with those limits that need no sandbox."""

    isolated = False
    is_copy = False

    def __init__(self, command: Command, stdin: IO[bytes]) -> None:
        self._folder = tempfile.mkdtemp(prefix="unsandboxed-")
        (Path(self._folder) / "home").mkdir()
        self.process = subprocess.Popen(
            command.limited,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={name: self._move(value) for name, value in command.variables.items()},
            cwd=self._move(command.cwd),
            start_new_session=True,
        )
        self.root = self.process.pid

    def _move(self, value: str) -> str:
        """The path with `/tmp` at its beginning replaced by the private folder."""
        return re.sub(r"^/tmp(?=/|$)", lambda _: self._folder, value)

    def processes(self) -> list[Process]:
        return process_tree.descendants(self.root)

    def cpu_seconds_of_copy(self) -> float:
        return 0.0

    def counted_memory(self) -> int | None:
        return None

    def scratch_bytes(self) -> int:
        return 0  # the private folder is on the disk

    def too_many_processes(self) -> bool:
        return False

    def out_of_memory(self) -> bool:
        return False

    def kill(self) -> None:
        for process in process_tree.descendants(self.root):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.root, signal.SIGKILL)

    def release(self) -> bool:
        shutil.rmtree(self._folder, ignore_errors=True)
        return True
