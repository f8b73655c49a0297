"""For 05__precision: the network and pictures, a premise, and the program of the task."""

from __future__ import annotations

import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from workbook import zoo
from workbook.common.errors import WorkbookError
from workbook.lessons import formats
from workbook.lessons.premises import Premise, steady
from workbook.lessons.shared import quiet

#: Pictures for the calibration.
_CALIBRATION = 200


def prepare(models: Path) -> None:
    """Write the network as ONNX, a copy of it for `compiled`, and two sets of pictures.

    `network.onnx` has an input `image` (rows, 3, 64, 64) and an output `logits`. `pictures.npy` are
    the 200 pictures of `formats`; `training.npy` are 200 of those that the network was trained on.
    Warnings of exporters are hidden.
    """
    import logging

    quiet.hide_warnings()
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # of the older exporter
    logging.getLogger().setLevel(logging.ERROR)  # quantize_static advises to pre-process
    file = models / "network.onnx"
    formats.save_onnx(file)
    (models / "compiled/1").mkdir(exist_ok=True)
    shutil.copy(file, models / "compiled/1/model.onnx")
    np.save(models / "pictures.npy", formats.pictures())
    files = zoo.data.focus_files("train")[0][:_CALIBRATION]
    np.save(models / "training.npy", zoo.data.pixels(files))


def repeated(rounds: pd.DataFrame, *names: str, factor: float = 1.4) -> Premise:
    """Premise: these models' compute times agree within a factor, the least and the middle round.

    Args:
        rounds: one row per model, one column per round.
    """
    times = rounds.loc[list(names)]
    return steady([1.0, (times.median(axis=1) / times.min(axis=1)).max()], factor)


def quantize(models: Path) -> None:
    """Run the program of the model `hurried`.

    Raises:
        WorkbookError: the program failed; the message has its last lines.
    """
    program = models / "hurried/quantize.py"
    (program.parent / "1").mkdir(exist_ok=True)
    ran = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, check=False, timeout=300
    )
    if ran.returncode:
        lines = ran.stderr.strip().splitlines()[-3:]
        raise WorkbookError(
            f"quantize.py failed: {' '.join(lines)}",
            where="models/hurried/quantize.py",
            todo="Correct the program, save it, and run the cell again.",
        )
