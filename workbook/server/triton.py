"""`Triton`: start your own server on this machine, as a context manager or until `stop()`.

    with Triton(repository, control="poll") as server:
        print(server.url, server.ready("square"))

The server runs under a guard (guard.py). When this process ends, for any reason, the
guard ends the server. A detached server runs until it is stopped (run_folders.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psutil

from ..common import paths
from ..common.errors import ServerError
from . import (
    assemble,
    model_folder,
    notebook_warnings,
    ports,
    restart_progress,
    run_folders,
    server_log,
    tritonserver_command,
)
from .connection import Control, Server
from .explain import dangerous_folder, start_error
from .guard import BEGIN, END, PAUSED

# The log's lines that say why the server ends. On a machine without a GPU every start writes
# another line of this form, which is not an error.
_COMPLAINT = re.compile(r"^E\d{4} (?!.*CudaDriverHelper)|^error|: unrecognized option")


class Triton(Server):
    """A tritonserver on this machine, started by `start()` or on entering the context.

        with Triton("model_repository", models=["square"], http=9000) as server:
            print(server.ready("square"))

    It sends requests to its own server only. Before the start, after the end, and if another server
    has taken the ports, every method that needs the server raises a ServerError.

    Args:
        repository: the model repository; by default the shared one. A path with spaces is served
            through a link, since Triton 24.10 cannot start Python models below such a path.
        control: the model control mode. `explicit` loads models on request, `poll` watches the
            repository, `none` loads every model once.
        models: names to load at the start (explicit mode only).
        http, grpc, metrics: ports; 0 takes a free one.
        address: the address to listen on. Whoever reaches these ports can load code into the
            server, so the default is this machine alone.
        cache: bytes of the local response cache; 0 for none.
        poll_seconds: how often poll mode looks at the repository.
        trace: settings for --trace-config, e.g. `{"rate": 1, "level": "TIMESTAMPS"}`, with
            `file` for the trace file, and `log-frequency` for the number of traces per file.
        rate_limit: turn the rate limiter on: resources as `{"name": count}` (may be empty).
        tls: PEM files for gRPC over TLS: `cert` and `key`, and `root` for mutual TLS.
        options: any other tritonserver options, as a list of words.
        environment: variables for the server and its models, added to this process's own.
        strict: refuse answers of Python models that do not fit the config. By default they are
            served, with a warning (`backends/python/answer_checks.py`).
        plain: run the wheel's server without what this course adds: no compiled helpers, no
            variables for speed (both: `native/README.md`), and no checks of the answers of Python
            models (`backends/python/answer_checks.py`).
        jail: a file with a seccomp filter: run the process of each model instance in a sandbox of
            its own with this filter (`native/jail.py`). This is for the grader: it works only if
            the server itself runs in a sandbox, and needs a C compiler. Models then cannot load or
            unload other models.
        start_timeout: seconds to wait for the server to answer.

    Attributes:
        pid: the server's process number while it is known to run; else None.

    Raises:
        ServerError: a port is taken, or the repository is not a folder. From `start`: the server
            could not start; the message has the reason and the log's path.
        LoadError: from `start`: a model's folder would end a server that loads every model.
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
        strict: bool = False,
        plain: bool = False,
        jail: Path | None = None,
        start_timeout: float = 120.0,
    ) -> None:
        chosen = ports.choose({"HTTP": http, "gRPC": grpc, "metrics": metrics}, address)
        host = "localhost" if address in ("0.0.0.0", "127.0.0.1", "::") else address
        super().__init__(
            f"http://{host}:{chosen['HTTP']}",
            grpc=f"{host}:{chosen['gRPC']}",
            metrics=f"http://{host}:{chosen['metrics']}/metrics",
            repository=repository,
            control=control,
        )
        if not self.repository.is_dir():
            raise ServerError(
                "The model repository is not a folder.",
                where=str(self.repository),
                todo="Give --repository a folder that holds one folder per model.",
            )
        self._settings = tritonserver_command.Settings(
            repository=self.repository,
            control=control,
            models=tuple(models),
            ports=chosen,
            address=address,
            cache=cache,
            poll_seconds=poll_seconds,
            trace=dict(trace or {}),
            rate_limit=rate_limit,
            tls=tls,
            options=tuple(options),
            environment={
                **(environment or {}),
                **({tritonserver_command.STRICT_VARIABLE: "1"} if strict else {}),
            },
            plain=plain,
            jail=jail,
        )
        self._start_timeout = start_timeout
        self._guard: subprocess.Popen[bytes] | None = None
        self._owner: int | None = None
        self._run: Path | None = None
        self._lecture: Mapping[str, object] | None = None
        self._cell_runs = False
        self._resuming = threading.RLock()

    def start(
        self,
        *,
        detach: bool = False,
        remember: bool = False,
        lecture: Mapping[str, object] | None = None,
    ) -> Self:
        """Start the server and return when it answers.

        Args:
            detach: let the server run on after this process has ended.
            remember: record it as the checkout's own server, which `workbook status` and
                `workbook stop` use. If a crash ends such a server, its guard starts it again, with
                its models (not with `plain`).
            lecture: the notebook whose server it is: `notebook` (its name), `kernel` and `parent`
                (process ids of its kernel and of the program that started the kernel), and `idle`
                (seconds). The servers of other notebooks of the same parent are paused, and this
                one later, too: see `begin_cell`.
        """
        if self._guard is not None:
            return self
        if self._http.is_closed:  # it was stopped
            self._http = self._http_client()
        place = assemble.find(plain=self._settings.plain)
        self._prepare_repository()
        self._lecture, self._cell_runs = lecture, lecture is not None
        if lecture is not None:
            run_folders.release_others(lecture)
        self._guard = self._start_guard(place, detach, remember and not self._settings.plain)
        try:
            self.pid = self._wait_until_it_answers()
        except BaseException:  # Ctrl-C included: nothing is left behind
            self._keep_log()
            self.stop()
            raise
        if remember:
            self._remember()
        notebook_warnings.watch(self)
        return self

    def stop(self) -> None:
        """Stop the server and everything it started. Stopping twice does no harm."""
        guard, self._guard = self._guard, None
        if guard is not None:
            if self.pid is not None and ports.listens(self.pid, self._settings.ports.values()):
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

    # -- a lecture's server -----------------------------------------------------------------------

    def begin_cell(self) -> None:
        """Tell the guard that a cell of the notebook begins, and start a paused server again.

        The guard pauses a lecture's server while nobody uses it (guard.py): the server ends, and
        its ports are kept. Here it is started again, with the models that were ready.

        Raises:
            ServerError: it could not be started again.
        """
        if self._lecture is not None and self._owner is not None:
            self._cell_runs = True
            run_folders.release_others(self._lecture)
            # The guard may start a paused server, and remove the file PAUSED, at once after BEGIN.
            paused = self._is_paused()
            self._write_to_guard(BEGIN)
            if paused or self._is_paused():
                self._resume()

    def end_cell(self) -> None:
        """Tell the guard that the cell has ended: from now on it may pause the server."""
        self._cell_runs = False
        self._write_to_guard(END)

    def _is_paused(self) -> bool:
        return self._run is not None and (self._run / PAUSED).exists()

    def _resume(self) -> None:
        """Let the guard start the paused server again, say so, and wait for its models."""
        with self._resuming:
            self._write_to_guard(BEGIN)
            try:
                while self._is_paused() and self._guard is not None and self._guard.poll() is None:
                    time.sleep(0.02)
                if self._guard is None or (self.pid is not None and psutil.pid_exists(self.pid)):
                    return  # another thread has done it, or the guard has given up the pause
                # The new server numbers its traces from 1 again, as the old one did.
                if traces := self._settings.trace.get("file"):
                    for file in Path(str(traces)).parent.glob(f"{Path(str(traces)).name}*"):
                        file.unlink(missing_ok=True)
                if (why := server_log.started_again(self.log_text())) is not None:
                    print(
                        f"The server of this lecture had ended ({why}). It is started again with "
                        "its models. Its counts begin at 0.",
                        flush=True,
                    )
                self.pid = self._wait_until_it_answers()
                self._wait_for_models()
            finally:
                if not self._cell_runs:
                    self._write_to_guard(END)

    def _wait_for_models(self) -> None:
        """Wait until a server that was started again has its models as they were."""
        while restart_progress.progress(self) is not None:
            time.sleep(0.05)
        orders = run_folders.orders_of(self.log)
        if orders is None or self.control != "explicit":
            return
        missing = []
        for model in restart_progress.models(orders):
            path = f"/v2/repository/models/{quote(model, safe='')}/load"
            try:  # restart.py has loaded it with the config of its folder
                if parameters := self._parameters.get(model):
                    self.request("POST", path, json={"parameters": parameters}, timeout=300.0)
            except ServerError:
                missing.append(model)
            else:
                missing += [] if self.ready(model) else [model]
        if missing:
            print(f"Not loaded again: {', '.join(missing)}. The server's log: {self.log}")

    def _write_to_guard(self, word: bytes) -> None:
        if self._owner is not None:
            with contextlib.suppress(OSError):  # the guard has ended
                os.write(self._owner, word)

    # -- whether it runs --------------------------------------------------------------------------

    def _check_running(self) -> None:
        if self._is_paused():
            self._resume()
        ended = self.pid is None or not psutil.pid_exists(self.pid)
        if ended and self._run is not None:
            self.pid = self._started_again()
        if self.pid is None and (why := server_log.started_again(self.log_text())) is not None:
            raise ServerError(
                f"The server has ended ({why}) and is being started again.",
                where=self.url,
                todo="Try again in a few seconds.",
            )
        if self.pid is None:
            raise ServerError(
                f"This server is not running. {server_log.how_it_ended(self.log_text())}".rstrip(),
                where=self.url,
                todo="Start it: `with Triton(…) as server:`, or `server = Triton(…).start()`. "
                "If it has ended by itself, its log says why.",
            )

    def _started_again(self) -> int | None:
        """The process id of the server after its guard has started it again; else None."""
        assert self._run is not None
        with contextlib.suppress(OSError, ValueError):  # the server is being started, or has ended
            pid = int((self._run / run_folders.PIDFILE).read_text(encoding="utf-8"))
            return pid if psutil.pid_exists(pid) else None
        return None

    # -- how it is started ----------------------------------------------------------------------

    def _prepare_repository(self) -> None:
        """If the server loads every model at its start, refuse folders that would end it."""
        if self.control == "explicit":
            return
        for folder in sorted(self.repository.iterdir()):
            danger = dangerous_folder(folder.name, folder) if folder.is_dir() else None
            if danger is not None and danger.rule != "no-model-py":  # our stub refuses those
                raise danger
        if self.control == "poll":  # the first poll would take new bytecode for a change
            model_folder.precompile(self.repository)

    def _start_guard(
        self, place: assemble.Installation, detach: bool, restart: bool
    ) -> subprocess.Popen[bytes]:
        """Make the run folder, write the guard's orders, and start the guard."""
        token = secrets.token_hex(4)
        prefix = f"workbook-{os.getuid()}-{token}-"
        self._run, lock = run_folders.new(token)
        self.log = self._run / run_folders.LOG
        cwd = self._run / "cwd"  # an empty folder: Python models have '' first on sys.path
        cwd.mkdir()
        read, write = os.pipe()  # the guard reads it, to see this process end
        variables = tritonserver_command.environment(self._settings, place)
        loaded = str(self._run / run_folders.LOADED) if restart or self._lecture else None
        if restart and loaded is not None:
            variables["WORKBOOK_LOADED"] = loaded
        orders = {
            "argv": tritonserver_command.arguments(self._settings, place, prefix),
            "cwd": str(cwd),
            "env": variables,
            "loaded": loaded,
            "kept": str(run_folders.last_log()) if restart else None,
            "loading": str(self._run / run_folders.LOADING),
            "repository": str(self.repository),
            "url": self.url,
            "address": self._settings.address,
            "ports": dict(self._settings.ports),
            "lecture": self._lecture,
            "log": str(self.log),
            "pidfile": str(self._run / run_folders.PIDFILE),
            "shm_prefix": prefix,
            "owner_fd": None if detach else read,
        }
        file = self._run / run_folders.ORDERS
        file.touch(mode=0o600)
        file.write_text(json.dumps(orders), encoding="utf-8")
        program = Path(__file__).with_name("guard.py")
        try:
            with self.log.open("ab") as log:
                guard = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(program), str(file)],
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
        return guard

    def _wait_until_it_answers(self) -> int:
        """Wait until our own server answers at our ports; returns its process number."""
        assert self._guard is not None
        assert self._run is not None
        deadline = time.monotonic() + self._start_timeout
        pidfile = self._run / run_folders.PIDFILE
        pid, read = None, 0
        while time.monotonic() < deadline:
            if self._guard.poll() is not None:
                raise self._failure("The server ended before it was ready.")
            with contextlib.suppress(OSError, ValueError):
                pid = int(pidfile.read_text())
            # Another server may answer: it took the ports after they had been chosen. The ports'
            # owner is looked up last, since that is slow with thousands of connections.
            if pid is not None:
                self.pid = pid
                if self.live() and ports.listens(pid, self._settings.ports.values()):
                    return pid
            if (size := self.log_size()) != read:
                read = size
                if (explained := start_error(self.log_text())) is not None:
                    raise explained  # its core has failed, but the process may still run
            time.sleep(0.02)
        raise self._failure(f"The server did not answer within {self._start_timeout:.0f} s.")

    def _remember(self) -> None:
        """Make this server the checkout's own."""
        assert self._guard is not None
        assert self.pid is not None
        run_folders.Record(
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

    def _failure(self, what: str) -> ServerError:
        """The error of a failed start: the log's reason, else a taken port, else a log line."""
        log = self.log_text()
        if (explained := start_error(log)) is not None:
            return explained
        for endpoint, port in self._settings.ports.items():
            if not ports.is_free(port, self._settings.address):
                return ports.taken_error(endpoint, port)
        lines = [line for line in log.splitlines() if _COMPLAINT.search(line)]
        complaint = lines[-1] if lines else "(no line that looks like an error)"
        return ServerError(
            what, where=str(_last_log()), todo=f"Correct what the server complained of: {complaint}"
        )

    def _keep_log(self) -> None:
        """Keep the log of a start that failed; the run's folder is removed."""
        if self.log is not None and self.log.is_file():
            with contextlib.suppress(OSError):
                shutil.copyfile(self.log, _last_log())


def _last_log() -> Path:
    return paths.state() / "last-failed-start.log"
