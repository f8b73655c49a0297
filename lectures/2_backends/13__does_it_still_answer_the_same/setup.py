"""For 13__does_it_still_answer_the_same: formats in other number types, and their scores.

found = {"ONNX fp16": formats.served_logits(lab, "focus_fp16"), …}
same_answers.plot_differences(found)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbook import zoo
from workbook.lessons import formats, place
from workbook.lessons.workspace import version
from workbook.measure import style
from workbook.server import Triton

Array = npt.NDArray[Any]

#: The formats that other notebooks of lecture 2 measure: the backend → the notebook.
ELSEWHERE = {
    "python": "02__python",
    "pytorch": "04__pytorch",
    "onnxruntime": "05__onnxruntime",
    "openvino": "06__openvino",
    "tensorflow": "07__tensorflow",
}
#: The formats that this notebook measures.
MEASURED_HERE = ("ONNX fp16", "TorchScript bf16", "ONNX int8 dynamic", "ONNX int8 static")
#: The number of the camera's noisy digits.
DIGITS = 9000
#: The configs of the notebook's models.
HERE = Path(__file__).parent / "models"


def types(*numbers: float) -> pd.DataFrame:
    """Round numbers to each of the floating-point types that a network may have.

    Returns:
        One row per type; one column per number, and the distance from 1 to the next number.

    Example:
        same_answers.types(0.1, 1040.3, 70000.0)
    """
    import torch

    rows = {}
    for name, kind in (("fp32", torch.float32), ("fp16", torch.float16), ("bf16", torch.bfloat16)):
        held = {f"{number:g} is": torch.tensor(number).to(kind).item() for number in numbers}
        rows[name] = {**held, "from 1, the next number differs by": f"{torch.finfo(kind).eps:.1e}"}
    return pd.DataFrame(rows).T


def onnx_in_bf16(model: Any) -> Any:
    """Copy an ONNX model with weights, inputs and outputs in bfloat16, and with operator set 22.

    Operator set 22 is the first in which Conv takes this type.
    """
    import ml_dtypes
    import onnx
    from onnx import numpy_helper

    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.opset_import[0].version = 22
    for weight in made.graph.initializer:
        if weight.data_type == onnx.TensorProto.FLOAT:
            rounded = numpy_helper.to_array(weight).astype(ml_dtypes.bfloat16)
            weight.CopyFrom(numpy_helper.from_array(rounded, weight.name))
    for tensor in (*made.graph.input, *made.graph.output):
        tensor.type.tensor_type.elem_type = onnx.TensorProto.BFLOAT16
    return made


def save_bf16(models: Path, network: Any) -> Callable[[Array], Array]:
    """Save a network as TorchScript that computes in bf16, with fp32 as input and output.

    Args:
        models: the repository; the model is `focus_bf16`.
        network: a torch module (n, 3, 64, 64) → (n, 2).

    Returns:
        The same network in this process.
    """
    import copy

    import torch

    class InBfloat16(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, inside: torch.nn.Module) -> None:
            super().__init__()
            self.inside = inside

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return self.inside(image.to(torch.bfloat16)).to(torch.float32)

    whole = InBfloat16(copy.deepcopy(network).bfloat16()).eval()
    scripted = torch.jit.freeze(torch.jit.trace(whole, torch.zeros(1, 3, 64, 64)))
    place(models, HERE / "focus_bf16")
    scripted.save(str(version(models, "focus_bf16") / "model.pt"))

    def run(batch: Array) -> Array:
        torch.set_num_threads(1)
        with torch.inference_mode():
            return scripted(torch.from_numpy(batch)).numpy()  # type: ignore[no-any-return]

    return run


def missing() -> str:
    """Name the notebooks of lecture 2 that have not measured their format on this machine."""
    measured = {row.backend for row in formats.rows() if row.format not in MEASURED_HERE}
    left = [notebook for backend, notebook in ELSEWHERE.items() if backend not in measured]
    return f"Not measured here yet: {', '.join(left)}." if left else "All formats were measured."


def flipped(logits: Array) -> Array:
    """Return which pictures have another verdict than in the PyTorch network, bool (200,)."""
    return np.not_equal(formats.score(logits) > 0, formats.score(formats.reference()) > 0)


def near(found: Mapping[str, Array]) -> pd.DataFrame:
    """List per format the largest difference of a score, the number of changed verdicts, and the
    largest distance of their scores from the threshold."""
    score = formats.score(formats.reference())
    rows = {
        name: {
            "largest difference of a score": np.abs(formats.score(logits) - score).max(),
            "changed": int(flipped(logits).sum()),
            "their scores, at most": np.abs(score[flipped(logits)]).max(initial=0.0),
        }
        for name, logits in found.items()
    }
    return pd.DataFrame(rows).T.astype({"changed": int})


def changes_by_threshold(logits: Array, thresholds: Sequence[float] | Array) -> Array:
    """Count per threshold the verdicts that differ from PyTorch's at threshold 0."""
    return np.array([formats.changed(logits, float(threshold)) for threshold in thresholds])


def best_threshold(logits: Array) -> tuple[float, int]:
    """Return the threshold with the fewest changed verdicts, and their number.

    Candidates lie in the middle between two scores. Of equally good thresholds, the nearest to 0
    is returned.
    """
    scores = np.unique(formats.score(logits))
    middles = np.concatenate([[0.0], (scores[1:] + scores[:-1]) / 2])
    counts = changes_by_threshold(logits, middles)
    best = np.lexsort((np.abs(middles), counts))[0]
    return float(middles[best]), int(counts[best])


def plot_differences(found: Mapping[str, Array], *, wide: float = 1.5) -> style.Picture:
    """Draw one panel per format: the difference of each score over the score in PyTorch.

    Points below the dashed line on the right, or above it on the left, have another verdict.

    Args:
        found: logits (200, 2) by the format's name.
        wide: scores up to this distance from 0 are drawn.
    """
    score = formats.score(formats.reference())
    most = max(float(np.abs(formats.score(one) - score).max()) for one in found.values())
    counts = ", ".join(f"{name}: {flipped(one).sum()} changed" for name, one in found.items())
    figure = style.Picture(8.6, 2.9, f"Differences of scores against the scores. {counts}.")
    panels = np.atleast_1d(figure.subplots(1, len(found), sharex=True, sharey=True))
    for axes, (name, logits) in zip(panels, found.items(), strict=True):
        style.panel(axes, f"{name}\nverdicts changed: {flipped(logits).sum()}", below="score, fp32")
        apart, other = formats.score(logits) - score, flipped(logits)
        axes.plot([-wide, wide], [wide, -wide], "--", color=style.GREY, linewidth=1)
        axes.axvline(0, color=style.GREY, linewidth=0.8)
        axes.plot(score[~other], apart[~other], "o", color=style.COLOURS[0], markersize=3)
        axes.plot(score[other], apart[other], "X", color=style.COLOURS[3], markersize=7)
        axes.set_xlim(-wide, wide)
        axes.set_ylim(-1.1 * most, 1.1 * most)
    panels[0].set_ylabel("difference of the score", color=style.GREY)
    return figure


def plot_thresholds(found: Mapping[str, Array], *, wide: float = 0.6) -> style.Picture:
    """Draw the changed verdicts over the format's threshold; PyTorch's threshold stays 0."""
    thresholds = np.linspace(-wide, wide, 241)
    counts = ", ".join(f"{name} {best_threshold(one)[1]}" for name, one in found.items())
    figure = style.Picture(8.4, 2.8, f"Fewest changed verdicts at the best threshold: {counts}.")
    axes = figure.subplots()
    style.panel(axes, "Verdicts that differ from PyTorch's, of 200", below="threshold")
    for number, (name, logits) in enumerate(found.items()):
        axes.plot(
            thresholds, changes_by_threshold(logits, thresholds), label=name,
            color=style.COLOURS[number], linestyle=("-", "--", ":", "-.")[number % 4],
        )  # fmt: skip
        best, fewest = best_threshold(logits)
        axes.plot(best, fewest, style.MARKS[number], color=style.COLOURS[number])
    axes.axvline(0, color=style.GREY, linewidth=0.8)
    axes.set_ylim(bottom=-0.5)
    style.legend(axes, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


# -- a network on a camera's raw counts ------------------------------------------------------------


def digits() -> Array:
    """Return noisy digits as a camera's raw counts: float32 (9000, 1, 8, 8), around 1,000."""
    return zoo.data.noisy_eights().x_test


def camera(models: Path) -> Any:
    """Export the zoo's network "is it an 8?" to ONNX in fp32, as `eights_fp32`.

    The folders `eights_fp16` and `eights_counts` get its config; in the second config, input and
    output are fp16.

    Returns:
        The ONNX model. Its first node is the first convolution.
    """
    import onnx

    from workbook.zoo import classifiers, exports

    config = (HERE / "eights_fp32/config.pbtxt").read_text("utf-8")
    for name, kind in (("fp32", "FP32"), ("fp16", "FP32"), ("counts", "FP16")):
        home = version(models, f"eights_{name}").parent
        (home / "config.pbtxt").write_text(config.replace("FP32", kind), "utf-8")
    file = models / "eights_fp32/1/model.onnx"
    exports.to_onnx(classifiers.load("eights_cnn"), {"image": (1, 8, 8)}, file)
    made = onnx.load(file)
    del made.graph.value_info[:]
    onnx.save(made, file)
    return made


def scores(server: Triton, model: str, dtype: npt.DTypeLike = np.float32) -> Array:
    """Ask a model of the camera for the digits' scores: logit "eight" minus logit "other".

    Args:
        dtype: the type in which the counts are sent.

    Raises:
        RequestError: the server answered with an error.
        WorkbookError: the answers have another shape.
    """
    return formats.score(formats.served_logits(server, model, digits().astype(dtype)))


def plot_camera(found: Mapping[str, Array]) -> style.Picture:
    """Draw how the scores of several files differ from the first file's, one panel per file.

    Args:
        found: scores (n,) by name; the first one is the reference.
    """
    reference, *others = found
    base = found[reference]
    changed = {name: int(((found[name] > 0) != (base > 0)).sum()) for name in others}
    counts = ", ".join(f"{name} {count}" for name, count in changed.items())
    figure = style.Picture(8.4, 2.8, f"Verdicts that changed: {counts}.")
    panels = np.atleast_1d(figure.subplots(1, len(others), sharex=True, sharey=True))
    for axes, name in zip(panels, others, strict=True):
        title = f"{name}; verdicts changed: {changed[name]}"
        style.panel(axes, title, below=f"score, {reference}")
        axes.plot(base, found[name] - base, "o", color=style.COLOURS[0], markersize=2, alpha=0.5)
        other = (found[name] > 0) != (base > 0)
        axes.plot(
            base[other], (found[name] - base)[other], "X", color=style.COLOURS[3], markersize=7
        )
        axes.axvline(0, color=style.GREY, linewidth=0.8)
    panels[0].set_ylabel("difference of the score", color=style.GREY)
    return figure
