"""For 13__what_goes_wrong: the models' files, right answers, mistakes, the task's model."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from workbook import zoo
from workbook.lessons import formats
from workbook.lessons import mistakes as made
from workbook.lessons.shared import quiet
from workbook.server import Triton

#: Pictures for a calibration.
_CALIBRATION = 80


def prepare(models: Path) -> None:
    """Write the network's files, 200 pictures with their right answers, and some to calibrate."""
    quiet.hide_warnings()
    formats.save_torchscript(models / "batched/1/model.pt")
    (models / "compiled/1").mkdir(exist_ok=True)
    formats.save_onnx(models / "compiled/1/model.onnx")
    np.savez(models / "reference.npz", image=formats.pictures(), logits=formats.reference())
    pixels = zoo.data.pixels(zoo.data.focus_files("train")[0][:_CALIBRATION])
    np.save(models / "training.npy", np.uint8(np.round((pixels + 1) * 127.5)))


def changed(server: Triton, model: str) -> int:
    """How many of the model's verdicts on the 200 pictures are not those of the network."""
    return formats.changed(formats.served_logits(server, model))


def launch(models: Path) -> None:
    """Give the model `launch` the program and the file of `int8`; the program runs if need be."""
    program = models / "int8/quantize.py"
    if not program.is_file():
        raise made.not_written("int8")
    if not (models / "int8/1/model.onnx").is_file():
        subprocess.run([sys.executable, str(program)], check=True, capture_output=True)
    for file in ("quantize.py", "1/model.onnx"):
        shutil.copy(models / "int8" / file, models / "launch" / file)


def mistakes(server: Triton) -> made.Results:
    """Provoke mistakes in the config of `compiled` that the server and its backend can see."""
    return made.provoke(
        server,
        "compiled",
        {
            "a field that does not exist": made.config("instance_group", "instance_groups"),
            "a version that is not there": made.append(
                "version_policy { specific { versions: [ 2 ] } }"
            ),
            "a file that is not there": made.append('default_model_filename: "int8.onnx"'),
        },
    )


def replies(file: Path) -> dict[str, str]:
    """The server's replies to commands: the model → what it said. A line `NAME: ` begins each."""
    found: dict[str, str] = {}
    for part in file.read_text("utf-8").split("\n\n"):
        name, _, reply = part.strip().partition(": ")
        found[name] = reply.strip()
    return found
