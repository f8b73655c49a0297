"""The FastAPI peer: the service that a good engineer writes around one ONNX model.

It has three endpoints, and the fastest one counts: the usual one with a pydantic model, the same
one asynchronous, and one that reads and writes JSON with orjson and skips pydantic. Each worker
process has one session of one thread, so that the workers share the cores without busy waiting.

Started by peers.py, with `MODEL` the path of the ONNX file.
"""

# mypy: ignore-errors
# It runs in an environment of its own, whose packages are not installed here.

from __future__ import annotations

import os

import numpy as np
import onnxruntime
import orjson
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(
    os.environ["MODEL"], options, providers=["CPUExecutionProvider"]
)
app = FastAPI()


class Rows(BaseModel):
    """x: rows of features."""

    x: list[list[float]]


class Answer(BaseModel):
    """y: one row of scores for each row of x."""

    y: list[list[float]]


def infer(rows: list[list[float]]) -> np.ndarray:
    """Scores of the rows."""
    (scores,) = session.run(["y"], {"x": np.asarray(rows, dtype=np.float32)})
    return scores


@app.post("/sync")
def sync_endpoint(rows: Rows) -> Answer:
    """Runs in FastAPI's pool of threads."""
    return Answer(y=infer(rows.x).tolist())


@app.post("/async")
async def async_endpoint(rows: Rows) -> Answer:
    """Runs in the event loop: the model takes microseconds, less than a change of threads."""
    return Answer(y=infer(rows.x).tolist())


@app.post("/orjson")
async def orjson_endpoint(request: Request) -> Response:
    """No pydantic, the fastest JSON library."""
    rows = orjson.loads(await request.body())["x"]
    body = orjson.dumps({"y": infer(rows)}, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, media_type="application/json")
