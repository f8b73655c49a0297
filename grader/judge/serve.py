"""`python -m grader.judge.serve ISOLATION REPOSITORY HTTP GRPC METRICS`: a Triton on these ports.

This program runs in the sandbox of the judge's server. It loads no model until it is asked to, and
writes the server's log to standard output. Each instance of a model runs in a sandbox of its own,
within this one (workbook/server/native/jail.py): a submitted model's code cannot reach the server,
its ports, or another model.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import threading
from pathlib import Path

from workbook.server import Triton

from ..sandbox import seccomp

#: The stack of each thread of the server. Triton's Python backend has about 35 threads per instance
#: of a model. With the usual 8 MB they use up the memory that a process may reserve (RLIMIT_DATA)
#: at 13 instances, and then 24.10 ends with a segmentation fault.
STACK_BYTES = 2 << 20


def main() -> None:
    """Serve until the server ends, or this process is stopped."""
    isolation, repository, *ports = sys.argv[1:]
    http, grpc, metrics = map(int, ports)
    jail = _filter() if isolation == "sandbox" else None
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, most))
    with Triton(repository, http=http, grpc=grpc, metrics=metrics, jail=jail) as triton:
        assert triton.log is not None
        ended = threading.Event()
        copier = threading.Thread(target=_copy, args=(triton.log, ended))
        copier.start()
        triton.wait()
        ended.set()
        copier.join()


def _filter() -> Path:
    """A file with the system call filter for models: their sandboxes contain no other sandbox."""
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(seccomp.filter_bytes() or b"")
    return Path(file.name)


def _copy(log: Path, ended: threading.Event) -> None:
    """Copy a file to standard output while it grows.

    Args:
        log: the file.
        ended: set when nobody writes to the file any more. What is in it then is still copied.
    """
    with log.open("rb") as file:
        while True:
            is_last = ended.is_set()
            if text := file.read():
                sys.stdout.buffer.write(text)
                sys.stdout.buffer.flush()
            elif is_last:
                return
            else:
                ended.wait(0.05)


if __name__ == "__main__":
    main()
