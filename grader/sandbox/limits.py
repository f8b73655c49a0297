"""The limits of a sandbox, and the command that sets those which the kernel applies per process.

Where a cgroup can be made (cgroup.py), the kernel counts all memory, whoever uses it. Without one
the supervisor counts ten times a second:

- the memory of the processes, with what is swapped out, and their page tables
- the content of the writable folders, and a kilobyte for each file in them
- open files, because each socket or pipe may hold some hundred kilobytes

What it cannot count then: the buffers themselves (with the default limits at most 2 GB of Unix
sockets, and of TCP what the whole machine allows), shared memory that no process maps at the
moment, file locks, and what is used and given back within 0.1 s. `sandbox.protection()` says which
of the two it is.

Without a group with the controller `cpu`, the processor is shared by the number of processes: a
submission that starts hundreds of busy ones slows those beside it down, as long as its own limits
let it. Where such a class is to be graded, grade it as root or in a container, or with one worker.

How long a submission's notebook and each of its cells may run is set in judge/run_notebook.py.

With or without a group, two submissions that run at the same time can measure each other's load
(processor, page cache, /proc/stat), and so could signal each other slowly.
"""

from __future__ import annotations

import dataclasses
import resource

#: The cgroup's limit on processes is this much higher than ours, and the kernel's limit per user
#: (RLIMIT_NPROC) twice this much. So the supervisor can see that our limit is exceeded, and report
#: it as the reason why it ended the sandbox. The cgroup refuses first, because it records that it
#: did. If too many new processes keep the supervisor from looking, it reads the record afterwards.
SPARE = 16
_LOCKED = 8 << 20  # bytes that a process may keep from being swapped; Linux's usual limit


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits of a sandbox, for all of its processes together unless a line says otherwise.

    Example::

        Limits(wall_s=60, memory_bytes=1 << 30)

    Attributes:
        wall_s: seconds from start to end.
        cpu_s: seconds of processor time. Processes that have ended count as well.
        memory_bytes: memory of the processes, content of the writable folders, and what the kernel
            needs for both. One process that allocates more gets a MemoryError. If several processes
            together use more, the sandbox is ended.
        processes: processes and threads at one time.
        file_bytes: the largest single file.
        scratch_bytes: the size of each writable folder, `/tmp` and `/dev/shm`.
        output_bytes: the most on standard output, and the most on standard error.
        open_files: file descriptors per process; without a cgroup, of all processes together, too.
    """

    wall_s: float = 300.0
    cpu_s: float = 600.0
    memory_bytes: int = 4 << 30
    processes: int = 1024
    file_bytes: int = 1 << 30
    scratch_bytes: int = 2 << 30
    output_bytes: int = 256 << 20
    open_files: int = 4096


def per_process(limits: Limits) -> dict[str, int]:
    """The limits that the kernel applies to each process: name of the resource → value.

    Memory is limited with RLIMIT_DATA and not with RLIMIT_AS, because a server maps far more
    addresses than it ever uses. No value is above the caller's own.
    """
    wanted = {
        "core": 0,
        "cpu": int(limits.cpu_s) + 2,
        "data": limits.memory_bytes,
        "fsize": limits.file_bytes,
        "memlock": _LOCKED,
        "nofile": limits.open_files,
        "nproc": limits.processes + 2 * SPARE,
    }
    for name, value in wanted.items():
        ceiling = resource.getrlimit(number(name))[1]
        wanted[name] = value if ceiling == resource.RLIM_INFINITY else min(value, ceiling)
    return wanted


def number(name: str) -> int:
    """The kernel's number of a resource, such as `nofile`."""
    found: int = getattr(resource, f"RLIMIT_{name.upper()}")
    return found


def prlimit(limits: Limits) -> list[str]:
    """The start of a command line that sets `per_process`, with prlimit(1) of util-linux."""
    options = [f"--{name}={value}" for name, value in per_process(limits).items()]
    return ["/usr/bin/prlimit", *options, "--"]
