"""The `server` argument that every measurement takes."""

from __future__ import annotations

from ..server import Server, connect


def as_server(server: Server | str | None) -> Server:
    """The server of an argument: a `Server`, a URL, or None for the server that `connect()` finds.

    Raises:
        ServerError: None was given, and no server runs.
    """
    if server is None:
        return connect()
    return Server(server) if isinstance(server, str) else server
