"""For 10__security: what clients got, as the predictions' options, and a server to protect.

setup.reach("localhost:8001", ssl=True)       # "no: UNAVAILABLE"
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # no log of refused connections; read at import

import numpy as np
import numpy.typing as npt
from tritonclient import grpc
from tritonclient.utils import InferenceServerException

from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.lessons.workspace import copy, folder
from workbook.server import Triton

MODEL = "digits_onnx"
SECONDS = 5  # how long a client waits for an answer


def models(name: str) -> Path:
    """Make a fresh repository with digits_onnx; returns its path, relative to the notebook."""
    home = folder(name)
    copy(home, MODEL, MODEL, {})
    return home


def who_gets_in(answers: Mapping[str, str]) -> str:
    """Return the option of the prediction that names who got an answer.

    Args:
        answers: client → a text that begins with "yes" or "no".
    """
    inside = [who for who, answer in answers.items() if answer.startswith("yes")]
    return {1: "A alone", 2: "A and B", 3: "A, B and C"}.get(len(inside), "all")


def who_answers(is_open: Mapping[str, bool]) -> str:
    """Return the option of the prediction that says which of HTTP and gRPC answers."""
    if is_open["HTTP"]:
        return "both"
    return "gRPC only" if is_open["gRPC"] else "neither"


def read_digit(client: grpc.InferenceServerClient, picture: npt.NDArray[np.float32]) -> int:
    """Ask digits_onnx for the digit in a picture, over gRPC.

    Args:
        client: connected to the server.
        picture: an array (1, 1, 8, 8).

    Raises:
        InferenceServerException: the server did not answer in time, or refused.

    Example:
        setup.read_digit(client, digits_model.pictures()[:1])
    """
    tensor = grpc.InferInput("image", picture.shape, "FP32").set_data_from_numpy(picture)
    answer = client.infer(MODEL, [tensor], client_timeout=SECONDS)
    return int(answer.as_numpy("logits").argmax())


def reach(address: str, *, headers: Mapping[str, str] | None = None, **options: Any) -> str:
    """Return whether a gRPC client gets an answer: "yes", or "no: " and gRPC's status.

    Args:
        address: host and port.
        headers: sent with the request.
        options: of the client, e.g. for TLS.

    Example:
        setup.reach(server.grpc_url)      # "yes"
    """
    with grpc.InferenceServerClient(address, **options) as client:
        try:
            alive = client.is_server_live(headers=dict(headers or {}), client_timeout=SECONDS)
        except InferenceServerException as error:
            return f"no: {str(error.status()).rpartition('.')[2]}"
    return "yes" if alive else "no"


def lists(address: str, *, headers: Mapping[str, str] | None = None, **options: Any) -> bool:
    """Return whether a gRPC client may read the list of models.

    Args:
        address: host and port.
        headers: sent with the request.
        options: of the client, e.g. for TLS.

    Example:
        setup.lists(server.grpc_url)      # True
    """
    with grpc.InferenceServerClient(address, **options) as client:
        try:
            client.get_model_repository_index(headers=dict(headers or {}), client_timeout=SECONDS)
        except InferenceServerException:
            return False
    return True


class Door(Triton):
    """A server with digits_onnx whose protection can be changed: it stops and starts again.

        door = setup.Door(papers)
        door.restart(options=[])                    # open for everybody
        door.restart(options=["--grpc-use-ssl=true", …])    # the same ports, gRPC over TLS

    Args:
        papers: the folder with the keys and certificates that the reader makes.

    Attributes:
        papers: this folder.
    """

    _last: Door | None = None

    def __init__(self, papers: Path) -> None:
        super().__init__(paths.repository(), models=[MODEL])
        self.papers = papers

    def restart(self, *, options: Sequence[str] = ()) -> Self:
        """Stop the server if it runs, and start it with other options of tritonserver.

        Raises:
            WorkbookError: an option names a file that is not there. (Triton's message for it says
                that a port is in use.)
            ServerError: it could not start.
        """
        for option in options:
            name, _, value = option.partition("=")
            if name.endswith(("-cert", "-key")) and not Path(value).is_file():
                raise WorkbookError(
                    "This file is not there.", where=option, todo=f"Make it in {self.papers}."
                )
        if Door._last is not None:
            Door._last.stop()
        own = [int(url.rsplit(":", 1)[1]) for url in (self.url, self.grpc_url)]
        super().__init__(self.repository, models=[MODEL], http=own[0], grpc=own[1], options=options)
        Door._last = self
        self.start()
        return self
