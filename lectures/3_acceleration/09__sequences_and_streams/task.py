"""The task of 09__sequences_and_streams: the server keeps a state that the client carried."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tritonclient import grpc
from tritonclient.utils import InferenceServerException

import setup
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server


def start(folder: Path) -> Server:
    """Start a server with the model as the notebook has it."""
    setup.yours(folder)
    return laboratory(folder)


@define(
    "streams.kept",
    hints=(
        "Compare the config of `kept` with that of `carried`: which lines are gone, which are new?",
        "The state's two tensors leave `input` and `output`, and stand in `sequence_batching` as "
        "`input_name` and `output_name` of a `state`.",
        "An `initial_state` with zero_data: true begins with 0. Its dims, and the state's, are "
        "those of the network: [ 1 ].",
    ),
)
def state_is_kept(server: Server) -> None:
    """The model yours keeps the state of each sequence in the server: two sequences that take turns
    get the answers that each would get alone."""
    if not server.ready("yours"):
        raise NotYet("The model yours is not loaded.")
    config = server.config("yours")
    if not config.get("sequence_batching", {}).get("state"):
        raise NotYet("The config that the server has names no state in sequence_batching.")
    frames = {101: [1.0, 2.0, 3.0], 102: [5.0, 0.0, 5.0]}
    answers: dict[int, list[float]] = {number: [] for number in frames}
    with server.grpc_client() as client:
        for place in range(3):
            for number, values in frames.items():
                frame = grpc.InferInput("frame", [1, 1], "FP32")
                frame.set_data_from_numpy(np.full((1, 1), values[place], np.float32))
                try:
                    answer = client.infer(
                        "yours",
                        [frame],
                        sequence_id=number,
                        sequence_start=place == 0,
                        sequence_end=place == 2,
                    )
                except InferenceServerException as error:
                    raise NotYet(f"A frame was refused: {error.message()}") from None
                answers[number].append(float(answer.as_numpy("brightness").item()))
    for number, values in frames.items():
        state = 0.0
        for place, value in enumerate(values):
            state = 0.9 * state + 0.1 * value
            if abs(answers[number][place] - state) > 1e-4:
                raise NotYet(
                    f"Frame {place + 1} of a sequence got {answers[number][place]:.2f}, and "
                    f"{state:.2f} is right."
                )
