"""`Server`: sends requests to a running Triton and manages its models.

It does not matter who started the server. The same functions work with the laptop server, with
NVIDIA's container and with a server on another machine. They use Triton's HTTP endpoints only
(KServe v2 and its extensions, as described in the protocol documents of
triton-inference-server/server).
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, cast
from urllib.parse import quote, urlsplit

import httpx

from ..common import paths
from ..common.errors import ServerError, StillLoading, WorkbookError
from .explain import dangerous_folder, load_error
from .model_folder import check_name
from .restart_progress import progress_after_failure

Control = Literal["explicit", "poll", "none"]
DEFAULT_HTTP, DEFAULT_GRPC, DEFAULT_METRICS = 8000, 8001, 8002
PATIENCE = 3.0  # seconds without progress after which a wait is explained

# The metrics that change when one of a model's requests ends.
_REQUEST_COUNTS = re.compile(
    r"^nv_inference_(request_success|request_failure|count|pending_request_count)"
    r"\{(?P<labels>.*)\} (?P<value>\S+)$",
    re.MULTILINE,
)


class Server:
    """A running Triton, reached by its addresses.

        server = Server("http://localhost:8000")
        server.load("square")
        print(server.ready("square"), server.config("square")["max_batch_size"])

    Args:
        url: the HTTP endpoint, e.g. `http://gpu-machine:8000`; by default Triton's usual port on
            this machine, `http://localhost:8000`.
        grpc: host and port of the gRPC endpoint, e.g. `localhost:8001`; by default the HTTP port
            plus 1.
        metrics: the metrics endpoint, e.g. `http://localhost:8002/metrics`; by default the HTTP
            port plus 2.
        repository: the model repository that the server reads, as a path on this machine; by
            default the shared one. Whether the server really reads it is not checked here;
            `which_repository.check` does that.
        control: its model control mode, if it is known.
        log: its log file, if that is on this machine.
        pid: its process id, if this object has started it.
    """

    pid: int | None = None

    def __init__(
        self,
        url: str | None = None,
        *,
        grpc: str | None = None,
        metrics: str | None = None,
        repository: Path | str | None = None,
        control: Control | None = None,
        log: Path | None = None,
    ) -> None:
        url = f"localhost:{DEFAULT_HTTP}" if url is None else url
        url = url if "://" in url else f"http://{url}"
        parts = urlsplit(url)
        try:
            host, port = parts.hostname, parts.port or DEFAULT_HTTP
        except ValueError:
            host, port = None, 0
        if not host or any(c.isspace() for c in url) or parts.scheme not in ("http", "https"):
            raise ServerError(
                f"{url!r} is not the address of a Triton server.",
                where="TRITON_URL" if os.environ.get("TRITON_URL") else "",
                todo="Write it as http://HOST:PORT, e.g. http://localhost:8000.",
            )
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{parts.scheme}://{shown}:{port}"
        self.grpc_url = grpc or f"{shown}:{port + 1}"
        self.metrics_url = metrics or f"http://{shown}:{port + 2}/metrics"
        self.repository = Path(repository).resolve() if repository else paths.repository()
        self.control = control
        self.log = log
        self._http = self._http_client()
        #: The parameters of each model's last load with this object: its config and files.
        self._parameters: dict[str, dict[str, Any]] = {}

    def _http_client(self) -> httpx.Client:
        # Triton waits for idle connections before it exits, so none is kept.
        limits = httpx.Limits(max_keepalive_connections=0)
        return httpx.Client(
            base_url=self.url,
            timeout=30.0,
            trust_env=False,
            limits=limits,
            verify=self.url.startswith("https:"),  # reading all certificates takes 50 ms
        )

    # -- asking ---------------------------------------------------------------------------------

    def live(self) -> bool:
        """Whether the server answers at all."""
        return self._says_yes("/v2/health/live")

    def ready(self, model: str | None = None, version: str | int | None = None) -> bool:
        """Whether the server, or one model (of one version), is ready to answer."""
        if model is None:
            return self._says_yes("/v2/health/ready")
        return self._says_yes(f"{_model_path(model, version)}/ready")

    def metadata(
        self, model: str | None = None, version: str | int | None = None
    ) -> dict[str, Any]:
        """The server's or a model's metadata, as the KServe endpoint gives it."""
        path = "/v2" if model is None else _model_path(model, version)
        return cast(dict[str, Any], self.request("GET", path))

    def config(self, model: str, version: str | int | None = None) -> dict[str, Any]:
        """A loaded model's configuration as the server parsed and completed it."""
        return cast(dict[str, Any], self.request("GET", f"{_model_path(model, version)}/config"))

    def statistics(self, model: str | None = None) -> list[dict[str, Any]]:
        """The statistics extension's records: one per model and version, times in nanoseconds."""
        path = "/v2/models/stats" if model is None else f"{_model_path(model, None)}/stats"
        return cast(list[dict[str, Any]], self.request("GET", path)["model_stats"])

    def index(self, *, ready_only: bool = False) -> list[dict[str, Any]]:
        """The repository index: name, version, state and reason of every model."""
        body = {"ready": True} if ready_only else {}
        return cast(list[dict[str, Any]], self.request("POST", "/v2/repository/index", json=body))

    def metrics(self) -> str:
        """The Prometheus metrics as text."""
        self._check_running()
        try:
            return self._http.get(self.metrics_url).raise_for_status().text
        except httpx.HTTPError as error:
            raise ServerError(
                f"No metrics at {self.metrics_url}: {error}",
                todo="Is the metrics port another one? Set TRITON_METRICS_URL, or --metrics-port.",
            ) from None

    # -- changing -------------------------------------------------------------------------------

    def load(
        self,
        model: str,
        *,
        config: dict[str, Any] | None = None,
        files: dict[str, bytes] | None = None,
        timeout: float = 300.0,
        folder: Path | None = None,
    ) -> None:
        """Load a model, or load it again after a change, and return when it is ready.

        Args:
            config: a configuration (ModelConfig as JSON) to use in place of the repository's.
            files: override files, e.g. `{"file:1/model.onnx": content}`; the repository's own
                are then ignored, and `config` must be given.
            timeout: seconds until giving up on the server's answer.
            folder: the folder that an error names; by default the model's folder in the repository.

        Raises:
            RepositoryError: no model can have this name.
            LoadError: the server refused the model. The error has the server's message, the place
                of the mistake, and what to do.
            StillLoading: (a ServerError) it is not ready after `timeout` seconds.
            ServerError: the server does not answer.
        """
        check_name(model)
        folder = folder or self.repository / model
        if config is None and folder.is_dir() and (danger := dangerous_folder(model, folder)):
            raise danger
        log_start = self.log_size()
        parameters: dict[str, Any] = {}
        if config is not None:
            parameters["config"] = json.dumps(config)
        for path, content in (files or {}).items():
            parameters[path] = base64.b64encode(content).decode()
        try:
            response = self._send(
                "POST",
                f"/v2/repository/models/{quote(model, safe='')}/load",
                json={"parameters": parameters} if parameters else {},
                timeout=timeout,
            )
        except _NoAnswerInTime:
            raise StillLoading(
                f"{model} is still loading after {timeout:.0f} s.",
                where=self.url,
                todo="The server goes on loading it. `workbook status` shows when it is READY.",
            ) from None
        if response.status_code != 200:
            raise load_error(model, _message(response), folder, self.log_text(log_start))
        self._parameters[model] = parameters

    def unload(
        self,
        model: str,
        *,
        timeout: float = 60.0,
        report: Callable[[str], None] = print,
    ) -> None:
        """Unload a model and return when the server no longer offers it.

        Args:
            timeout: seconds until giving up. The server itself goes on waiting for requests.
            report: called with an explanation if requests that do not end delay the unload.

        Raises:
            ServerError: the server does not answer, or requests are still under way.
        """
        self.begin_unload(model)
        self.wait_unloaded(model, timeout, report=report)

    def begin_unload(self, model: str) -> None:
        """Ask the server to unload a model. `wait_unloaded` waits until that is done."""
        self.request("POST", f"/v2/repository/models/{quote(model, safe='')}/unload", json={})

    def wait_unloaded(
        self, model: str, timeout: float = 60.0, *, report: Callable[[str], None] = print
    ) -> None:
        """Return when the server no longer offers a model, in any version.

        Args:
            timeout: seconds until giving up.
            report: called once, with an explanation, when no request of the model has ended for
                PATIENCE seconds.

        Raises:
            ServerError: it is still there after `timeout` seconds.
        """
        now = changed = began = time.monotonic()
        deadline = now + timeout
        counts, is_explained = self._request_counts(model), False
        while now < deadline:
            states = {m.get("state") for m in self.index() if m["name"] == model}
            if states <= {None, "UNAVAILABLE"} and not self.ready(model):
                return
            if "UNLOADING" not in states:
                changed = now
            elif not is_explained and now - changed > PATIENCE:
                if (newer := self._request_counts(model)) != counts:
                    counts, changed = newer, now
                else:
                    report(self._why_unloading(model))
                    is_explained = True
            # Triton 24.10 takes 1.2 s to unload a Python model: longer pauses save fifty requests.
            time.sleep(min(0.1, 0.02 + (now - began) / 10))
            now = time.monotonic()
        if "UNLOADING" in states:
            raise ServerError(
                f"{model} did not unload within {timeout:.0f} s. {self._why_unloading(model)}",
                where=self.url,
                todo="When the requests have ended, unload it again. If they never end (a loop in "
                f"execute), end its processes: `workbook undeploy {model} --now`. For a model that "
                "has no process of its own: `workbook stop`, then `workbook serve --detach`.",
            )
        raise ServerError(
            f"{model} did not unload within {timeout:.0f} s.",
            where=self.url,
            todo="The server still offers it: look at the server's log.",
        )

    def unload_all(self) -> None:
        """Unload every model, so that each runs its `finalize`. Errors are ignored."""
        with contextlib.suppress(WorkbookError):
            names = {m["name"] for m in self.index() if m.get("state") == "READY"}
            with ThreadPoolExecutor(8) as pool:
                for name in names:
                    pool.submit(self.unload, name, timeout=5.0, report=lambda text: None)

    def log_text(self, start: int = 0) -> str:
        """The server's log, with the output of its models; empty if it cannot be read.

        Args:
            start: bytes to skip, as `log_size` gave them earlier.
        """
        if self.log is None or not self.log.is_file():
            return ""
        with self.log.open("rb") as file:
            file.seek(start)
            return file.read().decode("utf-8", errors="replace")

    def log_size(self) -> int:
        """How many bytes the log has; 0 if it cannot be read."""
        return self.log.stat().st_size if self.log is not None and self.log.is_file() else 0

    # -- clients --------------------------------------------------------------------------------

    def http_client(self, **options: Any) -> Any:
        """A `tritonclient.http.InferenceServerClient` on this server."""
        import tritonclient.http as client

        self._check_running()
        parts = urlsplit(self.url)
        return client.InferenceServerClient(parts.netloc, ssl=parts.scheme == "https", **options)

    def grpc_client(self, **options: Any) -> Any:
        """A `tritonclient.grpc.InferenceServerClient` on this server."""
        import tritonclient.grpc as client

        self._check_running()
        return client.InferenceServerClient(self.grpc_url, **options)

    # -- plumbing -------------------------------------------------------------------------------

    def request(self, method: str, path: str, **options: Any) -> Any:
        """Call an endpoint and return its JSON (None for an empty body).

        Raises:
            ServerError: no answer, or an answer that reports an error.
        """
        response = self._send(method, path, **options)
        if response.status_code != 200:
            raise ServerError(_message(response), where=f"{method} {self.url}{path}")
        return response.json() if response.content else None

    def close(self) -> None:
        """Close the connections. The server itself keeps running."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _check_running(self) -> None:
        """Called before each request; `Triton` raises an error when its server does not run."""

    def _says_yes(self, path: str) -> bool:
        try:
            self._check_running()
            return self._http.get(path, timeout=5.0).status_code == 200
        except (httpx.HTTPError, ServerError):
            return False

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        self._check_running()
        try:
            return self._http.request(method, path, **options)
        except httpx.TimeoutException:
            raise _NoAnswerInTime(
                f"The server at {self.url} did not answer in time.",
                where=f"{method} {path}",
                todo="Look at its log (`workbook status` names the file).",
            ) from None
        except httpx.HTTPError as error:
            raise self._no_answer(error, f"{method} {path}") from None

    def _no_answer(self, error: httpx.HTTPError, request: str) -> ServerError:
        """The error of a request without an answer; it says if the guard restarts the server."""
        progress = progress_after_failure(self)
        if progress is not None:
            return ServerError(
                str(progress),
                where=f"{request}, {self.url}",
                todo="Try again when it answers. `workbook status` shows how far it is.",
            )
        return ServerError(
            f"No server answers at {self.url}: {error}",
            where=request,
            todo="Start one with `workbook serve --detach` (or `make lab`), or set TRITON_URL.",
        )

    def _request_counts(self, model: str) -> dict[str, float]:
        """How many of a model's requests have ended and how many wait; empty without metrics.

        The metrics still count the requests of a model that is unloading. The statistics extension
        does not.
        """
        try:
            lines = list(_REQUEST_COUNTS.finditer(self.metrics()))
        except ServerError:
            return {}
        counts: dict[str, float] = {}
        for line in lines:
            if f'model="{model}"' in line["labels"]:
                counts[line[1]] = counts.get(line[1], 0.0) + float(line["value"])
        return counts

    def _why_unloading(self, model: str) -> str:
        """The explanation what an unloading model waits for."""
        counts = self._request_counts(model)
        waiting = int(counts.get("pending_request_count", 0))
        ended = int(counts.get("request_success", 0) + counts.get("request_failure", 0))
        queue = f" Of these {ended} have ended, {waiting} wait in its queue." if waiting else ""
        return (
            f"{model} takes no new requests. It is unloaded when those that it has accepted, if "
            f"any, are answered, and its finalize has returned.{queue}"
        )


class _NoAnswerInTime(ServerError):
    """The server has not answered a request in time."""


def _model_path(model: str, version: str | int | None) -> str:
    path = f"/v2/models/{quote(model, safe='')}"
    return path if version is None else f"{path}/versions/{version}"


def _message(response: httpx.Response) -> str:
    """The server's message: the JSON body's `error`, else the body, else the status."""
    try:
        return str(response.json()["error"])
    except (ValueError, KeyError, TypeError):
        return response.text.strip() or f"HTTP {response.status_code}"
