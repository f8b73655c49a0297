"""Locks on files, which the kernel releases when the last process that has the file open has ended.

These are Linux's "open file description locks" and not flock(2): with flock a program that may only
read a file can lock it. So two sandboxes that see the same files could signal each other, and in
the grader's sandbox flock does nothing. See the section on these locks in fcntl_locking(2).
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import IO


def lock(file: int | IO[bytes] | IO[str], *, shared: bool = False, wait: bool = True) -> None:
    """Lock a file until it is closed, in this process and in those that inherited it.

        with path.open("w") as file:
            lock(file)
            ...

    Args:
        file: an open file, or its descriptor. It must be open for writing; for a shared lock, for
            reading.
        shared: allow others a shared lock at the same time.
        wait: wait until others have released their locks.

    Raises:
        BlockingIOError: another lock is in the way, and `wait` is False.
    """
    kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
    whole_file = struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0)  # struct flock
    fcntl.fcntl(file, fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK, whole_file)
