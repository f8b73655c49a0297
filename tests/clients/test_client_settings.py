"""Trace and log settings: read, changed for the server and for one model, and the trace file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from client_waits import wait_until
from tritonclient.utils import InferenceServerException

from workbook.measure import traces
from workbook.server import Triton

pytestmark = [pytest.mark.server, pytest.mark.quick]

X = np.ones((1, 4), np.int32)


class Traced(NamedTuple):
    server: Triton
    file: Path


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory, copy: Any) -> Iterator[Traced]:
    """A server that may trace, with tracing off to begin with."""
    models, file = tmp_path_factory.mktemp("models"), tmp_path_factory.mktemp("t") / "trace.json"
    names = ["square", "add_sub", "pipeline"]
    copy(models, *names)
    with Triton(models, models=["pipeline"], trace={"file": file, "level": "OFF"}) as server:
        yield Traced(server, file)


@pytest.fixture(params=["http", "grpc"])
def client(request: pytest.FixtureRequest, traced: Traced) -> Iterator[Any]:
    """A client of each protocol in turn; every setting is put back at the end."""
    api = getattr(tritonclient, request.param)
    server = traced.server
    address = server.url.removeprefix("http://") if request.param == "http" else server.grpc_url
    with api.InferenceServerClient(address) as client:
        yield client
        clear = {"trace_level": None, "trace_rate": None, "trace_count": None}
        clear |= {"log_frequency": None}
        for model in ("square", "add_sub", "pipeline", ""):
            client.update_trace_settings(model_name=model, settings=clear)


def shown(answer: Any) -> dict[str, Any]:
    """Settings as plain values, whichever protocol gave them."""
    if isinstance(answer, dict):
        return {k: v[0] if v == ["OFF"] else v for k, v in answer.items()}
    values = {k: list(v.value) for k, v in answer.settings.items()}
    return {k: v if k == "trace_level" and v != ["OFF"] else v[0] for k, v in values.items()}


def square(client: Any, request_id: str) -> None:
    api = tritonclient.http if "http" in type(client).__module__ else tritonclient.grpc
    tensor = api.InferInput("x", [1, 4], "INT32").set_data_from_numpy(X)
    client.infer("square", [tensor], request_id=request_id)


def traced_as(file: Path, request_ids: set[str]) -> Any:
    """The table of spans, once it holds these requests: they are written after the answer."""

    def there() -> bool:
        started = file.exists() or list(file.parent.glob(f"{file.name}.*"))
        return bool(started) and request_ids <= set(traces(file)["request_id"])

    wait_until(there)
    return traces(file)


def test_the_settings_as_started(client: Any, traced: Traced) -> None:
    settings = shown(client.get_trace_settings())
    assert settings["trace_file"] == str(traced.file)
    assert settings["trace_level"] == "OFF"
    assert (settings["trace_rate"], settings["trace_count"]) == ("1000", "-1")
    assert settings["trace_mode"] == "triton"


def test_one_model_is_traced_and_the_file_is_readable(client: Any, traced: Traced) -> None:
    kind = type(client).__module__.split(".")[1]
    update = {
        "trace_level": ["TIMESTAMPS"],
        "trace_rate": "1",
        "trace_count": "3",
        "log_frequency": "3",
    }
    settings = shown(client.update_trace_settings(model_name="square", settings=update))
    assert settings["trace_level"] == ["TIMESTAMPS"]
    assert settings["trace_rate"] == "1"
    assert shown(client.get_trace_settings(model_name="square"))["trace_count"] == "3"
    assert shown(client.get_trace_settings())["trace_level"] == "OFF"
    assert shown(client.get_trace_settings(model_name="add_sub"))["trace_level"] == "OFF"
    for i in range(5):
        square(client, f"{kind}-{i}")
    assert shown(client.get_trace_settings(model_name="square"))["trace_count"] == "0"
    table = traced_as(traced.file, {f"{kind}-{i}" for i in range(3)})
    mine = table[table["request_id"].str.startswith(kind)]
    assert sorted(mine["request_id"].unique()) == [f"{kind}-{i}" for i in range(3)]
    assert set(mine["model"]) == {"square"}
    assert {"request", "queue", "compute_infer"} <= set(mine["span"])
    assert (mine["ms"] >= 0).all()


def test_an_ensemble_is_traced_with_its_parts(client: Any, traced: Traced) -> None:
    api = tritonclient.http if "http" in type(client).__module__ else tritonclient.grpc
    kind = type(client).__module__.split(".")[1]
    update = {"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "log_frequency": "1"}
    client.update_trace_settings(settings=update)
    assert shown(client.get_trace_settings(model_name="square"))["trace_level"] == ["TIMESTAMPS"]
    inputs = [
        api.InferInput(name, [1, 4], "INT32").set_data_from_numpy(X) for name in ("left", "right")
    ]
    client.infer("pipeline", inputs, request_id=f"whole-{kind}")
    client.update_trace_settings(settings={"trace_level": ["OFF"]})
    table = traced_as(traced.file, {f"whole-{kind}"})
    (whole,) = set(table[table["request_id"] == f"whole-{kind}"]["trace"]) & set(
        table[table["model"] == "pipeline"]["trace"]
    )
    assert set(table[table["parent"] == whole]["model"]) == {"add_sub", "square"}


def test_a_setting_for_one_model_is_cleared(client: Any) -> None:
    client.update_trace_settings(model_name="square", settings={"trace_rate": "7"})
    assert shown(client.get_trace_settings(model_name="square"))["trace_rate"] == "7"
    client.update_trace_settings(settings={"trace_rate": "9"})
    assert shown(client.get_trace_settings(model_name="square"))["trace_rate"] == "7"
    client.update_trace_settings(model_name="square", settings={"trace_rate": None})
    assert shown(client.get_trace_settings(model_name="square"))["trace_rate"] == "9"


@pytest.mark.parametrize(
    ("setting", "value"), [("trace_rate", "abc"), ("trace_count", "-5"), ("log_frequency", "x")]
)
def test_wrong_trace_settings(client: Any, setting: str, value: str) -> None:
    with pytest.raises(InferenceServerException, match=f"Unable to parse '{setting}'.*{value}"):
        client.update_trace_settings(settings={setting: value})


def test_an_unknown_level_or_setting_changes_nothing(client: Any) -> None:
    """The server's release 24.10 silently ignores them."""
    before = shown(client.get_trace_settings())
    client.update_trace_settings(settings={"trace_level": ["EVERYTHING"]})
    client.update_trace_settings(settings={"trace_colour": "red"})
    assert shown(client.get_trace_settings()) == before


def test_trace_settings_of_an_unknown_model(client: Any) -> None:
    with pytest.raises(InferenceServerException, match="Request for unknown model : nobody"):
        client.get_trace_settings(model_name="nobody")
    with pytest.raises(InferenceServerException, match="Request for unknown model : nobody"):
        client.update_trace_settings(model_name="nobody", settings={"trace_rate": "1"})


def test_files_are_chosen_at_the_start_alone(client: Any, tmp_path: Path) -> None:
    words = "file location can not be updated through network protocol"
    file = str(tmp_path / "other")
    with pytest.raises(InferenceServerException, match=f"trace {words}"):
        client.update_trace_settings(settings={"trace_file": file})
    with pytest.raises(InferenceServerException, match=f"log {words}"):
        client.update_log_settings(settings={"log_file": file})


def test_an_unknown_log_format(client: Any) -> None:
    with pytest.raises(InferenceServerException, match=r"invalid argument .*got: pretty"):
        client.update_log_settings(settings={"log_format": "pretty"})


def test_log_settings(client: Any, traced: Traced) -> None:
    http = "http" in type(client).__module__

    def read() -> dict[str, Any]:
        answer = client.get_log_settings() if http else client.get_log_settings(as_json=True)
        if http:
            return answer
        return {k: next(iter(v.values())) for k, v in answer["settings"].items()}

    before = read()
    assert (before["log_info"], before["log_warning"], before["log_error"]) == (True, True, True)
    assert before["log_verbose_level"] == 0
    assert before["log_format"] == "default"
    client.update_log_settings(settings={"log_verbose_level": 1, "log_format": "ISO8601"})
    assert read()["log_verbose_level"] == 1
    assert read()["log_format"] == "ISO8601"
    mark = len(traced.server.log_text())
    square(client, "talk")
    assert "[request id: talk]" in traced.server.log_text()[mark:]
    client.update_log_settings(settings={"log_verbose_level": 0, "log_format": "default"})
    mark = len(traced.server.log_text())
    square(client, "silence")
    assert "silence" not in traced.server.log_text()[mark:]
    assert read() == before


def test_the_raw_endpoints(traced: Traced) -> None:
    url = traced.server.url
    assert httpx.get(f"{url}/v2/trace/setting").json()["trace_mode"] == "triton"
    answer = httpx.post(f"{url}/v2/models/square/trace/setting", json={"trace_rate": "5"})
    assert answer.json()["trace_rate"] == "5"
    httpx.post(f"{url}/v2/models/square/trace/setting", json={"trace_rate": None})
    assert httpx.post(f"{url}/v2/logging", json={"log_info": False}).json()["log_info"] is False
    assert httpx.post(f"{url}/v2/logging", json={"log_info": True}).json()["log_info"] is True
    wrong = httpx.post(f"{url}/v2/logging", json={"log_info": "yes"})
    assert (wrong.status_code, wrong.json()["error"]) == (
        500,
        "attempt to access JSON non-boolean as boolean",
    )
