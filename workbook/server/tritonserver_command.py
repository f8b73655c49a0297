"""The command that starts the laptop server: its options and its environment."""

from __future__ import annotations

import dataclasses
import os
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path

from ..common.errors import ServerError
from . import assemble
from .connection import Control
from .native.forkserver import JAIL_VARIABLE

#: Threads for linear algebra (numpy's and scipy's OpenBLAS) wait for more work before they sleep,
#: and keep a core busy meanwhile: by default for 2^26 clock ticks, about 25 ms, each time. On a
#: laptop many processes share few cores, so here these threads wait for 2^18 ticks.
SHORT_SPIN = {"OPENBLAS_THREAD_TIMEOUT": "18"}

#: Variables that make the server faster. A variable that the caller has set wins. native/README.md
#: describes them.
SPEED_VARIABLES = {
    # libevent, which the HTTP endpoint is built on, changes its epoll set twice per request.
    # poll() needs no such changes, and each of the endpoint's threads has few connections.
    "EVENT_NOEPOLL": "1",
    # One thread allocates memory that another thread frees, a whole batch at a time. For each
    # thread glibc keeps 7 freed blocks of a size; with 32 blocks the threads seldom need a common
    # lock. With more than 32 they need it as often, and a server under load grows for hours.
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=32",
    **SHORT_SPIN,
}

#: If this variable is set, the server refuses answers of Python models that do not fit the config
#: (backends/python/answer_checks.py).
STRICT_VARIABLE = "WORKBOOK_STRICT"

#: Variables of this process that would change which modules the server's Python models import.
_PYTHON = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "MPLBACKEND")

# Settings that only traces in Triton's own format have; all other settings are for every trace.
_TRACE_FILES = ("file", "log-frequency")


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a laptop server. The docstring of `Triton` explains each of them.

    Attributes:
        ports: port by endpoint: `HTTP`, `gRPC`, `metrics`.
    """

    repository: Path
    control: Control
    models: tuple[str, ...]
    ports: Mapping[str, int]
    address: str
    cache: int
    poll_seconds: int
    trace: Mapping[str, object]
    rate_limit: Mapping[str, int] | None
    tls: Mapping[str, Path | str] | None
    options: tuple[str, ...]
    environment: Mapping[str, str]
    plain: bool
    jail: Path | None


def arguments(settings: Settings, place: assemble.Installation, shm_prefix: str) -> list[str]:
    """The command line as a list: the program, then its arguments.

    Args:
        shm_prefix: how the names of the Python backend's shared-memory regions begin.
    """
    options = {
        "model-repository": assemble.shell_safe(settings.repository),
        "backend-directory": place.backends,
        "model-control-mode": settings.control,
        "http-address": settings.address,
        "grpc-address": settings.address,
        "metrics-address": settings.address,
        "http-port": settings.ports["HTTP"],
        "grpc-port": settings.ports["gRPC"],
        "metrics-port": settings.ports["metrics"],
        "exit-on-error": "false",  # one bad model does not stop the others
        "strict-readiness": "false",
        # Before it ends, the server waits this long for running requests, and as long again for
        # idle connections of clients. In explicit mode `Triton.stop` has unloaded the models, so
        # no request is left. (If loaded models do not end in this time, the server exits at once:
        # it writes no trace files, and may crash.)
        "exit-timeout-secs": 1 if settings.control == "explicit" else 3,
        "metrics-interval-ms": 500,
    }
    words = [str(place.binary)] + [f"--{name}={value}" for name, value in options.items()]
    words.append(f"--backend-config=python,shm-region-prefix-name={shm_prefix}")
    if settings.cache:
        words += [
            f"--cache-directory={place.caches}",
            f"--cache-config=local,size={settings.cache}",
        ]
    if settings.control == "poll":
        words.append(f"--repository-poll-secs={settings.poll_seconds}")
    if settings.control == "explicit":
        words += [f"--load-model={name}" for name in settings.models]
    for key, value in settings.trace.items():
        mode = "triton," if key in _TRACE_FILES else ""
        words.append(f"--trace-config={mode}{key}={value}")
    if settings.rate_limit is not None:
        words.append("--rate-limit=execution_count")
        resources = settings.rate_limit.items()
        words += [f"--rate-limit-resource={name}:{count}" for name, count in resources]
    return [*words, *_tls(settings.tls or {}), *settings.options]


def environment(settings: Settings, place: assemble.Installation) -> dict[str, str]:
    """The server's environment variables: this process's own, and what the server needs."""
    faster = {} if settings.plain else SPEED_VARIABLES
    variables = {**faster, **os.environ, **settings.environment}
    # The stub finds its packages through the `python3` that is first on PATH.
    path = variables.get("PATH", os.defpath)
    variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{path}"
    preload = () if place.preload is None else (place.preload,)
    for name, ours in (("LD_LIBRARY_PATH", place.libraries), ("LD_PRELOAD", preload)):
        if ours:  # they come before the folders that the caller has set
            variables[name] = os.pathsep.join(
                [*map(str, ours), *filter(None, [variables.get(name)])]
            )
    for name in _PYTHON:
        variables.pop(name, None)
    if "GRPC_ENABLE_FORK_SUPPORT" not in settings.environment:  # it was set for this process only
        variables.pop("GRPC_ENABLE_FORK_SUPPORT", None)
    if settings.jail is not None:
        if place.preload is None:
            raise ServerError(
                "Models cannot run in sandboxes of their own here: the fork server is missing.",
                todo="Install a C compiler (`cc`), then start again.",
            )
        variables[JAIL_VARIABLE] = os.pathsep.join(map(str, (settings.jail, settings.repository)))
    return variables


def _tls(files: Mapping[str, Path | str]) -> list[str]:
    """The options for gRPC over TLS.

    This function reads the files first. If the server itself cannot read a file, its message says
    that a port is in use.

    Raises:
        ServerError: a file is not named, is not a PEM file, or cert and key do not fit together.
    """
    if not files:
        return []
    for name in ("cert", "key"):
        if name not in files:
            raise ServerError(
                f"gRPC over TLS needs a {name}.",
                where="tls",
                todo=f'Give tls["{name}"], a PEM file.',
            )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    words = [
        "--grpc-use-ssl=true",
        f"--grpc-server-cert={files['cert']}",
        f"--grpc-server-key={files['key']}",
    ]
    try:
        context.load_cert_chain(files["cert"], files["key"])
        if "root" in files:
            words += ["--grpc-use-ssl-mutual=true", f"--grpc-root-cert={files['root']}"]
            context.load_verify_locations(files["root"])
    except OSError as error:  # ssl.SSLError is a subclass
        raise ServerError(
            f"The TLS files cannot be used: {error.strerror or error}.",
            where=", ".join(f"{name}={path}" for name, path in files.items()),
            todo="Give PEM files that exist; cert and key must belong together.",
        ) from None
    return words
