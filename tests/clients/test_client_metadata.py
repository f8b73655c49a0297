"""A server's metadata, its models' metadata, and its exact counts for known requests."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from client_waits import wait_until
from tritonclient.utils import InferenceServerException

pytestmark = [pytest.mark.server, pytest.mark.quick]


@pytest.fixture(scope="module", autouse=True)
def _models(serve: Any) -> None:
    serve("square", "add_sub", "cached", "scores", "total_direct", "countdown", "pipeline")


def test_health(protocol: Any) -> None:
    client = protocol.client
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("square")
    assert client.is_model_ready("square", "1")
    assert not client.is_model_ready("square", "2")
    assert not client.is_model_ready("no_such_model")


def test_server_metadata(protocol: Any) -> None:
    about = protocol.json(protocol.client.get_server_metadata())
    assert about["name"] == "triton"
    assert about["version"] == "2.51.0"
    assert {
        "classification",
        "sequence",
        "model_repository",
        "schedule_policy",
        "model_configuration",
        "system_shared_memory",
        "binary_tensor_data",
        "parameters",
        "statistics",
        "trace",
        "logging",
    } <= set(about["extensions"])


def test_model_metadata(protocol: Any) -> None:
    about = protocol.json(protocol.client.get_model_metadata("add_sub"))
    assert about["versions"] == ["1"]
    assert about["platform"] == "python"
    assert [t["name"] for t in about["inputs"]] == ["a", "b"]
    assert [t["name"] for t in about["outputs"]] == ["sum", "difference"]
    assert [int(d) for d in about["inputs"][0]["shape"]] == [-1, 4]
    assert about["inputs"][0]["datatype"] == "INT32"


def test_model_config(protocol: Any) -> None:
    def config(model: str) -> Any:
        answer = protocol.json(protocol.client.get_model_config(model))
        return answer.get("config", answer)

    assert config("square")["max_batch_size"] == 8
    assert config("scores")["output"][0]["label_filename"] == "labels.txt"
    assert config("countdown")["model_transaction_policy"]["decoupled"] is True
    assert config("cached")["response_cache"]["enable"] is True
    assert "direct" in config("total_direct")["sequence_batching"]
    assert config("pipeline")["platform"] == "ensemble"
    assert len(config("pipeline")["ensemble_scheduling"]["step"]) == 2


@pytest.mark.parametrize("ask", ["get_model_metadata", "get_model_config"])
def test_unknown_models_and_versions(protocol: Any, ask: str) -> None:
    with pytest.raises(InferenceServerException, match="'no_such_model' is not found"):
        getattr(protocol.client, ask)("no_such_model")
    with pytest.raises(InferenceServerException, match=r"version 9 is not (found|at ready state)"):
        getattr(protocol.client, ask)("square", "9")


class Counts:
    """What the statistics extension has counted since this was made."""

    def __init__(self, protocol: Any, model: str) -> None:
        self.protocol, self.model = protocol, model
        self.before = self.read()

    def read(self) -> dict[Any, int]:
        answer = self.protocol.client.get_inference_statistics(self.model)
        (record,) = self.protocol.json(answer)["model_stats"]
        counts = {name: int(record.get(name, 0)) for name in ("inference_count", "execution_count")}
        for name, value in record["inference_stats"].items():
            counts[name] = int(value.get("count", 0))
            assert counts[name] == 0 or int(value["ns"]) > 0
        for batch in record.get("batch_stats", []):
            counts[int(batch["batch_size"])] = int(batch["compute_infer"]["count"])
        return counts

    def since(self) -> dict[Any, int]:
        """The increased counts; counts by batch size have the size as their key."""
        now = self.read()
        up = {key: now[key] - self.before.get(key, 0) for key in now}
        return {key: n for key, n in up.items() if n}

    def become(self, expected: dict[Any, int]) -> None:
        """Wait for these counts: the server counts right after it answers."""

        def those() -> dict[Any, int]:
            return {key: n for key, n in self.since().items() if key in expected}

        with contextlib.suppress(AssertionError):
            wait_until(lambda: those() == expected, seconds=5)
        assert those() == expected


def test_every_request_is_counted_once(protocol: Any) -> None:
    counts = Counts(protocol, "square")
    for rows in [1, 1, 1, 4, 4, 8]:
        x = protocol.tensor("x", np.ones((rows, 4), np.int32))
        protocol.client.infer("square", [x])
    expected = {"inference_count": 19, "execution_count": 6, "success": 6, 1: 3, 4: 2, 8: 1}
    expected |= {f"compute_{part}": 6 for part in ("input", "infer", "output")} | {"queue": 6}
    counts.become(expected)
    assert counts.since() == expected  # and nothing else went up


def test_failures_are_counted_apart(protocol: Any) -> None:
    """A Python model fails when it raises; a request that it answers with an error is a success."""
    counts = Counts(protocol, "add_sub")
    for value, words in ((1, ""), (333, "666 is not a sum"), (499, "998 is too much")):
        x = np.full((1, 4), value, np.int32)
        inputs = [protocol.tensor("a", x), protocol.tensor("b", x)]
        if words:
            with pytest.raises(InferenceServerException, match=words):
                protocol.client.infer("add_sub", inputs)
        else:
            protocol.client.infer("add_sub", inputs)
    counts.become({"success": 2, "fail": 1, "inference_count": 2, "execution_count": 3})


def test_refused_requests_do_not_count(protocol: Any) -> None:
    counts = Counts(protocol, "square")
    with pytest.raises(InferenceServerException, match="unexpected shape"):
        protocol.client.infer("square", [protocol.tensor("x", np.ones((1, 5), np.int32))])
    assert counts.since() == {}


def test_hits_and_misses_of_the_response_cache(protocol: Any) -> None:
    counts = Counts(protocol, "cached")
    base = 1000 if protocol.name == "http" else 2000
    for value in [1, 2, 1, 1, 2, 3]:
        x = np.full((2, 4), base + value, np.int32)
        result = protocol.client.infer("cached", [protocol.tensor("x", x)])
        np.testing.assert_array_equal(result.as_numpy("y"), x**2)
    # inference_count is of the rows that were computed: three executions of two rows
    counts.become({"cache_hit": 3, "cache_miss": 3, "success": 6, "execution_count": 3})
    counts.become({"inference_count": 6, 2: 3})


def test_the_cache_of_one_protocol_serves_the_other(http: Any, grpc: Any) -> None:
    x = np.full((1, 4), 31337, np.int32)
    counts = Counts(http, "cached")
    for protocol in (http, grpc):
        protocol.client.infer("cached", [protocol.tensor("x", x)])
    counts.become({"cache_miss": 1, "cache_hit": 1})


def test_an_ensemble_and_its_parts_count_each_for_itself(protocol: Any) -> None:
    counts = [Counts(protocol, name) for name in ("pipeline", "add_sub", "square")]
    x = np.ones((2, 4), np.int32)
    inputs = [protocol.tensor("left", x), protocol.tensor("right", x)]
    for _ in range(3):
        protocol.client.infer("pipeline", inputs)
    for part in counts:
        part.become({"inference_count": 6, "execution_count": 3, "success": 3})


def test_statistics_of_all_models_at_once(protocol: Any) -> None:
    records = protocol.json(protocol.client.get_inference_statistics())["model_stats"]
    assert {"square", "add_sub", "cached", "scores", "total_direct", "countdown", "pipeline"} <= {
        r["name"] for r in records
    }
    with pytest.raises(InferenceServerException, match="'no_such_model' is not available"):
        protocol.client.get_inference_statistics("no_such_model")
