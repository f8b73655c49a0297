"""The task of 10__tensorrt: the command line that builds the engine of another network."""

from __future__ import annotations

from pathlib import Path

import setup
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server
from workbook.zoo import classifiers, exports

_FILE = "build.sh"
_BATCHES = (1, 8, 32)


def digits(models: Path) -> Path:
    """Export the digit classifier, and return the ONNX file: models/digits.onnx."""
    file = models / "digits.onnx"
    exports.to_onnx(classifiers.load("digits_cnn"), {"image": (1, 8, 8)}, file)
    return file


def start(folder: Path) -> Server:
    """Export the network, and start a server that serves nothing."""
    digits(folder)
    (folder / "empty/1").mkdir(parents=True)
    return laboratory(folder, only=[])


@define(
    "tensorrt.build",
    hints=(
        "Which inputs does the network have, and which dimensions are fixed? "
        '`setup.inputs(models / "digits.onnx")` says so; -1 is a dimension that may vary.',
        "Three options give shapes: --minShapes, --optShapes, --maxShapes, each with the input's "
        "name, a colon, and the dimensions with an x between them.",
        "`--minShapes=image:1x1x8x8`, and the same with 8 and 32 in front. Add --onnx, "
        "--saveEngine and --skipInference; no option names a type.",
    ),
)
def build(server: Server) -> None:
    """Write build.sh: the command line with which TensorRT 11 builds an engine from digits.onnx.
    The engine takes 1 to 32 pictures, and its kernels are chosen for 8. It is written to the file
    that Triton reads as version 1 of digits_tensorrt. It is only built, and not measured."""
    file = server.repository / _FILE
    if not file.is_file():
        raise NotYet("There is no build.sh yet.")
    line = file.read_text("utf-8")
    if wrong := setup.check(line, server.repository):
        raise NotYet(wrong)
    table = setup.explain(line)["value"]
    if table["--onnx"] != "digits.onnx":
        raise NotYet("It does not build from digits.onnx.")
    if table["--saveEngine"] != "digits_tensorrt/1/model.plan":
        raise NotYet("Triton looks for the engine in digits_tensorrt/1/model.plan.")
    batches = tuple(
        setup.shapes(table[f"--{which}Shapes"])["image"][0] for which in ("min", "opt", "max")
    )
    if batches != _BATCHES:
        raise NotYet(f"The engine would take {batches[0]} to {batches[2]} pictures, fastest at "
                     f"{batches[1]}.")  # fmt: skip
    if "--skipInference" not in table.index:
        raise NotYet("It would measure the engine after it is built.")
