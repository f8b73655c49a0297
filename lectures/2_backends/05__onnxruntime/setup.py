"""For 05__onnxruntime: files for its cells, times from reports, and mistakes."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pandas as pd
import torch

from workbook.lessons import formats, place
from workbook.lessons.premises import Premise, attempt
from workbook.lessons.shared import documented, focus_files, quiet, variants
from workbook.lessons.workspace import folder
from workbook.server import Triton

#: The models that the reader opens.
HERE = Path(__file__).parent / "models"
#: The models of the section on settings; the first has ONNX Runtime's defaults.
SETTINGS = (
    *("level_0", "level_-1", "level_1", "level_2"),
    *("threads_2", "execution_mode_1", "openvino"),
)
#: A config line with an execution mode that does not exist.
MODE = 'parameters { key: "execution_mode" value: { string_value: "2" } }'
#: A config section that names an accelerator that does not exist.
ACCELERATOR = """optimization { execution_accelerators {
  cpu_execution_accelerator: [ { name: "onednn" } ]
} }"""


def models() -> Path:
    """Make a fresh repository: the network and pictures as files, the encoder's config, and an
    empty version 1 of each model that the notebook exports. Warnings of exporters are hidden.
    """
    quiet.hide_warnings()
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # of the older exporter
    home = folder("onnxruntime")
    focus_files.save(home)
    place(home, HERE / "sps_sbert_onnx")
    for name in ("onnx_model", "focus_onnx", "older"):
        (home / name / "1").mkdir(parents=True)
    return home


def measured(server: Triton, file: Path) -> formats.Row:
    """Measure `focus_onnx` for the lecture's table, again if two measurements do not agree.

    Args:
        file: its ONNX file.
    """
    in_process = formats.in_process(file)
    return attempt(
        lambda: formats.add(server, "focus_onnx", "ONNX", in_process), lambda row: row.repeated
    )


def load_as_printed(server: Triton) -> documented.Correction:
    """Load the slides' config as it was printed, then with braces, then on the CPU."""
    printed = HERE / "onnx_model/config.as_printed.pbtxt"
    return documented.correct(server, "onnx_model", printed, documented.BRACES_AND_CPU)


def read_times(reports: Path) -> pd.DataFrame:
    """Read perf_analyzer's reports of the models in `SETTINGS`, four of each.

    Returns:
        One row per model: `ms` and `spread` of `focus_files.read_turns`; `× default`, the time
        divided by that of `level_0`.
    """
    found = focus_files.read_turns(reports, SETTINGS, turns=4)
    found["× default"] = found["ms"] / found["ms"]["level_0"]
    return found[["ms", "× default", "spread"]]


def differs(times: pd.DataFrame, setting: str, limit: float) -> Premise:
    """Premise: the time with a setting, as a multiple of the default, is clearly on one side.

    Args:
        times: from `read_times`.
        setting: the model's name.
        limit: what a claim compares the multiple with.
    """
    return variants.apart(times, setting, "level_0", limit)


def accelerated(server: Triton) -> str:
    """Return the providers with which the model `openvino` was loaded last, from the log."""
    lines = [line for line in server.log_text().splitlines() if "'openvino' version" in line]
    found = re.search(r"providers (.*), requests", lines[-1]) if lines else None
    return found[1] if found else "no instance of the model openvino is in the log"


def cut(file: Path) -> str:
    """Cut a file in half, as after an interrupted copy."""
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    return f"`{file.name}` has half of its bytes."


def frozen(models: Path) -> None:
    """Write the model of the task: the network with a batch of 1, and a config that fits it.

    An existing folder stays as it is, because it may hold the reader's work.
    """
    home = models / "frozen"
    if home.exists():
        return
    place(models, HERE / "frozen")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older exporter gives many
        torch.onnx.export(
            formats.network(), (torch.zeros(1, 3, 64, 64),), home / "1/model.onnx",
            input_names=["image"], output_names=["logits"], dynamo=False,
        )  # fmt: skip
