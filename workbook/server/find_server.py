"""Find the server for this checkout's commands and notebooks."""

from __future__ import annotations

import os
from typing import cast, get_args

from ..common.errors import ServerError
from . import notebook_warnings, run_folders, server_log, which_repository
from .connection import Control, Server


def connect() -> Server:
    """The server to use. In a notebook, warnings about its models are shown from here on.

        with connect() as server:
            print(server.url, server.ready("square"))

    It is the first of these that exists:

    1. the server that `TRITON_URL` names. If its ports are not the usual ones,
       `TRITON_GRPC_URL` and `TRITON_METRICS_URL` name them. `TRITON_REPOSITORY` names the folder
       that it serves, and `TRITON_CONTROL` its model control mode: no request returns the mode,
       and this course loads models for the reader only if the mode is known to be `explicit`;
    2. the checkout's own server (`workbook serve`, `make lab`);
    3. a server on the default port that serves this checkout's model repository, for example
       NVIDIA's container. A server of another folder is used only if `TRITON_URL` names it.

    Raises:
        WrongRepository: (a ServerError) the server on the default port serves another folder.
        ServerError: there is none, or the one that `TRITON_URL` names does not answer.
    """
    server = _find()
    notebook_warnings.watch(server)
    return server


def _find() -> Server:
    url = os.environ.get("TRITON_URL")
    record = run_folders.current()
    if url:
        named = Server(
            url,
            grpc=os.environ.get("TRITON_GRPC_URL") or None,
            metrics=os.environ.get("TRITON_METRICS_URL") or None,
            control=_control(),
        )
        if record is not None and record.url == named.url:
            return of_record(record)
        if not named.live():
            raise ServerError(
                f"No server answers at {named.url}.",
                where="TRITON_URL",
                todo="Start that server, or unset TRITON_URL to use the laptop server.",
            )
        return named
    if record is not None:
        return of_record(record)
    server = Server()
    if not server.live():
        kept = run_folders.log_of_ended()
        log = kept.read_text("utf-8", errors="replace") if kept else ""
        raise ServerError(
            f"No Triton server is running. {server_log.how_it_ended(log)}".rstrip(),
            todo="Start one with `workbook serve --detach` or `make lab`; or set TRITON_URL.",
        )
    which_repository.check(
        server,
        todo="Start this checkout's own server on free ports: `workbook serve --detach "
        "--http-port 0 --grpc-port 0 --metrics-port 0`. Or, to use that server all the same, set "
        f"TRITON_URL={server.url}, and TRITON_REPOSITORY to the folder that it serves.",
    )
    return server


def of_record(record: run_folders.Record) -> Server:
    """A `Server` to send requests to the checkout's own server."""
    return Server(
        record.url,
        grpc=record.grpc,
        metrics=record.metrics,
        repository=record.repository,
        control=record.control,
        log=record.log,
    )


def _control() -> Control | None:
    """The model control mode that TRITON_CONTROL names; None if it is not set."""
    value = os.environ.get("TRITON_CONTROL")
    for mode in get_args(Control):
        if value == mode:
            return cast(Control, mode)
    if value:
        raise ServerError(
            f"{value!r} is no model control mode.",
            where="TRITON_CONTROL",
            todo=f"Set it to one of {', '.join(get_args(Control))}, as the server was started.",
        )
    return None
