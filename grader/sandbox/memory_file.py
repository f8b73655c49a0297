"""A file in memory that nobody can change."""

from __future__ import annotations

import fcntl
import os
from typing import IO


def memory_file(data: bytes) -> IO[bytes]:
    """An open file in memory, at its beginning. Nobody can write to it any more.

    A command could open its standard input anew for writing, in /proc/self/fd. Without the seal it
    could keep data there that belong to no process.
    """
    file = os.fdopen(os.memfd_create("sandbox", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "w+b")
    file.write(data)
    file.seek(0)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
    return file
