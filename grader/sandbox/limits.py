"""The limits of a sandbox, and the command that sets those which the kernel applies per process."""

from __future__ import annotations

import dataclasses
import resource

#: The kernel's limit on processes is this much higher than ours. So the supervisor can see when our
#: limit is exceeded, and report that as the reason why it ended the sandbox.
SPARE = 16


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits of a sandbox, for all of its processes together unless a line says otherwise.

    Example::

        Limits(wall_s=60, memory_bytes=1 << 30)

    Attributes:
        wall_s: seconds from start to end.
        cpu_s: seconds of processor time. Processes that have ended count as well.
        memory_bytes: memory of the processes, and content of the writable folders. One process that
            allocates more gets a MemoryError. If several processes together use more, the sandbox
            is ended.
        processes: processes and threads at one time.
        file_bytes: the largest single file.
        scratch_bytes: the size of each writable folder, `/tmp` and `/dev/shm`.
        output_bytes: the most on standard output, and the most on standard error.
        open_files: file descriptors per process.
    """

    wall_s: float = 300.0
    cpu_s: float = 600.0
    memory_bytes: int = 4 << 30
    processes: int = 1024
    file_bytes: int = 1 << 30
    scratch_bytes: int = 2 << 30
    output_bytes: int = 256 << 20
    open_files: int = 4096


def prlimit(limits: Limits) -> list[str]:
    """The start of a command line that sets the kernel's limits for each process.

    The program is prlimit(1) of util-linux. Memory is limited with RLIMIT_DATA and not with
    RLIMIT_AS, because a server maps far more addresses than it ever uses.
    """
    wanted = {
        "core": (resource.RLIMIT_CORE, 0),
        "cpu": (resource.RLIMIT_CPU, int(limits.cpu_s) + 2),
        "data": (resource.RLIMIT_DATA, limits.memory_bytes),
        "fsize": (resource.RLIMIT_FSIZE, limits.file_bytes),
        "nofile": (resource.RLIMIT_NOFILE, limits.open_files),
        "nproc": (resource.RLIMIT_NPROC, limits.processes + SPARE),
    }
    options = []
    for name, (number, value) in wanted.items():
        ceiling = resource.getrlimit(number)[1]
        at_most = value if ceiling == resource.RLIM_INFINITY else min(value, ceiling)
        options.append(f"--{name}={at_most}")
    return ["/usr/bin/prlimit", *options, "--"]
