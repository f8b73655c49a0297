"""`Supervisor`: collect a command's output, and end the command when it exceeds a limit.

Limits are applied in three ways:

- by the kernel, per process (limits.py)
- by the kernel, for all processes together, if a cgroup can be made (cgroup.py)
- by the supervisor: every 0.1 s it looks at the processes, and ends all of them if a limit is
  exceeded. It counts memory and open files only where the kernel does not count the memory.

If the supervisor's own process is killed, bubblewrap ends the sandbox (option --die-with-parent).
"""

from __future__ import annotations

import dataclasses
import os
import selectors
import signal
import time
from collections.abc import Callable
from typing import Literal

from . import bubblewrap, process_tree
from .limits import Limits
from .process_tree import Process
from .started import Started

Stopped = Literal["", "wall clock", "cpu", "memory", "processes", "open files", "output", "asked"]

_TICK = 0.1  # seconds between two looks
_STDERR = 16 << 10  # bytes of standard error that are kept: the last ones


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Attributes:
        code: its exit status; negative for a signal; -9 where a limit stopped it.
        stdout: its standard output, at most `output_bytes` of the limits.
        stderr: the last 16 KiB of its standard error.
        seconds: wall clock, from start to end.
        cpu_seconds: processor time of all its processes.
        peak_bytes: the most memory that the supervisor has measured.
        stopped: the limit that ended it; "asked" if the caller ended it; else "".
        isolated: False if it ran without a sandbox.
        is_copy: True if a copy of a fork server carried it out.
    """

    code: int
    stdout: bytes
    stderr: str
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    stopped: Stopped
    isolated: bool
    is_copy: bool = False


class Supervisor:
    """Watches one started command until it ends.

    Args:
        started: the command.
        limits: its limits.

    Attributes:
        held: the memory that the command held when it was looked at last, in bytes.
    """

    def __init__(self, started: Started, limits: Limits) -> None:
        self.held = 0
        self._started = started
        self._limits = limits
        self._began = time.monotonic()
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._stderr_size = 0
        self._cpu = 0.0
        self._peak = 0
        self._stopped: Stopped = ""

    def run(self) -> Outcome:
        """Collect the output and apply the limits until the command has ended.

        Raises:
            WorkbookError: bubblewrap made no sandbox, so that the command never ran.
        """
        process = self._started.process
        self._collect()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self._started.kill()
        if not self._stopped and self._started.too_many_processes():
            self._stopped = "processes"
        if not self._stopped and self._started.out_of_memory():
            self._stopped = "memory"
        seconds = time.monotonic() - self._began
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
        of_copy = self._started.cpu_seconds_of_copy()
        has_run = self._started.release()
        if not has_run and process.returncode == 1 and not self._stopped:
            raise bubblewrap.refused(self._stderr_text().strip())
        code = process.returncode
        if code > 128:  # bubblewrap reports a signal as a shell does
            code = 128 - code
        return Outcome(
            code=-signal.SIGKILL if self._stopped else code,
            stdout=bytes(self._stdout),
            stderr=self._stderr_text(),
            seconds=seconds,
            cpu_seconds=max(self._cpu, usage.ru_utime + usage.ru_stime + of_copy),
            peak_bytes=self._peak,
            stopped=self._stopped,
            isolated=self._started.isolated,
            is_copy=self._started.is_copy,
        )

    def end(self, why: Stopped) -> None:
        """End the command. The outcome has the reason; if there are several, the first one."""
        if not self._stopped and self._started.process.returncode is None:
            self._stopped = why
        self._started.kill()

    def text(self) -> str:
        """The command's output so far: standard output, then the end of standard error."""
        return bytes(self._stdout).decode(errors="replace") + self._stderr_text()

    def _collect(self) -> None:
        """Read both pipes until they end, and look at the processes in between."""
        process = self._started.process
        ended = os.pidfd_open(process.pid)
        next_look = self._began + _TICK
        with selectors.DefaultSelector() as selector:
            for pipe, take in ((process.stdout, self._take), (process.stderr, self._take_error)):
                assert pipe is not None
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, take)
            selector.register(ended, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select(max(0.0, next_look - time.monotonic())):
                    if key.fd == ended:
                        selector.unregister(ended)
                        # Processes that it left behind may hold the pipes open.
                        self._started.kill()
                    else:
                        self._read(selector, key.fd, key.data)
                if time.monotonic() >= next_look:
                    if ended in selector.get_map():
                        self._look()
                    next_look = time.monotonic() + _TICK
        os.close(ended)

    def _look(self) -> None:
        """End the command if it exceeds a limit."""
        limits, started = self._limits, self._started
        if time.monotonic() - self._began > limits.wall_s:
            return self.end("wall clock")
        if started.too_many_processes():
            return self.end("processes")
        processes = started.processes()
        if sum(p.threads for p in processes) > limits.processes:
            return self.end("processes")
        self._cpu = max(self._cpu, sum(p.cpu_seconds for p in processes))
        if self._cpu > limits.cpu_s:
            return self.end("cpu")
        if started.out_of_memory():
            return self.end("memory")
        held = started.counted_memory()
        if held is None:
            return self._look_at_memory(processes)
        self._peak, self.held = max(self._peak, held), held
        return None

    def _look_at_memory(self, processes: list[Process]) -> None:
        """The same for memory, where the kernel does not count it."""
        limits, started = self._limits, self._started
        scratch = started.scratch_bytes()
        held = process_tree.memory(processes) + scratch
        if held > limits.memory_bytes:  # this is only an upper bound; now count exactly
            held = process_tree.exact_memory(processes, _TICK) + scratch
        self._peak, self.held = max(self._peak, held), held
        if held > limits.memory_bytes:
            return self.end("memory")
        if process_tree.open_files(processes) > limits.open_files:
            return self.end("open files")
        return None

    def _read(
        self, selector: selectors.BaseSelector, fd: int, take: Callable[[bytes], None]
    ) -> None:
        try:
            data = os.read(fd, 1 << 20)
        except BlockingIOError:
            return
        if data:
            take(data)
        else:
            selector.unregister(fd)

    def _take(self, data: bytes) -> None:
        self._stdout += data[: self._limits.output_bytes - len(self._stdout)]
        if len(self._stdout) >= self._limits.output_bytes:
            self.end("output")

    def _take_error(self, data: bytes) -> None:
        self._stderr_size += len(data)
        self._stderr += data
        del self._stderr[: -2 * _STDERR]
        if self._stderr_size > self._limits.output_bytes:
            self.end("output")

    def _stderr_text(self) -> str:
        return bytes(self._stderr[-_STDERR:]).decode(errors="replace")
