"""Pass connections on, between a TCP port and a Unix socket.

A student's server has a network of its own, with nothing in it but a loopback device. Its one way
out is a Unix socket to the hub, and its one way in is a Unix socket from the proxy. JupyterHub and
JupyterLab speak TCP. So one process outside and one inside of the sandbox pass the bytes on.

Only the standard library is imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

#: Where connections go: a port of 127.0.0.1, or a Unix socket.
Target = int | Path
_CHUNK = 1 << 16


async def forward(listener: socket.socket, target: Target) -> asyncio.Server:
    """Accept connections, and pass each of them on to a new connection to the target.

        await forward(listen(8081), Path("/run/hub.sock"))

    Args:
        listener: a listening socket, TCP or Unix.
        target: where connections go. If nothing listens there, a connection is closed at once.

    Returns:
        The server; it works until it is closed.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await _connect(target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))

    start: Callable[..., Awaitable[asyncio.Server]] = (
        asyncio.start_unix_server if listener.family == socket.AF_UNIX else asyncio.start_server
    )
    return await start(serve, sock=listener)


def listen(place: Target) -> socket.socket:
    """A listening socket: a port of 127.0.0.1, or a new Unix socket."""
    if isinstance(place, int):
        return socket.create_server(("127.0.0.1", place))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place))
    listener.listen(128)
    return listener


async def _connect(target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if isinstance(target, int):
        return await asyncio.open_connection("127.0.0.1", target)
    return await asyncio.open_unix_connection(target)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy what one side sends until it has sent all; then tell the other side."""
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
            return
    writer.close()
