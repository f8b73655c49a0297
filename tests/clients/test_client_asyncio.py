"""The asyncio clients: many requests at once under a TaskGroup, and everything else awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc.aio as grpcaio
import tritonclient.http.aio as httpaio
from client_waits import wait_until

from workbook.server import Triton

pytestmark = [pytest.mark.server, pytest.mark.quick]


@pytest.fixture(scope="module", autouse=True)
def _models(serve: Any) -> None:
    serve("square", "countdown", "worker")


@pytest.fixture(params=["http", "grpc"])
def aio(request: pytest.FixtureRequest, server: Triton) -> Any:
    """The library and the address of each protocol in turn; the client needs a running loop."""
    if request.param == "http":
        return httpaio, server.url.removeprefix("http://")
    return grpcaio, server.grpc_url


def tensor(api: Any, name: str, array: Any, kind: str) -> Any:
    return api.InferInput(name, list(array.shape), kind).set_data_from_numpy(array)


def test_two_hundred_requests_in_a_task_group(aio: Any, server: Triton) -> None:
    api, address = aio
    before = server.statistics("square")[0]["execution_count"]

    async def ask(client: Any, number: int) -> Any:
        x = tensor(api, "x", np.full((1, 4), number, np.int32), "INT32")
        return await client.infer("square", [x], request_id=str(number))

    async def main() -> list[Any]:
        async with api.InferenceServerClient(address) as client, asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask(client, i)) for i in range(200)]
        return [task.result() for task in tasks]

    for i, result in enumerate(asyncio.run(main())):
        np.testing.assert_array_equal(result.as_numpy("y"), [[i * i] * 4])
        answer = result.get_response()
        assert (answer["id"] if isinstance(answer, dict) else answer.id) == str(i)
    wait_until(lambda: server.statistics("square")[0]["execution_count"] == before + 200)


def test_one_failure_ends_the_task_group_and_the_client_goes_on(aio: Any) -> None:
    api, address = aio

    async def main() -> Any:
        async with api.InferenceServerClient(address) as client:
            good = tensor(api, "x", np.ones((1, 4), np.int32), "INT32")
            wrong = tensor(api, "x", np.ones((1, 4), np.float32), "FP32")

            async def all_at_once() -> None:
                async with asyncio.TaskGroup() as group:
                    for x in (good, wrong, good):
                        group.create_task(client.infer("square", [x]))

            with pytest.raises(ExceptionGroup) as caught:
                await all_at_once()
            assert caught.group_contains(
                api.InferenceServerException, match=r"data-type is 'FP32', but .* expects 'INT32'"
            )
            return await client.infer("square", [good])

    np.testing.assert_array_equal(asyncio.run(main()).as_numpy("y"), np.ones((1, 4)))


def test_the_whole_client_awaited(aio: Any) -> None:
    api, address = aio

    async def main() -> None:
        async with api.InferenceServerClient(address) as client:
            assert await client.is_server_live()
            assert await client.is_server_ready()
            assert await client.is_model_ready("square", "1")
            assert not await client.is_model_ready("no_such_model")
            options = {} if api is httpaio else {"as_json": True}
            assert (await client.get_server_metadata(**options))["name"] == "triton"
            assert (await client.get_model_metadata("square", **options))["name"] == "square"
            config = await client.get_model_config("square", **options)
            assert config.get("config", config)["backend"] == "python"
            await client.unload_model("countdown")
            while await client.is_model_ready("countdown"):
                await asyncio.sleep(0.02)
            await client.load_model("countdown")
            assert await client.is_model_ready("countdown")
            statistics = await client.get_inference_statistics("square", **options)
            assert int(statistics["model_stats"][0]["execution_count"]) > 0
            index = await client.get_model_repository_index(**options)
            models = index if isinstance(index, list) else index["models"]
            assert {"square", "countdown", "worker"} <= {m["name"] for m in models}
            assert await client.get_trace_settings("square", **options)
            assert await client.get_log_settings(**options)

    asyncio.run(main())


def test_compression_awaited(server: Triton) -> None:
    async def main() -> None:
        x = np.arange(32, dtype=np.int32).reshape(8, 4)
        address = server.url.removeprefix("http://")
        async with httpaio.InferenceServerClient(address) as client:
            result = await client.infer(
                "square",
                [tensor(httpaio, "x", x, "INT32")],
                request_compression_algorithm="gzip",
                response_compression_algorithm="deflate",
            )
            np.testing.assert_array_equal(result.as_numpy("y"), x**2)
        async with grpcaio.InferenceServerClient(server.grpc_url) as client:
            result = await client.infer(
                "square", [tensor(grpcaio, "x", x, "INT32")], compression_algorithm="gzip"
            )
            np.testing.assert_array_equal(result.as_numpy("y"), x**2)

    asyncio.run(main())


async def requests(*counts: int, pause: float = 0.0) -> AsyncIterator[dict[str, Any]]:
    for number in counts:
        yield {
            "model_name": "countdown",
            "inputs": [
                tensor(grpcaio, "from", np.array([number], np.int32), "INT32"),
                tensor(grpcaio, "pause", np.array([pause], np.float32), "FP32"),
            ],
            "request_id": str(number),
        }


def test_a_stream_is_read_with_async_for(server: Triton) -> None:
    async def main() -> dict[str, list[int]]:
        got: dict[str, list[int]] = {}
        async with grpcaio.InferenceServerClient(server.grpc_url) as client:
            async for result, error in client.stream_infer(requests(3, 5)):
                assert error is None
                number = int(result.as_numpy("number")[0])
                got.setdefault(result.get_response().id, []).append(number)
        return got

    assert asyncio.run(main()) == {"3": [3, 2, 1], "5": [5, 4, 3, 2, 1]}


def test_a_cancelled_stream_ends_and_the_server_goes_on(server: Triton) -> None:
    async def main() -> None:
        async with grpcaio.InferenceServerClient(server.grpc_url) as client:
            stream = client.stream_infer(requests(1000, pause=0.01))
            got = []

            async def read() -> None:
                async for result, _ in stream:
                    got.append(int(result.as_numpy("number")[0]))
                    if len(got) == 3:
                        stream.cancel()

            with pytest.raises(asyncio.CancelledError):
                await read()
            assert got[:3] == [1000, 999, 998]
            async for result, error in client.stream_infer(requests(1)):
                assert error is None
                assert result.as_numpy("number")[0] == 1

    asyncio.run(main())


def test_a_cancelled_task_stops_the_model(server: Triton) -> None:
    async def main() -> None:
        async with grpcaio.InferenceServerClient(server.grpc_url) as client:
            long = tensor(grpcaio, "seconds", np.array([[30]], np.float32), "FP32")
            short = tensor(grpcaio, "seconds", np.zeros((1, 1), np.float32), "FP32")
            before = (await client.infer("worker", [short])).as_numpy("cancelled_so_far")
            task = asyncio.create_task(client.infer("worker", [long]))
            await asyncio.sleep(1)  # it is at work, also on a busy machine
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            result = await asyncio.wait_for(client.infer("worker", [short]), timeout=10)
            assert result.as_numpy("cancelled_so_far") == before + 1

    asyncio.run(main())


def test_plain_httpx_with_asyncio(server: Triton) -> None:
    async def main() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=server.url) as client, asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    client.post(
                        "/v2/models/square/infer",
                        json={
                            "inputs": [
                                {"name": "x", "shape": [1, 4], "datatype": "INT32", "data": [i] * 4}
                            ]
                        },
                    )
                )
                for i in range(50)
            ]
        return [task.result() for task in tasks]

    for i, answer in enumerate(asyncio.run(main())):
        assert answer.json()["outputs"][0]["data"] == [i * i] * 4
