"""Which server a measurement means."""

from __future__ import annotations

from ..server import Server, connect


def reach(server: Server | str | None) -> Server:
    """A server as it is, one made from a URL, or by default the one that `connect()` finds."""
    if server is None:
        return connect()
    return Server(server) if isinstance(server, str) else server
