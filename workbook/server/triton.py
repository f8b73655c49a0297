"""`Triton`: a laptop server of one's own, as a context manager or until `stop()`.

    with Triton(repository, control="poll") as server:
        server.ready()

The server runs under a guard (guard.py) which ends it when this process ends, whatever the
reason; a detached one lives until it is stopped (runs.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from ..common import paths
from ..common.errors import ServerError
from . import assemble, repository, runs
from .connection import Control, Server
from .explain import hazard, start_error

# What the server prints when it gives up; on a machine without a GPU it always complains of that.
_COMPLAINT = re.compile(r"^E\d{4} (?!.*CudaDriverHelper)|^error|: unrecognized option")

#: numpy's and scipy's threads for linear algebra keep a core busy for 2^26 ticks, some 25 ms, after
#: they have started and after each piece of work. Here many processes share few cores: 2^18.
SHORT_SPIN = {"OPENBLAS_THREAD_TIMEOUT": "18"}

# What makes small requests cheaper, a tenth or two of the server's time for each on two cores:
# - libevent, under the HTTP endpoint, changes its epoll set twice a request; poll() needs no such
#   changes, and each of the endpoint's threads has few connections to look through.
# - What one thread allocates another frees, a whole batch at once; glibc keeps 7 blocks of a size
#   for a thread to take again, and every other goes back to an arena that threads share.
# They give way to variables of the same name.
_THRIFTY = {
    "EVENT_NOEPOLL": "1",
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=200",
    **SHORT_SPIN,
}

# Trace settings of Triton's own trace files; the others are for every kind of trace.
_TRACE_FILES = ("file", "log-frequency")


class Triton(Server):
    """A tritonserver on this machine, started by `start()` or on entering the context.

    Args:
        repository: the model repository; by default the shared one. A path with spaces is served
            through a link, since Triton 24.10 cannot start Python models below such a path.
        control: the model control mode. `explicit` loads what it is asked to, `poll` watches the
            repository, `none` loads everything once.
        models: names to load at the start (explicit mode only).
        http, grpc, metrics: ports; 0 takes a free one.
        address: the address to listen on. Whoever reaches these ports can load code into the
            server, so the default is this machine alone.
        cache: bytes of the local response cache; 0 for none.
        poll_seconds: how often poll mode looks at the repository.
        trace: settings for --trace-config, e.g. `{"rate": 1, "level": "TIMESTAMPS"}`, with
            `file` for the trace file and `log-frequency` for a new one after so many traces.
        rate_limit: turn the rate limiter on: resources as `{"name": count}` (may be empty).
        tls: PEM files for gRPC over TLS: `cert` and `key`, and `root` for mutual TLS.
        options: any other tritonserver options, as a list of words.
        environment: variables for the server and its models, added to this process's own.
        start_timeout: seconds to wait for the server to answer.

    Raises (from `start`):
        ServerError: it could not start; the message holds the reason and the log's place.
    """

    def __init__(
        self,
        repository: Path | str | None = None,
        *,
        control: Control = "explicit",
        models: Iterable[str] = (),
        http: int = 0,
        grpc: int = 0,
        metrics: int = 0,
        address: str = "127.0.0.1",
        cache: int = 64 << 20,
        poll_seconds: int = 1,
        trace: Mapping[str, object] | None = None,
        rate_limit: Mapping[str, int] | None = None,
        tls: Mapping[str, Path | str] | None = None,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        start_timeout: float = 120.0,
    ) -> None:
        wanted = {"HTTP": http, "gRPC": grpc, "metrics": metrics}
        self._ports = _choose_ports(wanted, address)
        host = "localhost" if address in ("0.0.0.0", "127.0.0.1", "::") else address
        super().__init__(
            f"http://{host}:{self._ports['HTTP']}",
            grpc=f"{host}:{self._ports['gRPC']}",
            metrics=f"http://{host}:{self._ports['metrics']}/metrics",
            repository=repository,
            control=control,
        )
        if not self.repository.is_dir():
            raise ServerError(
                "The model repository is not a folder.",
                where=str(self.repository),
                todo="Give --repository a folder that holds one folder a model.",
            )
        self.models = tuple(models)
        self.pid: int | None = None
        self._address = address
        self._cache = cache
        self._poll_seconds = poll_seconds
        self._trace = dict(trace or {})
        self._rate_limit = rate_limit
        self._tls = tls
        self._options = list(options)
        self._environment = dict(environment or {})
        self._start_timeout = start_timeout
        self._guard: subprocess.Popen[bytes] | None = None
        self._owner: int | None = None
        self._run: Path | None = None

    def start(self, *, detach: bool = False, remember: bool = False) -> Self:
        """Start the server and return when it answers.

        Args:
            detach: let it outlive this process.
            remember: make it the checkout's own, which `workbook status` and `stop` mean.
        """
        if self._guard is not None:
            return self
        place = assemble.find()
        if self.control != "explicit":  # where every model is loaded, one could end the server
            for folder in sorted(self.repository.iterdir()):
                danger = hazard(folder.name, folder) if folder.is_dir() else None
                if danger is not None and danger.rule != "no-model-py":  # our stub refuses those
                    raise danger
        if self.control == "poll":  # else the first poll sees the new bytecode as a change
            repository.precompile(self.repository)
        token = secrets.token_hex(4)
        self._run, lock = runs.new(token)
        cwd = self._run / "cwd"  # an empty folder: Python models have '' first on sys.path
        cwd.mkdir()
        self.log = self._run / runs.LOG
        read, write = os.pipe()
        prefix = f"workbook-{os.getuid()}-{token}-"
        orders = {
            "argv": self._argv(place, prefix),
            "cwd": str(cwd),
            "env": self._env(place),
            "log": str(self.log),
            "pidfile": str(self._run / runs.PIDFILE),
            "shm_prefix": prefix,
            "owner_fd": None if detach else read,
        }
        orders_file = self._run / runs.ORDERS
        orders_file.touch(mode=0o600)
        orders_file.write_text(json.dumps(orders), encoding="utf-8")
        guard = Path(__file__).with_name("guard.py")
        try:
            with self.log.open("ab") as log:
                self._guard = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(guard), str(orders_file)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    pass_fds=(lock,) if detach else (lock, read),
                    start_new_session=True,
                )
        except OSError as error:
            os.close(write)
            raise ServerError(f"The server's guard did not start: {error}") from None
        finally:
            os.close(read)
            os.close(lock)
        if detach:
            os.close(write)
        else:
            self._owner = write
        try:
            self._wait()
        except BaseException:  # Ctrl-C included: nothing is left behind
            self._keep_log()
            self.stop()
            raise
        if remember:
            assert self.pid is not None
            runs.Record(
                url=self.url,
                grpc=self.grpc_url,
                metrics=self.metrics_url,
                repository=str(self.repository),
                control=self.control,
                run=str(self._run),
                pid=self.pid,
                guard=self._guard.pid,
                started=time.time(),
            ).save()
        return self

    def stop(self) -> None:
        """Stop the server and everything it started. Stopping twice does no harm."""
        guard, self._guard = self._guard, None
        if guard is not None:
            self.unload_all()
            if self._owner is not None:
                os.close(self._owner)
                self._owner = None
            with contextlib.suppress(ProcessLookupError):
                guard.send_signal(signal.SIGTERM)
            try:
                guard.wait(timeout=30)
            except subprocess.TimeoutExpired:
                guard.kill()
                guard.wait()
        if self._run is not None:
            shutil.rmtree(self._run, ignore_errors=True)
            self._run = None
        self.pid = None
        self.close()

    def wait(self) -> None:
        """Return when the server has ended by itself."""
        if self._guard is not None:
            self._guard.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # -- how it is started ----------------------------------------------------------------------

    def _argv(self, place: assemble.Installation, shm_prefix: str) -> list[str]:
        options = {
            "model-repository": assemble.shell_safe(self.repository),
            "backend-directory": place.backends,
            "model-control-mode": self.control,
            "http-address": self._address,
            "grpc-address": self._address,
            "metrics-address": self._address,
            "http-port": self._ports["HTTP"],
            "grpc-port": self._ports["gRPC"],
            "metrics-port": self._ports["metrics"],
            "exit-on-error": "false",  # one bad model never stops the others
            "strict-readiness": "false",
            # The server waits so long for requests under way, but also for idle connections of
            # clients. In explicit mode stop() has unloaded the models, so no request is left. (A
            # server that is told to end with models loaded may not see them end in this time. It
            # then exits at once: trace files are not written, and it may trap on its way out.)
            "exit-timeout-secs": 1 if self.control == "explicit" else 3,
            "metrics-interval-ms": 500,
        }
        argv = [str(place.binary)] + [f"--{name}={value}" for name, value in options.items()]
        argv.append(f"--backend-config=python,shm-region-prefix-name={shm_prefix}")
        if self._cache:
            argv += [
                f"--cache-directory={place.caches}",
                f"--cache-config=local,size={self._cache}",
            ]
        if self.control == "poll":
            argv.append(f"--repository-poll-secs={self._poll_seconds}")
        if self.control == "explicit":
            argv += [f"--load-model={name}" for name in self.models]
        for key, value in self._trace.items():
            mode = "triton," if key in _TRACE_FILES else ""
            argv.append(f"--trace-config={mode}{key}={value}")
        if self._rate_limit is not None:
            argv.append("--rate-limit=execution_count")
            argv += [f"--rate-limit-resource={name}:{n}" for name, n in self._rate_limit.items()]
        if self._tls is not None:
            argv += [
                "--grpc-use-ssl=true",
                f"--grpc-server-cert={self._tls['cert']}",
                f"--grpc-server-key={self._tls['key']}",
            ]
            if "root" in self._tls:
                argv += ["--grpc-use-ssl-mutual=true", f"--grpc-root-cert={self._tls['root']}"]
        return argv + self._options

    def _env(self, place: assemble.Installation) -> dict[str, str]:
        env = {**_THRIFTY, **os.environ, **self._environment}
        # The stub finds its packages through the `python3` that is first on PATH.
        env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', os.defpath)}"
        preload = () if place.preload is None else (place.preload,)
        for name, ours in (("LD_LIBRARY_PATH", place.libraries), ("LD_PRELOAD", preload)):
            if ours:  # before those of the environment
                env[name] = os.pathsep.join([*map(str, ours), *filter(None, [env.get(name)])])
        for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "MPLBACKEND"):
            env.pop(name, None)
        return env

    def _wait(self) -> None:
        assert self._guard is not None
        assert self._run is not None
        deadline = time.monotonic() + self._start_timeout
        pidfile = self._run / runs.PIDFILE
        read = 0
        while time.monotonic() < deadline:
            if self._guard.poll() is not None:
                raise self._failure("The server ended before it was ready.")
            with contextlib.suppress(OSError, ValueError):
                self.pid = int(pidfile.read_text())
            if self.pid is not None and self._listens(self.pid) and self.live():
                return
            if (size := self.log_size()) != read:
                read = size
                if (explained := start_error(self.log_text())) is not None:
                    raise explained  # its core has failed, yet the process may live on
            time.sleep(0.02)
        raise self._failure(f"The server did not answer within {self._start_timeout:.0f} s.")

    def _listens(self, pid: int) -> bool:
        """Whether the answer at our port would come from our own server."""
        with contextlib.suppress(psutil.Error):
            ports = {
                c.laddr.port
                for c in psutil.Process(pid).net_connections("tcp")
                if c.status == "LISTEN"
            }
            return set(self._ports.values()) <= ports
        return False

    def _failure(self, what: str) -> ServerError:
        log = self.log_text()
        if (explained := start_error(log)) is not None:
            return explained
        for name, port in self._ports.items():
            if not _is_free(port, self._address):
                return _taken(name, port)
        words = [w for w in log.splitlines() if _COMPLAINT.search(w)]
        said = words[-1] if words else "(nothing that looks like an error)"
        return ServerError(
            what, where=str(_last_log()), todo=f"Mend what the server complained of: {said}"
        )

    def _keep_log(self) -> None:
        if self.log is not None and self.log.is_file():
            with contextlib.suppress(OSError):
                shutil.copyfile(self.log, _last_log())


def _last_log() -> Path:
    return paths.state() / "last-failed-start.log"


def _choose_ports(wanted: Mapping[str, int], address: str) -> dict[str, int]:
    """The ports to use: each wanted one if it is free, a free one for each 0."""
    chosen: dict[str, int] = {}
    with contextlib.ExitStack() as held:
        for name, port in wanted.items():
            if not port:
                probe = held.enter_context(socket.socket(_family(address)))
                probe.bind((address, 0))
                chosen[name] = probe.getsockname()[1]
                continue
            if port in chosen.values():
                raise ServerError(
                    f"Port {port} is asked for twice.",
                    where=name,
                    todo="Give each endpoint its own port.",
                )
            if not _is_free(port, address):
                raise _taken(name, port)
            chosen[name] = port
    return chosen


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _is_free(port: int, address: str) -> bool:
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


def _taken(name: str, port: int) -> ServerError:
    holder = "another program"
    with contextlib.suppress(psutil.Error):
        for c in psutil.net_connections("tcp"):
            if c.status == "LISTEN" and c.laddr.port == port and c.pid:
                holder = f"{psutil.Process(c.pid).name()} (process {c.pid})"
    option = {"HTTP": "--http-port", "gRPC": "--grpc-port", "metrics": "--metrics-port"}[name]
    return ServerError(
        f"Port {port} for {name} is taken by {holder}.",
        where=f"port {port}",
        todo=f"Stop that program (a server of this course: `workbook stop`) or give {option}.",
    )
