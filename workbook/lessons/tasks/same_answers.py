"""The task of 13__does_it_still_answer_the_same: half the bytes, and nearly all verdicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...server import Triton
from ..setups import same_answers as setup
from ..workspace import laboratory
from . import NotYet, define

_CHANGED = 1  # of the 9,000 verdicts: one may lie at the threshold within the rounding of fp16
_SHARE = 0.75  # of the weights have to be stored in fp16


@define(
    "same_answers.camera",
    hints=(
        "Which tensors are large, and which are small? Print the first and the last node of "
        "`raw.graph.node`, and think of the counts: after which node are they gone?",
        "The first convolution takes away black and divides by the gain. What comes out of it is "
        "of the size of 1, and fp16 holds that well.",
        "`convert_float_to_float16` has an argument `node_block_list`: names of nodes that stay in "
        "fp32. The name of the first node is `raw.graph.node[0].name`.",
    ),
    solution="""
        import onnx
        from onnxconverter_common import float16

        raw = onnx.load(models / "eights_fp32/1/model.onnx")
        first = raw.graph.node[0].name
        mixed = float16.convert_float_to_float16(raw, keep_io_types=True, node_block_list=[first])
        onnx.save(mixed, models / "eights_fp16/1/model.onnx")
        lab.load("eights_fp16")
    """,
)
def camera(server: Triton) -> None:
    """Convert eights_fp16 anew and load it: at least three quarters of its weights are fp16, and at
    most one of the 9,000 verdicts is another one than that of eights_fp32."""
    if not server.ready("eights_fp16"):
        raise NotYet("eights_fp16 is not loaded.")
    share = _share_of_fp16(server.repository / "eights_fp16/1/model.onnx")
    if share < _SHARE:
        raise NotYet(f"{share:.0%} of the weights are stored in fp16.")
    verdicts = [setup.scores(server, name) > 0 for name in ("eights_fp32", "eights_fp16")]
    changed = int(np.sum(verdicts[0] != verdicts[1]))
    if changed > _CHANGED:
        raise NotYet(f"{changed} of {setup.DIGITS:,} verdicts differ from those of eights_fp32.")


def _share_of_fp16(file: Path) -> float:
    """Which share of the numbers in an ONNX file's weights is stored in fp16.

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


def start(folder: Path) -> Triton:
    """Both files as the notebook has them, loaded."""
    import onnx
    from onnxconverter_common import float16

    half = float16.convert_float_to_float16(setup.camera(folder), keep_io_types=True)
    onnx.save(half, folder / "eights_fp16/1/model.onnx")
    return laboratory(folder, only=["eights_fp32", "eights_fp16"])
