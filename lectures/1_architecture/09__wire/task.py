"""The task of `09__wire`: a client that sends far more than it has to."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from tritonclient import http

import setup
from workbook import measure
from workbook.lessons.shared import digits_model
from workbook.lessons.tasks import NotYet, define
from workbook.server import Server, Triton, all_models

COUNT = 360  # pictures
MOST = 1.5  # times the bytes of the pictures: the half is for names, headers and answers
CONNECTIONS = 2


def start(folder: Path) -> Server:
    """Copy the notebook's slow client, and start a server with `digits_onnx`."""
    shutil.copy(Path(__file__).parent / "clients/client.py", folder)
    models = setup.copy_shared(folder)
    server = Triton(models).start()
    all_models.load_all(server, setup.SHARED)
    return server


@define(
    "wire.client",
    hints=(
        "Count what one request costs apart from its 64 numbers: a connection, headers, names. "
        "How many of those can be shared?",
        "`digits_onnx` takes up to 64 pictures in one request, and requests.post opens a new "
        "connection each time. tritonclient.http keeps its connection and sends binary tensors.",
        "Open one tritonclient.http.InferenceServerClient; it wants the address without http://. "
        "For each 64 pictures make an InferInput of their shape, and put them in with "
        "set_data_from_numpy. argmax(axis=1) of the logits gives the digits.",
    ),
)
def client(server: Server) -> None:
    """Change client.py: the same 360 answers over HTTP, with at most 2 connections, and at most
    1.5 times the bytes of the pictures in both directions together."""
    pictures = digits_model.pictures()[:COUNT]
    before = measure.statistics(server, "digits_onnx")
    with measure.Tap(server.url) as tap:
        answers = _classify(server.repository / "client.py", f"http://{tap.address}", pictures)
        crossed, connections = tap.sent + tap.received, tap.connections
    change = measure.counted(server, "digits_onnx", before, 1)
    counted = int(change["inferences"].sum()) if len(change) else 0
    if not np.array_equal(np.asarray(answers).ravel(), _expected(server, pictures)):
        raise NotYet("The digits differ from those that the server gives for the same pictures.")
    if counted != COUNT:
        raise NotYet(f"The server counted {counted} inferences for {COUNT} pictures.")
    if connections > CONNECTIONS:
        raise NotYet(f"The client opened {connections} connections.")
    if crossed > MOST * pictures.nbytes:
        raise NotYet(
            f"{crossed:,} bytes crossed the wire; {MOST * pictures.nbytes:,.0f} are enough."
        )


def _classify(file: Path, url: str, pictures: Any) -> Any:
    """Call the reader's function.

    Raises:
        NotYet: the file lacks the function, or the function raised an error.
    """
    names: dict[str, Any] = {}
    try:
        exec(compile(file.read_text("utf-8"), str(file), "exec"), names)
        return names["classify"](url, pictures)
    except FileNotFoundError:
        raise NotYet("There is no client.py yet: run the cell above.") from None
    except KeyError as error:
        raise NotYet(f"client.py has no function {error}.") from None
    except Exception as error:
        raise NotYet(f"client.py ended with {type(error).__name__}: {error}") from None


def _expected(server: Server, pictures: Any) -> Any:
    """Return the digits that the server finds."""
    digits = []
    with http.InferenceServerClient(server.url.removeprefix("http://")) as own:
        for first in range(0, len(pictures), 64):
            some = pictures[first : first + 64]
            tensor = http.InferInput("image", some.shape, "FP32").set_data_from_numpy(some)
            digits.append(own.infer("digits_onnx", [tensor]).as_numpy("logits").argmax(axis=1))
    return np.concatenate(digits)
