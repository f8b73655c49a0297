"""Ports of this machine: choose free ports, and name the program that uses a taken port."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

import psutil

from ..common.errors import ServerError

_OPTIONS = {"HTTP": "--http-port", "gRPC": "--grpc-port", "metrics": "--metrics-port"}


def choose(requested: Mapping[str, int], address: str) -> dict[str, int]:
    """The ports to use: each requested port if it is free, and a free one for each 0.

    Args:
        requested: port by endpoint: `HTTP`, `gRPC`, `metrics`.
        address: the address to listen on.

    Raises:
        ServerError: a port is taken, is asked for twice, or is not a port.
    """
    chosen: dict[str, int] = {}
    with contextlib.ExitStack() as held:
        for endpoint, port in requested.items():
            if not port:
                probe = held.enter_context(socket.socket(_family(address)))
                probe.bind((address, 0))
                chosen[endpoint] = probe.getsockname()[1]
                continue
            if port in chosen.values():
                raise ServerError(
                    f"Port {port} is asked for twice.",
                    where=endpoint,
                    todo="Give each endpoint its own port.",
                )
            if not is_free(port, address):
                raise taken_error(endpoint, port)
            chosen[endpoint] = port
    return chosen


def is_free(port: int, address: str) -> bool:
    """Whether a server could listen on a port.

    Raises:
        ServerError: the number is not a port, or this account may not use it.
    """
    if not 0 < port < 65536:
        raise ServerError(f"{port} is not a port.", todo="Ports go from 1 to 65535.")
    with socket.socket(_family(address)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except PermissionError:
            raise ServerError(
                f"Port {port} needs rights that this account lacks.",
                todo="Take a port from 1024 up.",
            ) from None
        except OSError:
            return False
    return True


def taken_error(endpoint: str, port: int) -> ServerError:
    """The error for a taken port; it names the program, and a server's repository."""
    process = holder(port)
    program, its = "another program", "that program"
    if process is not None:
        with contextlib.suppress(psutil.Error):
            program = f"{process.name()} (process {process.pid})"
            folders = model_repositories(process)
            if folders:
                program += f", which serves {', '.join(folders)}"
                its = "that server (in its own checkout: `workbook stop`)"
    return ServerError(
        f"Port {port} for {endpoint} is taken by {program}.",
        where=f"port {port}",
        todo=f"Give another port: {_OPTIONS[endpoint]} PORT (0 takes a free one). Or stop {its}.",
    )


def of(address: str) -> int | None:
    """The port in an address, with or without a scheme: `of("localhost:8001") == 8001`."""
    return urlsplit(address if "://" in address else f"//{address}").port


def holder(port: int) -> psutil.Process | None:
    """The process that listens on a port; None if this account cannot see it.

    Processes of other accounts and of containers are not visible.
    """
    with contextlib.suppress(psutil.Error):
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN
            if listens and connection.laddr.port == port and connection.pid:
                return psutil.Process(connection.pid)
    return None


def listens(pid: int, ports: Collection[int]) -> bool:
    """Whether the process with this id listens on all of these ports."""
    with contextlib.suppress(psutil.Error):
        connections = psutil.Process(pid).net_connections("tcp")
        return set(ports) <= {c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN}
    return False


def model_repositories(process: psutil.Process) -> list[str]:
    """The values of `--model-repository` in a process's command line; empty without this option."""
    words = process.cmdline()
    folders = []
    for word, following in zip(words, [*words[1:], ""], strict=True):
        option, equals, value = word.partition("=")
        if option in ("--model-repository", "--model-store"):
            folders.append(value if equals else following)
    return folders


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
