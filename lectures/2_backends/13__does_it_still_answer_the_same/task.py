"""The task of 13__does_it_still_answer_the_same: half the bytes, and nearly all verdicts."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import setup
from workbook.lessons import formats
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Triton

_CHANGED = 1  # of the 9,000 verdicts: one score may lie at the threshold within fp16's rounding
_SHARE = 0.75  # of the weights must be stored in fp16
_NEARER = 0.5  # of the largest deviation of a score in a model with all nodes in fp16


@define(
    "same_answers.camera",
    hints=(
        "Which tensors are large, and which are small? Print the first and the last node of "
        "`onnx.load(raw_file).graph.node`: after which node are the large counts gone?",
        "The first convolution takes away black and divides by the gain. What comes out of it is "
        "of the size of 1, and fp16 holds that well.",
        "`convert_float_to_float16` has an argument `node_block_list`: names of nodes that stay in "
        "fp32. The name of the first node is `onnx.load(raw_file).graph.node[0].name`.",
    ),
)
def camera(server: Triton) -> None:
    """Convert eights_fp16 anew and load it. At least three quarters of its weights are fp16. Its
    largest deviation of a score is less than half of the deviation that one gets if the whole
    network is converted. At most one of its 9,000 verdicts differs from that of eights_fp32."""
    if not server.ready("eights_fp16"):
        raise NotYet("eights_fp16 is not loaded.")
    share = _share_of_fp16(server.repository / "eights_fp16/1/model.onnx")
    if share < _SHARE:
        raise NotYet(f"{share:.0%} of the weights are stored in fp16.")
    exact, found = (setup.scores(server, name) for name in ("eights_fp32", "eights_fp16"))
    changed = int(np.sum((exact > 0) != (found > 0)))
    if changed > _CHANGED:
        raise NotYet(f"{changed} of {setup.DIGITS:,} verdicts differ from those of eights_fp32.")
    whole = _scores_in_fp16(server.repository / "eights_fp32/1/model.onnx")
    away, at_first = (float(np.abs(scores - exact).max()) for scores in (found, whole))
    if away > _NEARER * at_first:
        raise NotYet(f"A score differs by up to {away:.1g}; converted as a whole, {at_first:.1g}.")


def _share_of_fp16(file: Path) -> float:
    """Return the share of the numbers in an ONNX file's weights that is stored in fp16.

    Raises:
        NotYet: the file cannot be read.
    """
    import onnx

    try:
        weights = onnx.load(file).graph.initializer
    except Exception as error:
        raise NotYet(f"{file.name} cannot be read: {error}") from None
    sizes = [int(np.prod(weight.dims)) for weight in weights]
    half = [weight.data_type == onnx.TensorProto.FLOAT16 for weight in weights]
    return sum(size for size, yes in zip(sizes, half, strict=True) if yes) / max(1, sum(sizes))


def _scores_in_fp16(file: Path) -> formats.Array:
    """Compute the scores of the model converted to fp16 as a whole, in this process."""
    import onnx

    with tempfile.TemporaryDirectory() as place:
        half = Path(place) / "model.onnx"
        onnx.save(_in_fp16(onnx.load(file)), half)
        run = formats.in_process(half)
    parts = np.array_split(setup.digits(), 9)
    return formats.score(np.concatenate([run(part) for part in parts]))


def _in_fp16(model: Any) -> Any:
    """Convert a model as the notebook first does it."""
    from onnxconverter_common import float16

    return float16.convert_float_to_float16(model, keep_io_types=True)


def start(folder: Path) -> Triton:
    """Start a server with both files as the notebook has them."""
    import onnx

    half = _in_fp16(setup.camera(folder))
    onnx.save(half, folder / "eights_fp16/1/model.onnx")
    return laboratory(folder, only=["eights_fp32", "eights_fp16"])
