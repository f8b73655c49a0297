"""System shared memory: input and output tensors that are not sent over the connection."""

from __future__ import annotations

import base64
import mmap
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.utils.shared_memory as shm
from client_waits import wait_until
from tritonclient.utils import InferenceServerException

pytestmark = [pytest.mark.server, pytest.mark.quick]

Region = Callable[[int], tuple[str, Any]]
SIZE = 4 * 8  # bytes of eight INT32
A = np.arange(4, dtype=np.int32).reshape(1, 4)


@pytest.fixture(scope="module", autouse=True)
def _models(serve: Any) -> None:
    serve("add_sub", "greet")


@pytest.fixture
def region(protocol: Any) -> Iterator[Region]:
    """`region(byte_size)`: a new region with its name, registered; all are removed at the end."""
    made: list[tuple[str, Any]] = []

    def make(size: int) -> tuple[str, Any]:
        name = f"clients-{uuid.uuid4().hex[:8]}"
        handle = shm.create_shared_memory_region(name, f"/{name}", size)
        made.append((name, handle))
        protocol.client.register_system_shared_memory(name, f"/{name}", size)
        return name, handle

    yield make
    unregister(protocol)
    for _, handle in made:
        shm.destroy_shared_memory_region(handle)


def unregister(protocol: Any, name: str = "") -> None:
    """Unregister one region, or all. The server refuses until it has released the region's
    requests, which may be a moment after the client has the answer.
    """

    def unregistered() -> bool:
        try:
            protocol.client.unregister_system_shared_memory(name)
        except InferenceServerException as error:
            if name and "currently in use" not in str(error):
                raise
            return False
        return True

    wait_until(unregistered)


def status(protocol: Any, name: str = "") -> dict[str, Any]:
    """The registered regions by name."""
    answer = protocol.json(protocol.client.get_system_shared_memory_status(name))
    if protocol.name == "http":
        return {r["name"]: r for r in answer}
    return dict(answer.get("regions", {}))


def test_inputs_and_outputs_in_shared_memory(protocol: Any, region: Region) -> None:
    a = np.arange(8, dtype=np.int32).reshape(2, 4)
    b = np.full((2, 4), 5, np.int32)
    name_in, handle_in = region(2 * SIZE)
    name_out, handle_out = region(2 * SIZE)
    shm.set_shared_memory_region(handle_in, [a, b])
    inputs, outputs = [], []
    for i, (x, y) in enumerate([("a", "sum"), ("b", "difference")]):
        inputs.append(protocol.api.InferInput(x, [2, 4], "INT32"))
        inputs[-1].set_shared_memory(name_in, SIZE, offset=i * SIZE)
        outputs.append(protocol.api.InferRequestedOutput(y))
        outputs[-1].set_shared_memory(name_out, SIZE, offset=i * SIZE)
    result = protocol.client.infer("add_sub", inputs, outputs=outputs)
    answer = protocol.json(result.get_response())
    assert not any(answer.get("raw_output_contents", []))
    assert all("data" not in o and "contents" not in o for o in answer["outputs"])
    for i, expected in enumerate([a + b, a - b]):
        got = shm.get_contents_as_numpy(handle_out, np.int32, [2, 4], offset=i * SIZE)
        np.testing.assert_array_equal(got, expected)
    # The same regions serve the next request.
    shm.set_shared_memory_region(handle_in, [b, a])
    protocol.client.infer("add_sub", inputs, outputs=outputs)
    got = shm.get_contents_as_numpy(handle_out, np.int32, [2, 4], offset=SIZE)
    np.testing.assert_array_equal(got, b - a)


def test_one_tensor_in_shared_memory_and_one_on_the_wire(protocol: Any, region: Region) -> None:
    a = np.arange(4, dtype=np.int32).reshape(1, 4)
    name, handle = region(16)
    shm.set_shared_memory_region(handle, [a])
    shared = protocol.api.InferInput("a", [1, 4], "INT32")
    shared.set_shared_memory(name, 16)
    result = protocol.client.infer("add_sub", [shared, protocol.tensor("b", a)])
    np.testing.assert_array_equal(result.as_numpy("sum"), 2 * a)


def test_strings_in_shared_memory(protocol: Any, region: Region) -> None:
    from tritonclient.utils import serialize_byte_tensor, serialized_byte_size

    names = np.array([["Ada"], ["Grace"]], np.object_)
    packed = serialize_byte_tensor(names)
    size = serialized_byte_size(packed)
    name_in, handle_in = region(size)
    name_out, handle_out = region(200)
    shm.set_shared_memory_region(handle_in, [packed])
    x = protocol.api.InferInput("name", [2, 1], "BYTES")
    x.set_shared_memory(name_in, size)
    y = protocol.api.InferRequestedOutput("text")
    y.set_shared_memory(name_out, 200)
    protocol.client.infer("greet", [x], outputs=[y])
    texts = shm.get_contents_as_numpy(handle_out, np.object_, [2, 1])
    assert texts.tolist() == [[b"Hello, Ada!"], [b"Hello, Grace!"]]


def test_register_status_unregister(protocol: Any, region: Region) -> None:
    assert status(protocol) == {}
    (one, _), (two, _) = region(64), region(128)
    assert set(status(protocol)) == {one, two}
    described = status(protocol, two)[two]
    assert described["key"] == f"/{two}"
    assert int(described["byte_size"]) == 128
    protocol.client.unregister_system_shared_memory(one)
    assert set(status(protocol)) == {two}
    protocol.client.unregister_system_shared_memory()
    assert status(protocol) == {}


def test_the_offset_of_a_region_counts_twice(protocol: Any) -> None:
    """A limit of the server's release 24.10: leave a region's own offset 0, as all others do here.

    The server maps the file from this offset on, and then adds the offset again to a request's
    offset: with an offset of one page, the region's first tensor is read from the third page.
    """
    page = mmap.PAGESIZE
    name = f"clients-{uuid.uuid4().hex[:8]}"
    handle = shm.create_shared_memory_region(name, f"/{name}", 3 * page)
    for i in range(3):
        shm.set_shared_memory_region(handle, [np.full((1, 4), i, np.int32)], offset=i * page)
    protocol.client.register_system_shared_memory(name, f"/{name}", 2 * page, offset=page)
    x = protocol.api.InferInput("a", [1, 4], "INT32")
    x.set_shared_memory(name, 16)
    result = protocol.client.infer("add_sub", [x, protocol.tensor("b", np.zeros_like(A))])
    np.testing.assert_array_equal(result.as_numpy("sum"), np.full((1, 4), 2))
    unregister(protocol, name)
    shm.destroy_shared_memory_region(handle)


def test_an_output_that_does_not_fit(protocol: Any, region: Region) -> None:
    a = np.zeros((1, 4), np.int32)
    name, _ = region(8)
    output = protocol.api.InferRequestedOutput("sum")
    output.set_shared_memory(name, 8)
    inputs = [protocol.tensor("a", a), protocol.tensor("b", a)]
    with pytest.raises(InferenceServerException, match="shared memory size specified with the req"):
        protocol.client.infer("add_sub", inputs, outputs=[output])


def test_an_unknown_region(protocol: Any) -> None:
    inputs = [protocol.api.InferInput(name, [1, 4], "INT32") for name in "ab"]
    for x in inputs:
        x.set_shared_memory("nowhere", 16)
    with pytest.raises(InferenceServerException, match="Unable to find shared memory region: 'now"):
        protocol.client.infer("add_sub", inputs)


def test_a_region_that_does_not_exist(protocol: Any) -> None:
    with pytest.raises(InferenceServerException, match="Unable to open shared memory region"):
        protocol.client.register_system_shared_memory("ghost", "/clients-ghost", 16)
    assert status(protocol) == {}


def test_reading_past_the_end_of_a_region(protocol: Any, region: Region) -> None:
    name, _ = region(16)
    inputs = [protocol.api.InferInput(x, [4, 4], "INT32") for x in "ab"]
    for x in inputs:
        x.set_shared_memory(name, 64)
    with pytest.raises(InferenceServerException, match="Invalid offset \\+ byte size"):
        protocol.client.infer("add_sub", inputs)


def test_a_name_or_a_key_registered_twice(protocol: Any, region: Region) -> None:
    """A key has one name at a time: the server's release 24.10 looks it up in a closed file."""
    name, _ = region(16)
    with pytest.raises(InferenceServerException, match="already in manager"):
        protocol.client.register_system_shared_memory(name, f"/{name}", 16)
    with pytest.raises(InferenceServerException, match="Invalid shared memory region"):
        protocol.client.register_system_shared_memory(f"{name}-again", f"/{name}", 16)


def test_cuda_shared_memory_is_refused_with_a_reason(protocol: Any) -> None:
    """The wheel's server is built with CUDA regions; without a GPU there is none to open."""
    assert protocol.json(protocol.client.get_cuda_shared_memory_status()) in ([], {})
    handle = base64.b64encode(bytes(64))  # as long as a cudaIpcMemHandle_t
    with pytest.raises(InferenceServerException, match="failed to register shared memory region"):
        protocol.client.register_cuda_shared_memory("gpu", handle, 0, 16)
