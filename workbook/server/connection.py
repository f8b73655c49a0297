"""`Server`: a handle on a running Triton, whoever started it.

The same functions drive the laptop server, a server of NVIDIA's container, and one on another
machine: they use Triton's HTTP endpoints only (KServe v2 and its extensions, as described in the
protocol documents of triton-inference-server/server).
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, cast
from urllib.parse import quote, urlsplit

import httpx

from ..common import paths
from ..common.errors import ServerError, WorkbookError
from .explain import hazard, load_error
from .repository import check_name

Control = Literal["explicit", "poll", "none"]
DEFAULT_HTTP, DEFAULT_GRPC, DEFAULT_METRICS = 8000, 8001, 8002


class Server:
    """A running Triton, reached by its addresses.

    Args:
        url: the HTTP endpoint, e.g. `http://localhost:8000`.
        grpc: host and port of the gRPC endpoint, e.g. `localhost:8001`; by default one port on.
        metrics: the metrics endpoint, e.g. `http://localhost:8002/metrics`; by default two ports
            on.
        repository: the model repository that the server reads, as a path on this machine.
        control: its model control mode, where it is known.
        log: its log, where it lies on this machine.
    """

    def __init__(
        self,
        url: str = "http://localhost:8000",
        *,
        grpc: str | None = None,
        metrics: str | None = None,
        repository: Path | str | None = None,
        control: Control | None = None,
        log: Path | None = None,
    ) -> None:
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
        # Triton waits for idle connections before it exits, so none is kept.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._http = httpx.Client(base_url=self.url, timeout=30.0, trust_env=False, limits=limits)

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
        """The statistics extension's records: one a model and version, times in nanoseconds."""
        path = "/v2/models/stats" if model is None else f"{_model_path(model, None)}/stats"
        return cast(list[dict[str, Any]], self.request("GET", path)["model_stats"])

    def index(self, *, ready_only: bool = False) -> list[dict[str, Any]]:
        """The repository index: name, version, state and reason of every model it holds."""
        body = {"ready": True} if ready_only else {}
        return cast(list[dict[str, Any]], self.request("POST", "/v2/repository/index", json=body))

    def metrics(self) -> str:
        """The Prometheus metrics as text."""
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
            folder: the folder to point at when it fails, where that is not the repository's own.

        Raises:
            RepositoryError: no model can have this name.
            LoadError: the server refused; its words, and where and what to mend, are in the error.
            ServerError: the server does not answer.
        """
        check_name(model)
        folder = folder or self.repository / model
        if config is None and folder.is_dir() and (danger := hazard(model, folder)):
            raise danger
        log_start = self.log_size()
        parameters: dict[str, Any] = {}
        if config is not None:
            parameters["config"] = json.dumps(config)
        for path, content in (files or {}).items():
            parameters[path] = base64.b64encode(content).decode()
        response = self._send(
            "POST",
            f"/v2/repository/models/{quote(model, safe='')}/load",
            json={"parameters": parameters} if parameters else {},
            timeout=timeout,
        )
        if response.status_code != 200:
            raise load_error(model, _message(response), folder, self.log_text(log_start))

    def unload(self, model: str, *, dependents: bool = False, timeout: float = 60.0) -> None:
        """Unload a model and return when the server no longer offers it.

        Args:
            dependents: unload an ensemble's own models with it.
        """
        self.request(
            "POST",
            f"/v2/repository/models/{quote(model, safe='')}/unload",
            json={"parameters": {"unload_dependents": dependents}},
        )
        self.wait_unloaded(model, timeout)

    def wait_unloaded(self, model: str, timeout: float = 60.0) -> None:
        """Return when the server no longer offers a model, in any version."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.ready(model):
                time.sleep(0.02)
                continue
            if all(
                m.get("state") in (None, "UNAVAILABLE") for m in self.index() if m["name"] == model
            ):
                return
            time.sleep(0.02)
        raise ServerError(
            f"{model} did not unload within {timeout:.0f} s.",
            todo="A request may still run in it: end the client, or look at the server's log.",
        )

    def unload_all(self) -> None:
        """Unload every model, so that each runs its `finalize`; errors do not matter here."""
        with contextlib.suppress(WorkbookError):
            names = {m["name"] for m in self.index() if m.get("state") == "READY"}
            with ThreadPoolExecutor(8) as pool:
                for name in names:
                    pool.submit(self.unload, name, timeout=5.0)

    def log_text(self, start: int = 0) -> str:
        """What the server and its models have printed; empty where the log is elsewhere.

        Args:
            start: bytes to pass over, as `log_size` gave them earlier.
        """
        if self.log is None or not self.log.is_file():
            return ""
        with self.log.open("rb") as file:
            file.seek(start)
            return file.read().decode("utf-8", errors="replace")

    def log_size(self) -> int:
        """How many bytes the log has; 0 where it is elsewhere."""
        return self.log.stat().st_size if self.log is not None and self.log.is_file() else 0

    # -- clients --------------------------------------------------------------------------------

    def http_client(self, **options: Any) -> Any:
        """A `tritonclient.http.InferenceServerClient` on this server."""
        import tritonclient.http as client

        parts = urlsplit(self.url)
        return client.InferenceServerClient(parts.netloc, ssl=parts.scheme == "https", **options)

    def grpc_client(self, **options: Any) -> Any:
        """A `tritonclient.grpc.InferenceServerClient` on this server."""
        import tritonclient.grpc as client

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
        """Give the connections back; the server itself goes on."""
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

    def _says_yes(self, path: str) -> bool:
        try:
            return self._http.get(path, timeout=5.0).status_code == 200
        except httpx.HTTPError:
            return False

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            return self._http.request(method, path, **options)
        except httpx.TimeoutException:
            raise ServerError(
                f"The server at {self.url} did not answer in time.",
                where=f"{method} {path}",
                todo="Look at its log (`workbook status` names the file).",
            ) from None
        except httpx.HTTPError as error:
            raise ServerError(
                f"No server answers at {self.url}: {error}",
                where=f"{method} {path}",
                todo="Start one with `workbook serve --detach` (or `make lab`), or set TRITON_URL.",
            ) from None


def _model_path(model: str, version: str | int | None) -> str:
    path = f"/v2/models/{quote(model, safe='')}"
    return path if version is None else f"{path}/versions/{version}"


def _message(response: httpx.Response) -> str:
    """The server's own words: the JSON body's `error`, else the body, else the status."""
    try:
        return str(response.json()["error"])
    except (ValueError, KeyError, TypeError):
        return response.text.strip() or f"HTTP {response.status_code}"
