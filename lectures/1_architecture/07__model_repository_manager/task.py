"""The task of 07__model_repository_manager: a version that was copied while the disk was full."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
from tritonclient.grpc import InferInput
from tritonclient.utils import InferenceServerException

import setup
from workbook import zoo
from workbook.common.errors import LoadError
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server

_ROWS = 20


@define(
    "repository.half",
    hints=(
        "What does the server answer to `curl -sX POST "
        "$TRITON_HTTP/v2/repository/models/half/load`? Which version does it name?",
        "Compare the sizes: `ls -l $TRITON_MODELS/half/*`. Version 2 is to hold the same weights "
        "as version 1.",
        "Only version 2 is ready, because the version policy keeps the newest version only. For "
        "both, write "
        "`version_policy { all { } }` into the config, or pass it with the load command.",
    ),
)
def half(server: Server) -> None:
    """Make versions 1 and 2 of the model half ready at the same time; both give the same scores for
    20 pictures."""
    for version in (2, 1):
        if not server.ready("half", version):
            raise NotYet(f"Version {version} is not ready.")
    if not np.allclose(_scores(server, 1), _scores(server, 2), atol=1e-4):
        raise NotYet("The two versions give different scores.")


def _scores(server: Server, version: int) -> Any:
    pictures = zoo.data.digits().x_test[:_ROWS]
    tensor = InferInput("INPUT__0", list(pictures.shape), "FP32").set_data_from_numpy(pictures)
    client = server.grpc_client()
    try:
        answer = client.infer("half", [tensor], model_version=str(version))
        return answer.as_numpy("OUTPUT__0")
    except InferenceServerException as error:
        raise NotYet(f"Version {version} does not answer: {error.message()}") from None
    finally:
        client.close()


def start(folder: Path) -> Server:
    """Start a server with the model as the notebook has it; the server cannot load it."""
    setup.half(folder)
    server = laboratory(folder, only=[])
    with contextlib.suppress(LoadError):
        server.load("half")
    return server
