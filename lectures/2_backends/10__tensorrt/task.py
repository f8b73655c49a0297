"""The task of 10__tensorrt: an engine that fits a given config, judged by the engine itself."""

from __future__ import annotations

from pathlib import Path

from workbook.backends.tensorrt import record
from workbook.common.errors import Refusal
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server
from workbook.zoo import classifiers, engines, exports

_MODEL = "digits_tensorrt"
_CONFIG = """\
# Digits, as an engine of TensorRT. Most batches have 16 rows.
platform: "tensorrt_plan"
max_batch_size: 48
input { name: "image" data_type: TYPE_FP32 dims: [ 1, 8, 8 ] }
output { name: "logits" data_type: TYPE_FP32 dims: [ 10 ] }
dynamic_batching { preferred_batch_size: [ 16 ] }
"""


def digits(models: Path) -> Path:
    """Write models/digits.onnx, the digit classifier, and a config for its engine."""
    file = models / "digits.onnx"
    exports.to_onnx(classifiers.load("digits_cnn"), {"image": (1, 8, 8)}, file)
    home = models / _MODEL
    (home / "1").mkdir(parents=True, exist_ok=True)
    (home / "config.pbtxt").write_text(_CONFIG, encoding="utf-8")
    return file


def start(folder: Path) -> Server:
    """Export the network, and start a server that serves nothing."""
    digits(folder)
    return laboratory(folder, only=[])


@define(
    "tensorrt.build",
    hints=(
        "`engines.build(onnx, plan, profile)` of `from workbook.zoo import engines` builds, and "
        "writes beside the plan what is in it.",
        "The config says the most rows of a batch, and which number of rows is the usual one.",
        '`engines.profile_of({"image": (1, 8, 8)}, (1, 16, 48))` is the profile.',
    ),
)
def build(server: Server) -> None:
    """Build digits_tensorrt/1/model.plan from digits.onnx with engines.build, so that it fits the
    config beside it: it takes all batches that the config allows, from one row on, and no larger
    ones; its kernels are chosen for the usual batch. Leave the config as it is."""
    home = server.repository / _MODEL
    plan = home / "1/model.plan"
    if (home / "config.pbtxt").read_text("utf-8") != _CONFIG:
        raise NotYet("The config has changed. The engine is to fit the one that was there.")
    if not plan.is_file():
        raise NotYet(f"There is no {_MODEL}/1/model.plan yet.")
    try:
        found = record.Record.beside(plan)
    except record.BadRecord as error:
        raise NotYet(f"{error}. Build the engine with engines.build.") from None
    if found is None:
        raise NotYet("Nothing is known of this plan. Build it with engines.build.")
    if [port.name for port in found.inputs] != ["image"]:
        raise NotYet("The engine has other inputs than the config.")
    batches = tuple(
        shape[0]
        for shape in (found.inputs[0].smallest, found.inputs[0].optimum, found.inputs[0].largest)
    )
    if batches != (1, 16, 48):
        raise NotYet(
            f"The engine takes batches of {batches[0]} to {batches[2]} rows, and is fastest at "
            f"{batches[1]}. The config wants others."
        )
    try:
        server.load(_MODEL)
    except Refusal as refused:
        # Without a GPU the backend cannot run it, but it says whether the engine fits.
        fits = "The engine fits this config" in str(refused)
        if not (fits and engines.cannot_run()):
            raise NotYet(f"The server says: {refused}") from None
