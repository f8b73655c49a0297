"""Send requests by a plan, each at its moment, and see what came back.

perf_analyzer asks how much; this asks which: every request has a name, and a place in a trace.
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
from .reach import reach


@dataclass(frozen=True)
class Visit:
    """One request of a plan.

    Attributes:
        id: its name, which the server writes into its trace.
        at_ms: when it is sent, in milliseconds from the plan's start.
        inputs: arrays by input name, with the batch dimension; what is left out is zeros.
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


def every(ms: float, count: int, *, name: str = "r", after_ms: float = 0.0) -> list[Visit]:
    """A plan: `count` requests, one each `ms` milliseconds (0: all at once), named r1, r2, …"""
    return [Visit(f"{name}{i + 1}", after_ms + i * ms) for i in range(count)]


def send(server: Server | str | None, model: str, plan: Iterable[Visit]) -> pd.DataFrame:
    """Send the requests of a plan over gRPC, and return when all are answered.

    Returns:
        One row a visit, in the plan's order: `id`, `sent_ms` and `answered_ms` since the plan's
        start, `ms` between them, `error` (the server's words, "" where there is none) and
        `outputs` (arrays by name; empty after an error).

    Raises:
        WorkbookError: the plan is empty.
        ServerError: no server, or no such model.
    """
    visits = list(plan)
    if not visits:
        raise WorkbookError("The plan is empty.", todo="Give at least one visit, e.g. every(5, 1).")
    connection = reach(server)
    config = connection.config(model)
    lines: dict[object, list[tuple[int, Visit]]] = defaultdict(list)
    for place, visit in enumerate(visits):
        lines[visit.sequence or f"alone {place}"].append((place, visit))
    client = connection.grpc_client()
    try:
        client.is_server_live()  # so that no visit waits for the connection
        requests = [_inputs(config, visit) for visit in visits]
        began = time.perf_counter() + 0.02  # so that all threads wait for the first moment

        def walk(line: Sequence[tuple[int, Visit]]) -> list[tuple[int, dict[str, Any]]]:
            return [(p, _visit(client, model, began, v, requests[p])) for p, v in line]

        with ThreadPoolExecutor(len(lines)) as pool:
            done = dict(pair for line in pool.map(walk, lines.values()) for pair in line)
    finally:
        client.close()
    return pd.DataFrame([done[place] for place in range(len(visits))])


def _visit(
    client: Any, model: str, began: float, visit: Visit, inputs: list[Any]
) -> dict[str, Any]:
    time.sleep(max(0.0, began + visit.at_ms / 1000 - time.perf_counter()))
    sent = time.perf_counter()
    error, outputs = "", {}
    try:
        result = client.infer(
            model,
            inputs,
            request_id=visit.id,
            priority=visit.priority,
            timeout=visit.timeout_us or None,
            sequence_id=visit.sequence,
            sequence_start=visit.start,
            sequence_end=visit.end,
        )
        names = [output.name for output in result.get_response().outputs]
        outputs = {name: result.as_numpy(name) for name in names}
    except InferenceServerException as refused:
        error = str(refused.message())
    answered = time.perf_counter()
    return {
        "id": visit.id,
        "sent_ms": (sent - began) * 1000,
        "answered_ms": (answered - began) * 1000,
        "ms": (answered - sent) * 1000,
        "error": error,
        "outputs": outputs,
    }


def _inputs(config: Mapping[str, Any], visit: Visit) -> list[Any]:
    """A visit's tensors; an input that is not given is one row of zeros."""
    import tritonclient.grpc as api

    tensors = []
    for entry in config["input"]:
        name, kind = entry["name"], entry["data_type"].removeprefix("TYPE_")
        kind = "BYTES" if kind == "STRING" else kind
        array = visit.inputs.get(name)
        if array is None and entry.get("optional"):
            continue
        if array is None:
            rows = [1] if config.get("max_batch_size", 0) else []
            shape = [*rows, *(max(int(size), 1) for size in entry["dims"])]
            array = np.zeros(shape, triton_to_np_dtype(kind))
        tensor = api.InferInput(name, list(array.shape), kind)
        tensors.append(tensor.set_data_from_numpy(array))
    return tensors
