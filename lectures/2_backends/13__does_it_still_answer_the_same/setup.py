"""For 13__does_it_still_answer_the_same: formats in other number types, and their scores.

setup.prepare(models)                           # the network in fp32 and bf16, and its pictures
setup.plot_differences({"focus_fp16": scores, …}, exact)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbook import zoo
from workbook.lessons import formats, place
from workbook.lessons.shared import quiet
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
#: The models that this notebook measures → the names of their formats in the table.
MEASURED_HERE = {
    "focus_fp16": "ONNX fp16",
    "focus_dynamic": "ONNX int8 dynamic",
    "focus_static": "ONNX int8 static",
    "focus_bf16": "TorchScript bf16",
}
#: The number of the camera's noisy digits.
DIGITS = 9000
#: The configs of the notebook's models.
HERE = Path(__file__).parent / "models"


def prepare(models: Path) -> None:
    """Put the classifier "is this piece of a photo sharp?" into a repository, in three formats.

    `focus_fp32` is ONNX; `focus_bf16` is TorchScript that computes in bf16; `focus_bf16_onnx` is
    ONNX in bf16, which ONNX Runtime refuses on a CPU. Beside them lie arrays: `pictures.npy`, the
    200 test pictures, `pytorch.npy`, their scores in PyTorch, and `examples.npy`, 256 training
    pictures.
    """
    import onnx

    from workbook.zoo import exports

    quiet.hide_warnings()
    net = formats.network()
    place(models, HERE / "focus_fp32")
    file = version(models, "focus_fp32") / "model.onnx"
    exports.to_onnx(net, {"image": (3, 64, 64)}, file)
    raw = onnx.load(file)
    del raw.graph.value_info[:]  # shapes of the export, which the tools would trust
    onnx.save(raw, file)
    place(models, HERE / "focus_fp32", name="focus_bf16_onnx")
    onnx.save(onnx_in_bf16(raw), models / "focus_bf16_onnx/1/model.onnx")
    save_bf16(models, net)
    np.save(models / "pictures.npy", formats.pictures())
    np.save(models / "pytorch.npy", formats.score(formats.reference()))
    np.save(models / "examples.npy", zoo.data.pixels(zoo.data.focus_files("train")[0][:256]))


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


def save_bf16(models: Path, network: Any) -> None:
    """Save a network as TorchScript that computes in bf16, with fp32 as input and output.

    Args:
        models: the repository; the model is `focus_bf16`.
        network: a torch module (n, 3, 64, 64) → (n, 2).
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


def measure_formats(server: Triton, models: Path) -> pd.DataFrame:
    """Measure the notebook's formats, add them to the table of lecture 2, and return the table.

    Says which formats of other notebooks are missing.
    """
    for model, name in MEASURED_HERE.items():
        formats.add(server, model, name, _in_process(models / model / "1"))
    print(missing())
    return formats.table().drop(columns=["load, s", "in-process, batch 8"])


def _in_process(version: Path) -> Callable[[Array], Array]:
    """The ONNX or TorchScript file of a version folder, in this process, with one thread."""
    import torch

    if not (file := version / "model.pt").exists():
        return formats.in_process(version / "model.onnx")
    scripted = torch.jit.load(str(file))

    def run(batch: Array) -> Array:
        torch.set_num_threads(1)
        with torch.inference_mode():
            return scripted(torch.from_numpy(batch)).numpy()  # type: ignore[no-any-return]

    return run


def missing() -> str:
    """Name the notebooks of lecture 2 that have not measured their format on this machine."""
    measured = {row.backend for row in formats.rows() if row.format not in MEASURED_HERE.values()}
    left = [notebook for backend, notebook in ELSEWHERE.items() if backend not in measured]
    return f"Not measured here yet: {', '.join(left)}." if left else "All formats were measured."


def best_threshold(scores: Array, exact: Array) -> tuple[float, int]:
    """Return the threshold with the fewest changed verdicts, and their number.

    Candidates lie in the middle between two scores. Of equally good thresholds, the nearest to 0
    is returned.

    Args:
        scores: of a format.
        exact: of the same pictures in PyTorch, whose threshold stays 0.
    """
    values = np.unique(scores)
    middles = np.concatenate([[0.0], (values[1:] + values[:-1]) / 2])
    counts = changes_by_threshold(scores, exact, middles)
    best = np.lexsort((np.abs(middles), counts))[0]
    return float(middles[best]), int(counts[best])


def changes_by_threshold(scores: Array, exact: Array, thresholds: Array) -> Array:
    """Count per threshold the verdicts that differ from PyTorch's at threshold 0."""
    changed: Array = np.not_equal(scores[None] > thresholds[:, None], exact > 0).sum(1)
    return changed


def plot_differences(
    found: Mapping[str, Array], exact: Array, *, wide: float = 1.5
) -> style.Picture:
    """Draw one panel per format: the difference of each score over the score in PyTorch.

    Points below the dashed line on the right, or above it on the left, have another verdict.

    Args:
        found: scores (200,) by the format's name.
        exact: the scores in PyTorch.
        wide: scores up to this distance from 0 are drawn.
    """
    most = max(float(np.abs(one - exact).max()) for one in found.values())
    flipped = {name: np.not_equal(one > 0, exact > 0) for name, one in found.items()}
    counts = ", ".join(f"{name}: {other.sum()} changed" for name, other in flipped.items())
    figure = style.Picture(8.6, 2.9, f"Differences of scores against the scores. {counts}.")
    panels = np.atleast_1d(figure.subplots(1, len(found), sharex=True, sharey=True))
    for axes, (name, own) in zip(panels, found.items(), strict=True):
        apart, other = own - exact, flipped[name]
        style.panel(axes, f"{name}\nverdicts changed: {other.sum()}", below="score, fp32")
        axes.plot([-wide, wide], [wide, -wide], "--", color=style.GREY, linewidth=1)
        axes.axvline(0, color=style.GREY, linewidth=0.8)
        axes.plot(exact[~other], apart[~other], "o", color=style.COLOURS[0], markersize=3)
        axes.plot(exact[other], apart[other], "X", color=style.COLOURS[3], markersize=7)
        axes.set_xlim(-wide, wide)
        axes.set_ylim(-1.1 * most, 1.1 * most)
    panels[0].set_ylabel("difference of the score", color=style.GREY)
    return figure


def plot_thresholds(
    found: Mapping[str, Array], exact: Array, *, wide: float = 0.6
) -> style.Picture:
    """Draw the changed verdicts over the format's threshold; PyTorch's threshold stays 0."""
    thresholds = np.linspace(-wide, wide, 241)
    bests = {name: best_threshold(one, exact) for name, one in found.items()}
    counts = ", ".join(f"{name} {fewest}" for name, (_, fewest) in bests.items())
    figure = style.Picture(8.4, 2.8, f"Fewest changed verdicts at the best threshold: {counts}.")
    axes = figure.subplots()
    style.panel(axes, "Verdicts that differ from PyTorch's, of 200", below="threshold")
    for number, (name, own) in enumerate(found.items()):
        axes.plot(
            thresholds, changes_by_threshold(own, exact, thresholds), label=name,
            color=style.COLOURS[number], linestyle=("-", "--", ":", "-.")[number % 4],
        )  # fmt: skip
        axes.plot(*bests[name], style.MARKS[number], color=style.COLOURS[number])
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
    output are fp16. `counts.npy` has the digits.

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
    np.save(models / "counts.npy", digits())
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
        # As pixels: thousands of points, each an element of its own, would make the page slow.
        axes.plot(base, found[name] - base, "o", color=style.COLOURS[0], markersize=2, alpha=0.5,
                  rasterized=True)  # fmt: skip
        other = (found[name] > 0) != (base > 0)
        axes.plot(
            base[other], (found[name] - base)[other], "X", color=style.COLOURS[3], markersize=7
        )
        axes.axvline(0, color=style.GREY, linewidth=0.8)
    panels[0].set_ylabel("difference of the score", color=style.GREY)
    return figure
