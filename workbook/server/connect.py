"""Find the server that this checkout's commands and notebooks mean."""

from __future__ import annotations

import os

from ..common.errors import ServerError
from . import runs
from .connection import Server


def connect() -> Server:
    """The server to use, in this order.

    1. `TRITON_URL` (with `TRITON_GRPC_URL`, `TRITON_METRICS_URL` where the ports are not the
       usual ones, and `TRITON_REPOSITORY` for the folder that it serves);
    2. the checkout's own server (`workbook serve`, `make lab`);
    3. whatever answers on the default port, for example NVIDIA's container.

    Raises:
        ServerError: there is none.
    """
    url = os.environ.get("TRITON_URL")
    record = runs.current()
    if url and not (record and record.url == url):
        server = Server(
            url,
            grpc=os.environ.get("TRITON_GRPC_URL") or None,
            metrics=os.environ.get("TRITON_METRICS_URL") or None,
        )
        if not server.live():
            raise ServerError(
                f"No server answers at {server.url}.",
                where="TRITON_URL",
                todo="Start that server, or unset TRITON_URL to use the laptop server.",
            )
        return server
    if record is not None:
        return record.server()
    server = Server()
    if server.live():
        return server
    raise ServerError(
        "No Triton server is running.",
        todo="Start one with `workbook serve --detach` or `make lab`; or set TRITON_URL.",
    )
