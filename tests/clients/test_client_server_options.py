"""Clients on servers with options: TLS, rate limiter, poll, none, restricted endpoints."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.grpc.aio as grpcaio
import tritonclient.http as httpclient
from client_waits import wait_until
from tritonclient.utils import InferenceServerException

from workbook.common.errors import ServerError
from workbook.server import Triton

pytestmark = [pytest.mark.server, pytest.mark.quick]

X = np.array([[1, 2, 3, 4]], np.int32)
TOOL = 'rate_limiter { resources [ { name: "tool" count: 1 } ] }'


def square(client: Any) -> Any:
    api = httpclient if isinstance(client, httpclient.InferenceServerClient) else grpcclient
    tensor = api.InferInput("x", [1, 4], "INT32").set_data_from_numpy(X)
    return client.infer("square", [tensor]).as_numpy("y")


def http_client(server: Triton) -> httpclient.InferenceServerClient:
    return httpclient.InferenceServerClient(server.url.removeprefix("http://"))


@pytest.fixture
def models(tmp_path: Path, copy: Any) -> Path:
    """A repository with the model `square`."""
    copy(tmp_path / "models", "square")
    return tmp_path / "models"


# -- TLS -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority's certificate, and one each for a server and a client."""
    folder = tmp_path_factory.mktemp("papers")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl(
        *("req", "-x509", *key, "-keyout", "root.key", "-out", "root.pem", "-days", "2"),
        *("-subj", "/CN=a test's own authority"),
    )
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    for who in ("server", "client"):
        openssl("req", *key, "-keyout", f"{who}.key", "-out", f"{who}.csr", "-subj", f"/CN={who}")
        openssl(
            *("x509", "-req", "-in", f"{who}.csr", "-CA", "root.pem", "-CAkey", "root.key"),
            *("-CAcreateserial", "-out", f"{who}.pem", "-days", "2", "-extfile", "names"),
        )
    return folder


def tls_client(server: Triton, papers: Path, *, show: bool) -> grpcclient.InferenceServerClient:
    """A client that trusts the authority, and shows its own certificate or not."""
    own = {
        "private_key": str(papers / "client.key"),
        "certificate_chain": str(papers / "client.pem"),
    }
    return grpcclient.InferenceServerClient(
        server.grpc_url,
        ssl=True,
        root_certificates=str(papers / "root.pem"),
        **(own if show else {}),
    )


@pytest.fixture(scope="module", params=["tls", "mutual"])
def secured(
    request: pytest.FixtureRequest,
    papers: Path,
    tmp_path_factory: pytest.TempPathFactory,
    copy: Any,
) -> Iterator[tuple[Triton, bool]]:
    """A server with TLS, and whether it wants to see the client's certificate."""
    mutual = request.param == "mutual"
    tls = {"cert": papers / "server.pem", "key": papers / "server.key"}
    if mutual:
        tls["root"] = papers / "root.pem"
    models = tmp_path_factory.mktemp("models")
    copy(models, "square")
    with Triton(models, models=["square"], tls=tls) as server:
        yield server, mutual


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cert": "missing.pem"}, "No such file"),
        ({"key": "root.pem"}, "cert and key must belong together"),
        ({"cert": None}, 'Give tls["cert"]'),
        ({"root": "server.key"}, "Give PEM files"),
    ],
)
def test_tls_files_that_cannot_be_used(
    papers: Path, tmp_path: Path, change: dict[str, str | None], message: str
) -> None:
    names = {"cert": "server.pem", "key": "server.key", "root": "root.pem", **change}
    tls = {file: papers / name for file, name in names.items() if name}
    with pytest.raises(ServerError, match=re.escape(message)):
        Triton(tmp_path, tls=tls).start()


def test_grpc_over_tls(secured: tuple[Triton, bool], papers: Path) -> None:
    server, mutual = secured
    with tls_client(server, papers, show=mutual) as client:
        np.testing.assert_array_equal(square(client), X**2)
        answers: list[Any] = []
        done = threading.Event()
        client.start_stream(lambda *answer, **more: (answers.append((answer, more)), done.set()))
        tensor = grpcclient.InferInput("x", [1, 4], "INT32").set_data_from_numpy(X)
        client.async_stream_infer("square", [tensor])
        assert done.wait(30)
        client.stop_stream()


def test_a_client_without_tls_is_turned_away(secured: tuple[Triton, bool]) -> None:
    server, _ = secured
    with (
        grpcclient.InferenceServerClient(server.grpc_url) as client,
        pytest.raises(InferenceServerException) as caught,
    ):
        client.get_server_metadata(client_timeout=5)
    assert caught.value.status() == "StatusCode.UNAVAILABLE"


def test_a_client_that_does_not_know_the_authority(secured: tuple[Triton, bool]) -> None:
    server, _ = secured
    with (
        grpcclient.InferenceServerClient(server.grpc_url, ssl=True) as client,
        pytest.raises(InferenceServerException) as caught,
    ):
        client.get_server_metadata(client_timeout=5)
    assert caught.value.status() in ("StatusCode.UNAVAILABLE", "StatusCode.DEADLINE_EXCEEDED")


def test_mutual_tls_wants_the_clients_certificate(
    secured: tuple[Triton, bool], papers: Path
) -> None:
    server, mutual = secured
    with tls_client(server, papers, show=False) as client:
        if mutual:
            with pytest.raises(InferenceServerException):
                client.get_server_metadata(client_timeout=5)
        else:
            assert client.is_server_live(client_timeout=5)


def test_asyncio_over_tls(secured: tuple[Triton, bool], papers: Path) -> None:
    server, mutual = secured
    options: dict[str, Any] = {"root_certificates": str(papers / "root.pem")}
    if mutual:
        options |= {
            "private_key": str(papers / "client.key"),
            "certificate_chain": str(papers / "client.pem"),
        }

    async def main() -> Any:
        async with grpcaio.InferenceServerClient(server.grpc_url, ssl=True, **options) as client:
            tensor = grpcaio.InferInput("x", [1, 4], "INT32").set_data_from_numpy(X)
            return (await client.infer("square", [tensor])).as_numpy("y")

    np.testing.assert_array_equal(asyncio.run(main()), X**2)


# -- scheduling ----------------------------------------------------------------------------------


def overlaps(server: Triton, *models: str) -> int:
    """How many executions of two models overlap, if each gets four requests at once."""

    def work(number: int) -> Any:
        with grpcclient.InferenceServerClient(server.grpc_url) as client:
            tensor = grpcclient.InferInput("seconds", [1, 1], "FP32")
            tensor.set_data_from_numpy(np.full((1, 1), 0.05, np.float32))
            result = client.infer(models[number % 2], [tensor], client_timeout=60)
            return result.as_numpy("began_ended")[0]

    with ThreadPoolExecutor(8) as pool:
        times = sorted(tuple(t) for t in pool.map(work, range(8)))
    return sum(later[0] < earlier[1] for earlier, later in pairwise(times))


def test_the_rate_limiter_keeps_two_models_from_running_at_once(tmp_path: Path, copy: Any) -> None:
    """Two models need the only `tool`; two others need none."""
    limited, free = ["worker", "worker_too"], ["free", "free_too"]
    copy(tmp_path, "worker")
    for name in ("worker_too", *free):
        shutil.copytree(tmp_path / "worker", tmp_path / name)
    for name in free:
        config = tmp_path / name / "config.pbtxt"
        text = config.read_text()
        assert text.count(TOOL) == 1
        config.write_text(text.replace(TOOL, ""))
    with Triton(tmp_path, models=[*limited, *free], rate_limit={"tool": 1}) as server:
        assert overlaps(server, *limited) == 0
        assert overlaps(server, *free) > 0


# -- model control modes -------------------------------------------------------------------------


def test_poll_brings_version_2_under_load_without_one_failed_request(
    models: Path, tmp_path: Path
) -> None:
    new = tmp_path / "2"
    shutil.copytree(models / "square" / "1", new)
    source = (new / "model.py").read_text()
    assert source.count("x**2") == 1
    (new / "model.py").write_text(source.replace("x**2", "x**2 + 1000"))

    stop = threading.Event()
    answers: dict[str, list[int]] = {"http": [], "grpc": []}
    failures: list[Exception] = []

    def load(protocol: str) -> None:
        client = (
            http_client(server)
            if protocol == "http"
            else grpcclient.InferenceServerClient(server.grpc_url)
        )
        with client:
            while not stop.is_set():
                try:
                    answers[protocol].append(int(square(client)[0, 0]))
                except Exception as error:
                    failures.append(error)

    with Triton(models, control="poll") as server:
        wait_until(lambda: server.ready("square"))
        with ThreadPoolExecutor(4) as pool:
            for protocol in ("http", "grpc") * 2:
                pool.submit(load, protocol)
            time.sleep(0.5)
            new.rename(models / "square" / "2")
            try:
                wait_until(lambda: all(got[-1:] == [1001] for got in answers.values()))
                wait_until(lambda: not server.ready("square", 1))
                time.sleep(0.3)
            finally:
                stop.set()
        assert failures == []
        assert server.ready("square", 2)
        refuses_to_load(server)
    for got in answers.values():
        assert set(got) == {1, 1001}


def refuses_to_load(server: Triton) -> None:
    """Clients get answers, but load and unload nothing."""
    for client in (http_client(server), grpcclient.InferenceServerClient(server.grpc_url)):
        with client:
            for change in (client.load_model, client.unload_model):
                with pytest.raises(InferenceServerException) as caught:
                    change("square")
                assert caught.value.message() == (
                    "explicit model load / unload is not allowed if polling is enabled"
                )
            assert client.is_model_ready("square")


def test_control_none_loads_everything_once(models: Path, copy: Any) -> None:
    with Triton(models, control="none") as server:
        for client in (http_client(server), grpcclient.InferenceServerClient(server.grpc_url)):
            with client:
                np.testing.assert_array_equal(square(client), X**2)
        refuses_to_load(server)
        copy(models, "echo")
        assert not server.ready("echo")


# -- several, and restricted ---------------------------------------------------------------------


def test_one_client_program_with_several_servers(server: Triton, serve: Any, models: Path) -> None:
    serve("square")
    file = models / "square" / "1" / "model.py"
    file.write_text(file.read_text().replace("x**2", "-x"))
    with (
        Triton(models, models=["square"]) as other,
        http_client(server) as first,
        grpcclient.InferenceServerClient(other.grpc_url) as second,
    ):
        for _ in range(5):
            np.testing.assert_array_equal(square(first), X**2)
            np.testing.assert_array_equal(square(second), -X)


class Key(grpcclient.InferenceServerClientPlugin):
    """Adds the header that the restricted endpoints require."""

    def __call__(self, request: Any) -> None:
        request.headers["triton-grpc-protocol-admin-key"] = "open-sesame"


def test_restricted_endpoints_want_a_header(models: Path) -> None:
    options = [
        "--http-restricted-api=model-repository,statistics:admin-key=open-sesame",
        "--grpc-restricted-protocol=model-repository,statistics:admin-key=open-sesame",
    ]
    with Triton(models, models=["square"], options=options) as server:
        with http_client(server) as client:
            np.testing.assert_array_equal(square(client), X**2)
            key = {"admin-key": "open-sesame"}
            with pytest.raises(InferenceServerException) as caught:
                client.unload_model("square")
            assert caught.value.message() == (
                "This API is restricted, expecting header 'admin-key'"
            )
            assert caught.value.status() == "403"
            with pytest.raises(InferenceServerException, match="restricted"):
                client.get_inference_statistics("square", headers={"admin-key": "guess"})
            assert client.get_inference_statistics("square", headers=key)["model_stats"]
            assert client.get_model_repository_index(headers=key)[0]["name"] == "square"
        with grpcclient.InferenceServerClient(server.grpc_url) as client:
            np.testing.assert_array_equal(square(client), X**2)
            with pytest.raises(InferenceServerException) as caught:
                client.unload_model("square")
            assert "This protocol is restricted, expecting header" in caught.value.message()
            assert caught.value.status() == "StatusCode.UNAVAILABLE"
            grpc_key = {"triton-grpc-protocol-admin-key": "open-sesame"}
            assert client.get_model_repository_index(headers=grpc_key).models[0].name == "square"
            client.register_plugin(Key())
            assert client.get_inference_statistics("square").model_stats[0].name == "square"
        assert httpx.get(f"{server.url}/v2/health/ready").status_code == 200
