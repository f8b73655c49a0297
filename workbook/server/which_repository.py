"""Find out which model repository a server reads, and whether it is this checkout's repository.

No request to a server returns the path of its repository. Two things show it:

- The command line of its process names the folder. This account must be able to see the process,
  and both must see the same file system. That is the case for laptop servers, those of other
  checkouts included.
- Its repository index lists the folders that the repository has at the time of the request. This
  module makes an empty folder with a random name in our repository. If the server's index lists
  that name, the server reads our repository, even under another path. This works for containers.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from ..common.errors import ServerError
from . import ports
from .connection import Server

#: How the names of the empty folders begin.
MARKER = "workbook-marker-"
_LOCAL = ("localhost", "127.0.0.1", "::1")


class WrongRepository(ServerError):
    """A server reads its models from another folder than it should."""


def repository(server: Server) -> Path | None:
    """The folder that a server reads its models from; None if that cannot be found out.

        repository(Server("http://localhost:8000"))  # PosixPath('/home/me/course/model_repository')

    It can be found out for a server on this machine, and for one that reads `server.repository`.
    """
    folders = _of_process(server)
    if server.repository in folders:
        return server.repository
    if folders:
        return folders[0]
    return server.repository if _lists_marker(server) else None


def check(server: Server, *, todo: str) -> None:
    """Check that a server reads `server.repository`.

    Args:
        todo: what the error tells the reader to do.

    Raises:
        WrongRepository: it reads another folder, or its folder cannot be found out. The message
            names both folders.
        ServerError: it does not answer.
    """
    found = repository(server)
    if found == server.repository:
        return
    if found is not None:
        serves = f"It serves {found}"
    elif not os.access(server.repository, os.W_OK):
        serves = "Which folder it serves is not known"
    else:
        names = [entry["name"] for entry in server.index()]
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        serves = "It serves another folder, " + (f"with the models {shown}" if names else "empty")
    raise WrongRepository(
        f"The server at {server.url} does not serve this checkout's models. {serves}; this "
        f"checkout's models are in {server.repository}.",
        where=server.url,
        todo=todo,
    )


def _of_process(server: Server) -> list[Path]:
    """The folders that the server's command line names; empty if it cannot be read."""
    parts = urlsplit(server.url)
    if parts.hostname not in _LOCAL or parts.port is None:
        return []
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(server.pid) if server.pid else ports.holder(parts.port)
        if process is None:
            return []
        # In a container the same path can be another folder.
        theirs, ours = Path(f"/proc/{process.pid}/ns/mnt"), Path("/proc/self/ns/mnt")
        if theirs.readlink() != ours.readlink():
            return []
        folders = ports.model_repositories(process)
        return [Path(process.cwd(), folder).resolve() for folder in folders]
    return []


def _lists_marker(server: Server) -> bool:
    """Whether the server's index lists an empty folder that this function makes for the test."""
    marker = server.repository / f"{MARKER}{secrets.token_hex(8)}"
    try:
        for left in server.repository.glob(f"{MARKER}*"):  # left by a process that was killed
            if time.time() - left.stat().st_mtime > 60:
                left.rmdir()
        marker.mkdir()
    except OSError:
        return False
    try:
        return any(entry["name"] == marker.name for entry in server.index())
    except ServerError:
        return False
    finally:
        with contextlib.suppress(OSError):
            marker.rmdir()
