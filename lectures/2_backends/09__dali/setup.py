"""For 09__dali: its files, a network whose last layer is trained anew, a figure, mistakes."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workbook import measure, zoo
from workbook.common.errors import WorkbookError
from workbook.lessons import formats, place
from workbook.lessons.workspace import version
from workbook.measure import style
from workbook.server import Server

Array = npt.NDArray[Any]

SIDE = 64
#: The configs and pipelines of the notebook's models.
HERE = Path(__file__).parent / "models"
GREYS = 127.5  # grey levels per 1.0 of the network's input
#: How many training files the last layer is trained with.
EXAMPLES = 512


def prepare(models: Path) -> None:
    """Fill the notebook's repository with pictures, and with the lecture's network.

    `jpegs` gets the 200 pictures, `training` 512 others, as JPEG files whose names say what they
    show: `sharp_000.jpg` and so on. The model `focus` is the network, in TorchScript. The folder
    `small/1` is for the file that the reader writes.
    """
    parts = {"jpegs": zoo.data.focus_files("test"), "training": zoo.data.focus_files("train")}
    for folder, (files, kinds) in parts.items():
        (models / folder).mkdir()
        for number, file in enumerate(files[:EXAMPLES]):
            name = f"{zoo.data.FOCUS_LABELS[int(kinds[number])]}_{number:03}.jpg"
            (models / folder / name).write_bytes(file)
    save(models, "focus", formats.network())
    place(models, HERE / "dali_model")
    version(models, "small")


def save(models: Path, name: str, network: Any) -> None:
    """Save a network as a model in TorchScript, with the config of `focus`."""
    import torch

    place(models, HERE / "focus", name=name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        torch.jit.script(network).save(str(models / name / "1/model.pt"))


def decode(server: Server, model: str, files: Sequence[bytes] | None = None) -> Array:
    """Send JPEG files to a pipeline, one file per request; returns the pixels.

    Args:
        files: by default the 200 pictures.

    Returns:
        One array, its first dimension the file.

    Raises:
        WorkbookError: the model is not loaded, or the server answered one of them with an error.
    """
    given = formats.files() if files is None else files
    name = formats.loaded(server, model)["input"][0]["name"]
    plan = [
        measure.Request(f"r{i}", inputs={name: np.frombuffer(file, np.uint8)[None]})
        for i, file in enumerate(given)
    ]
    found = measure.send(server, model, plan)
    if any(found["error"]):
        raise WorkbookError(max(found["error"]), where=model)
    return np.concatenate([next(iter(outputs.values())) for outputs in found["outputs"]])


def logits(pixels: Array) -> Array:
    """Compute the lecture's network in this process: (n, 3, 64, 64) → (n, 2)."""
    from workbook.zoo import nets

    return nets.predict(formats.network(), pixels)


def retrain(models: Path, pixels: Array) -> None:
    """Save a copy of the network as `focus_anew`, its last layer trained with other pixels.

    Args:
        pixels: of the files in `training`, in the order of their names: (512, 3, 64, 64).
    """
    import torch
    from sklearn.linear_model import LogisticRegression

    network = copy.deepcopy(formats.network())
    names = sorted(path.name for path in (models / "training").iterdir())
    classes = [name.startswith(zoo.data.FOCUS_LABELS[1]) for name in names]
    with torch.inference_mode():
        parts = [network.features(torch.from_numpy(pixels[i : i + 64]))
                 for i in range(0, len(pixels), 64)]  # fmt: skip
        found = torch.cat(parts).mean((2, 3)).numpy()
    middle, scale = found.mean(0), found.std(0) + 1e-6
    fitted = LogisticRegression(max_iter=2000).fit((found - middle) / scale, classes)
    weight = fitted.coef_[0] / scale
    bias = float(fitted.intercept_[0] - (weight * middle).sum())
    with torch.no_grad():
        network.head.weight.copy_(torch.tensor(np.stack([0 * weight, weight])))
        network.head.bias.copy_(torch.tensor([0.0, bias]))
    save(models, "focus_anew", network)


def plot(pixels: Mapping[str, Array], logits: Mapping[str, Array]) -> style.Picture:
    """Draw the picture whose verdict changed most, as each program shrinks it, and the differences.

    Args:
        pixels: by program; differences are shown from the first one's.
        logits: by program, the network's answers.
    """
    arrays = list(pixels.values())
    scores = [formats.score(logits[name]) for name in pixels]
    moved = np.where((scores[-1] > 0) != (scores[0] > 0), np.abs(scores[-1] - scores[0]), -1)
    row = int(moved.argmax())
    figure = style.Picture(8.6, 4.4, f"Picture {row}, made small by {', '.join(pixels)}")
    panels = figure.subplots(2, len(arrays))
    for column, (name, x) in enumerate(zip(pixels, arrays, strict=True)):
        above, below = panels[0][column], panels[1][column]
        above.imshow((x[row].transpose(1, 2, 0) + 1) / 2)
        verdict = zoo.data.FOCUS_LABELS[int(scores[column][row] > 0)]
        above.set_title(f"{name}\n{verdict}", color=style.GREY, fontsize=9)
        apart = (np.abs(x[row] - arrays[0][row]) * GREYS).mean(0)
        drawn = below.imshow(apart, cmap="magma", vmin=0, vmax=20)
        for axes in (above, below):
            axes.set_xticks([])
            axes.set_yticks([])
    bar = figure.colorbar(drawn, ax=list(panels[1]), shrink=0.9)
    bar.set_label("difference (grey levels)", color=style.GREY)
    bar.ax.tick_params(colors=style.GREY)
    return figure


def cut_off(home: Path) -> str:
    """A mistake for `mistakes.provoke`: half of the pipeline's file is missing."""
    file = home / "1/model.dali"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    return "`1/model.dali` has half of its bytes"


def two_outputs(home: Path) -> str:
    """A mistake for `mistakes.provoke`: the config has one output more than the pipeline."""
    more = 'output { name: "more" data_type: TYPE_FP32 dims: [ 1 ] }'
    with (home / "config.pbtxt").open("a", encoding="utf-8") as file:
        file.write(f"{more}\n")
    return f"Added: `{more}`"


def no_outputs(home: Path) -> str:
    """A mistake for `mistakes.provoke`: the config has no output."""
    file = home / "config.pbtxt"
    before, _, after = file.read_text("utf-8").partition("output {")
    file.write_text(before + after.partition("}\n")[2], "utf-8")
    return "Without `output { … }`"


def for_gpu(home: Path) -> str:
    """A mistake for `mistakes.provoke`: the pipeline was serialized for a machine with a GPU."""
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=64, num_threads=1, device_id=None)  # type: ignore[untyped-decorator]
    def pipeline() -> Any:
        image = fn.decoders.image(fn.external_source(name="DALI_INPUT_0"), device="mixed")
        return fn.resize(image, resize_x=SIDE, resize_y=SIDE, device="gpu")

    pipeline().serialize(filename=str(home / "1/model.dali"))
    return 'In the pipeline: `device="mixed"`, `device="gpu"`'


def front(models: Path) -> None:
    """Write the model of the task: a pipeline that was made for another network.

    An existing folder stays as it is, because it may hold the reader's work.
    """
    if not (models / "front/config.pbtxt").exists():
        place(models, HERE / "front")
