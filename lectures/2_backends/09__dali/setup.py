"""For 09__dali: JPEG files sent as bytes, other programs' pixels, and the changed verdicts."""

from __future__ import annotations

import copy
import functools
import io
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbook import measure, zoo
from workbook.common.errors import WorkbookError
from workbook.lessons import formats, place
from workbook.measure import style
from workbook.server import Server, Triton

Array = npt.NDArray[Any]

SIDE = 64
#: The configs and pipelines of the notebook's models.
HERE = Path(__file__).parent / "models"
GREYS = 127.5  # grey levels per 1.0 of the network's input
_SECONDS = 0.4


def serialize_error(make: Callable[[], Any]) -> str:
    """Make a pipeline and serialize it; returns DALI's message if it refuses, else "".

    Args:
        make: returns a pipeline.
    """
    try:
        make().serialize()
    except RuntimeError as error:
        message = re.sub(r'^Assert on ".*?" failed: ', "", str(error).strip(), flags=re.DOTALL)
        return message.splitlines()[0]
    return ""


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


@functools.cache
def bilinear() -> Array:
    """Shrink the 200 pictures as OpenCV's INTER_LINEAR does: from four pixels, without averaging.

    NumPy computes it, since OpenCV is not among the course's packages. Pillow decodes.

    Returns:
        float32 (200, 3, 64, 64) in -1..1.
    """
    from PIL import Image

    def small(file: bytes) -> Array:
        whole = np.asarray(Image.open(io.BytesIO(file)).convert("RGB"), np.float32)
        for axis in (0, 1):
            size = whole.shape[axis]
            at = np.clip((np.arange(SIDE) + 0.5) * size / SIDE - 0.5, 0, size - 1)
            first = np.minimum(at.astype(int), size - 2)
            share = (at - first).reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
            here, next_ = whole.take(first, axis), whole.take(first + 1, axis)
            whole = (1 - share) * here + share * next_
        return np.rint(whole)

    return zoo.data.normalise(np.stack([small(file) for file in formats.files()]))


def logits(pixels: Array, network: Any = None) -> Array:
    """Compute a network's logits in this process: (n, 3, 64, 64) → (n, 2).

    Args:
        network: by default the lecture's.
    """
    from workbook.zoo import nets

    return nets.predict(formats.network() if network is None else network, pixels)


def compared(pixels: Mapping[str, Array], logits: Mapping[str, Array]) -> pd.DataFrame:
    """Compare several programs with the first one: their pixels, and the 200 verdicts.

    Args:
        pixels: by program, (200, 3, 64, 64).
        logits: by program, the network's answers to its pixels.

    Returns:
        One row per program; columns `largest difference` and `mean difference` in grey levels of
        256, and `verdicts changed`.
    """
    first = next(iter(pixels.values()))
    apart = {name: np.abs(found - first) * GREYS for name, found in pixels.items()}
    columns = {
        "largest difference": [round(float(each.max())) for each in apart.values()],
        "mean difference": [round(float(each.mean()), 2) for each in apart.values()],
        "verdicts changed": [formats.changed(logits[name]) for name in pixels],
    }
    return pd.DataFrame(columns, index=list(pixels))


@functools.cache
def labels() -> Array:
    """Return the label of each of the 200 pictures: 1 is sharp, 0 is blurred."""
    return zoo.data.focus_files("test")[1]


def last_layer(pixels: Callable[[list[bytes]], Array], examples: int = 512) -> Any:
    """Copy the lecture's network, and train the copy's last layer anew with other pixels.

    Args:
        pixels: JPEG files → (n, 3, 64, 64).
        examples: the number of training files.

    Returns:
        A torch module in evaluation mode.
    """
    import torch
    from sklearn.linear_model import LogisticRegression

    files, classes = zoo.data.focus_files("train")
    x, network = pixels(files[:examples]), copy.deepcopy(formats.network())
    with torch.inference_mode():
        parts = [network.features(torch.from_numpy(x[i : i + 64])) for i in range(0, len(x), 64)]
        found = torch.cat(parts).mean((2, 3)).numpy()
    middle, scale = found.mean(0), found.std(0) + 1e-6
    fitted = LogisticRegression(max_iter=2000).fit((found - middle) / scale, classes[:examples])
    weight = fitted.coef_[0] / scale
    bias = float(fitted.intercept_[0] - (weight * middle).sum())
    with torch.no_grad():
        network.head.weight.copy_(torch.tensor(np.stack([0 * weight, weight])))
        network.head.bias.copy_(torch.tensor([0.0, bias]))
    return network


def right(logits: Array) -> int:
    """Count how many of the 200 verdicts are right.

    Args:
        logits: for the 200 pictures, (200, 2).
    """
    return int(((formats.score(logits) > 0) == labels()).sum())


def one_by_one(make: Callable[..., Any], *given: Any, **settings: Any) -> Any:
    """Make a pipeline that computes one batch when it gets its input, as the server's does.

    Args:
        make: a pipeline definition.
        given, settings: its arguments.
    """
    return make(*given, prefetch_queue_depth=1, exec_pipelined=False, exec_async=False, **settings)


def rates(server: Triton, model: str, pipeline: Any) -> pd.DataFrame:
    """Measure pictures per second: served, and in this process with DALI and with Pillow.

    Args:
        model: a pipeline with one input of bytes.
        pipeline: the same in this process, for batches of eight; its source is "DALI_INPUT_0".

    Returns:
        One row per way; columns `per second`, the better of two measurements; `spread`, the better
        over the worse; and `DALI computes`, the share of the time in which the server's DALI
        computes, in percent, as a text.

    Raises:
        WorkbookError: the model is not loaded.
    """
    files = formats.files()[:8]
    name = formats.loaded(server, model)["input"][0]["name"]
    file = np.frombuffer(sorted(files, key=len)[4], np.uint8)

    def inside(files: list[bytes]) -> Array:
        pipeline.feed_input("DALI_INPUT_0", [np.frombuffer(each, np.uint8) for each in files])
        return np.asarray(pipeline.run()[0].as_tensor())

    def served(load: int) -> float:
        before = formats.computed(server, model)
        table = measure.perf(server, model, concurrency=load, input_data={name: file},
                             interval_ms=400, stability=1e6, trials=3)  # fmt: skip
        after, rate = formats.computed(server, model), float(table["throughput"].item())
        seconds = (after[0] - before[0]) / 1e9 / (after[1] - before[1])  # per picture
        computes[f"served, {load} under way"] = f"{rate * seconds:.0%}"
        return rate

    computes: dict[str, str] = {}
    ways: dict[str, Callable[[], float]] = {
        "served, 1 under way": lambda: served(1),
        "served, 8 under way": lambda: served(8),
        "DALI in-process, batch 8": lambda: _rate(inside, files),
        "Pillow in-process": lambda: _rate(zoo.data.pixels, files),
    }
    rounds = [[way() for way in ways.values()] for _ in range(2)]
    columns: dict[str, Any] = {"per second": np.max(rounds, axis=0),
               "spread": np.max(rounds, axis=0) / np.min(rounds, axis=0)}  # fmt: skip
    columns["DALI computes"] = [computes.get(way, "") for way in ways]
    return pd.DataFrame(columns, index=list(ways))


def _rate(pixels: Callable[[list[bytes]], Array], files: list[bytes]) -> float:
    pixels(files)
    done, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < _SECONDS:
        pixels(files)
        done += len(files)
    return done / passed


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
