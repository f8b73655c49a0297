"""Send requests by a plan: each request at its own time, with its own name.

perf_analyzer reports totals. Here each request keeps its identity: its answer is a row of a table,
and the server's traces carry its name, so that a timeline can be drawn (`plot_timeline`).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

from ..common.errors import WorkbookError
from ..server import Server
from .server_argument import as_server


@dataclass(frozen=True)
class Request:
    """One request of a plan.

    Example:
        batch = np.ones((4, 1), np.float32)
        urgent = measure.Request("u1", at_ms=30, inputs={"INPUT": batch}, priority=1)
        measure.send(server, "square", [*measure.every(5, count=10), urgent])

    Attributes:
        id: its name, which the server writes into its trace.
        at_ms: when it is sent, in milliseconds from the plan's start.
        inputs: arrays by input name, with the batch dimension; an input that is left out is one
            row of zeros.
        priority: 0 takes the model's default, 1 is the most urgent.
        timeout_us: how long it may wait in the queue, in microseconds; 0 takes the model's own.
        sequence: the sequence that it belongs to; 0 for none. A sequence's requests are sent one
            after the other, in the order of the plan.
        start, end: whether it begins or ends its sequence.
    """

    id: str
    at_ms: float = 0.0
    inputs: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    priority: int = 0
    timeout_us: int = 0
    sequence: int = 0
    start: bool = False
    end: bool = False


def every(ms: float, count: int, *, name: str = "r", after_ms: float = 0.0) -> list[Request]:
    """A plan of `count` requests, one every `ms` milliseconds, named r1, r2, …

    Args:
        ms: time between two requests in milliseconds; 0 sends all at once.
        count: how many requests.
        name: what the names begin with.
        after_ms: when the first is sent, in milliseconds from the plan's start.

    Example:
        plan = measure.every(0.5, 16, name="a") + measure.every(2.5, 40, name="b", after_ms=8)
    """
    return [Request(f"{name}{i + 1}", after_ms + i * ms) for i in range(count)]


def send(server: Server | str | None, model: str, plan: Iterable[Request]) -> pd.DataFrame:
    """Send the requests of a plan over gRPC, and return when all are answered.

    Returns:
        One row per request, in the plan's order: `id`, `sent_ms` and `answered_ms` since the
        plan's start, `ms` between them, `error` (the server's message, "" where there is none)
        and `outputs` (arrays by name; empty after an error).

    Raises:
        WorkbookError: the plan is empty.
        ServerError: no server, or no such model.

    Example:
        answers = measure.send(server, "digits_onnx", measure.every(5, count=20))
        print(answers["ms"].median(), answers.query("error != ''"))
    """
    requests = list(plan)
    if not requests:
        raise WorkbookError("The plan is empty.", todo="Give at least one request: every(5, 1).")
    connection = as_server(server)
    config = connection.config(model)
    # One thread per sequence, and one per request outside of sequences.
    threads: dict[object, list[tuple[int, Request]]] = defaultdict(list)
    for place, request in enumerate(requests):
        threads[request.sequence or f"alone {place}"].append((place, request))
    client = connection.grpc_client()
    try:
        client.is_server_live()  # open the connection now, so that no request waits for it
        tensors = [_inputs(config, request) for request in requests]
        began = time.perf_counter() + 0.02  # a moment ahead, so that all threads are there by then

        def run(own: Sequence[tuple[int, Request]]) -> list[tuple[int, dict[str, Any]]]:
            return [(i, _send_one(client, model, began, r, tensors[i])) for i, r in own]

        with ThreadPoolExecutor(len(threads)) as pool:
            done = dict(pair for rows in pool.map(run, threads.values()) for pair in rows)
    finally:
        client.close()
    return pd.DataFrame([done[place] for place in range(len(requests))])


def _send_one(
    client: Any, model: str, began: float, request: Request, inputs: list[Any]
) -> dict[str, Any]:
    time.sleep(max(0.0, began + request.at_ms / 1000 - time.perf_counter()))
    sent = time.perf_counter()
    error, outputs = "", {}
    try:
        result = client.infer(
            model,
            inputs,
            request_id=request.id,
            priority=request.priority,
            timeout=request.timeout_us or None,
            sequence_id=request.sequence,
            sequence_start=request.start,
            sequence_end=request.end,
        )
        names = [output.name for output in result.get_response().outputs]
        outputs = {name: result.as_numpy(name) for name in names}
    except InferenceServerException as refused:
        error = str(refused.message())
    answered = time.perf_counter()
    return {
        "id": request.id,
        "sent_ms": (sent - began) * 1000,
        "answered_ms": (answered - began) * 1000,
        "ms": (answered - sent) * 1000,
        "error": error,
        "outputs": outputs,
    }


def _inputs(config: Mapping[str, Any], request: Request) -> list[Any]:
    """The client's tensors for a request; an input that is not given is one row of zeros."""
    import tritonclient.grpc as api

    tensors = []
    for entry in config["input"]:
        name, kind = entry["name"], entry["data_type"].removeprefix("TYPE_")
        kind = "BYTES" if kind == "STRING" else kind
        array = request.inputs.get(name)
        if array is None and entry.get("optional"):
            continue
        if array is None:
            rows = [1] if config.get("max_batch_size", 0) else []
            shape = [*rows, *(max(int(size), 1) for size in entry["dims"])]
            array = np.zeros(shape, triton_to_np_dtype(kind))
        tensor = api.InferInput(name, list(array.shape), kind)
        tensors.append(tensor.set_data_from_numpy(array))
    return tensors
