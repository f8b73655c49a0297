"""For 04__pytorch: files for models, the documents' configs and program, and measurements."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from workbook import measure
from workbook.lessons import formats, mistakes, place
from workbook.lessons.premises import Premise, attempt
from workbook.lessons.shared import documented, quiet, variants
from workbook.lessons.workspace import folder
from workbook.server import Triton

#: The models that the reader opens.
HERE = Path(__file__).parent / "models"
_PRINTED = HERE / "pytorch_model/simple_model.as_printed.py"


def models() -> Path:
    """Make a fresh repository with the models beside the notebook; each has a version 1.

    It also has the network's weights, and 200 pictures. Warnings that torch.jit is deprecated are
    hidden.
    """
    quiet.torchscript()  # they come at each use
    torch.set_num_threads(1)
    home = folder("pytorch")
    place(home, *(model for model in HERE.glob("[a-z]*") if model.name != "scaled"))
    (home / "focus_pytorch/1").mkdir(parents=True)
    torch.save(formats.network().state_dict(), home / "weights.pth")
    np.save(home / "pictures.npy", formats.pictures())
    return home


def slides(server: Triton) -> documented.Correction:
    """Load the backend slides' program and config, as printed and then corrected for this server.

    The notebook's files are in the model's folder again afterwards.
    """
    model = runpy.run_path(str(_PRINTED), run_name="simple_model")
    steps = {"with braces": documented.braces, "on the CPU": documented.on_cpu}
    file = server.repository / "pytorch_model/1/model.pt"
    right = file.read_bytes()
    model["scripted_model"].save(file)
    server.unload("pytorch_model")
    try:
        return _as_printed(server, "pytorch_model", steps)
    finally:
        file.write_bytes(right)


def guide(server: Triton) -> documented.Correction:
    """Load the production guide's config as printed, and then with changes.

    The notebook's config is in the model's folder again afterwards.
    """
    steps = {
        "on the CPU": documented.on_cpu,
        "with NVFUSER": with_nvfuser,
        "without a batcher": documented.put("dynamic_batching {\n}\n", ""),
    }
    return _as_printed(server, "ibuddha_chitchat", steps)


def _as_printed(
    server: Triton, model: str, steps: Mapping[str, documented.Edit]
) -> documented.Correction:
    """Correct a document's printed config, and put the notebook's own one back."""
    file = server.repository / model / "config.pbtxt"
    right = file.read_bytes()
    try:
        return documented.correct(server, model, HERE / model / "config.as_printed.pbtxt", steps)
    finally:
        file.write_bytes(right)


def with_nvfuser(text: str) -> str:
    """Activate the parameter that the production guide's config has in comments."""
    block = r"(?ms)^#parameters: \{.*?^#\}"
    return re.sub(block, lambda found: found[0].replace("#", ""), text)


class Scaled(torch.nn.Module):  # type: ignore[misc]
    """The task's network: its pixels lie between any values of black and white.

    image float32 (n, 3, 64, 64), black and white float32 (n, 1) → logits float32 (n, 2).
    """

    def __init__(self) -> None:
        super().__init__()
        self.net = formats.network()

    def forward(
        self, image: torch.Tensor, black: torch.Tensor, white: torch.Tensor
    ) -> torch.Tensor:
        """Return the logits of "blurred" and "sharp"."""
        low, high = black[:, :, None, None], white[:, :, None, None]
        return self.net(2 * (image - low) / (high - low) - 1)


#: A parameter that is neither true nor false, to put before the others.
NO_BOOLEAN = 'parameters { key: "INFERENCE_MODE" value: { string_value: "yes" } }\nparameters'


def scaled(models: Path) -> None:
    """Put the task's model into a repository; its config's names do not fit forward().

    An existing folder stays as it is, because it may hold the reader's work.
    """
    home = models / "scaled"
    if home.exists():
        return
    place(models, HERE / "scaled")
    torch.jit.script(Scaled().eval()).save(home / "1/model.pt")


def add_row(server: Triton) -> formats.Row:
    """Measure `focus_pytorch`, and add it to the table of formats."""
    scripted = torch.jit.load(server.repository / "focus_pytorch/1/model.pt")

    def in_process(rows: Any) -> Any:
        with torch.inference_mode():
            return scripted(torch.from_numpy(rows)).numpy()

    with contextlib.redirect_stdout(io.StringIO()):  # of an unload that takes long
        return attempt(
            lambda: formats.add(server, "focus_pytorch", "TorchScript", in_process),
            lambda row: row.repeated,
        )


def compared() -> pd.DataFrame:
    """The lecture's table, with the formats up to this notebook's and the columns of speed."""
    columns = ["size, MB", "memory, MB", "per s, 1 under way", "per s, 8 under way"]
    return formats.table().filter(["Python", "TorchScript"], axis="index")[columns]


def table(
    server: Triton, first: Mapping[str, float], later: Mapping[str, Sequence[float]]
) -> pd.DataFrame:
    """Make a table of measured times, as `variants.measure` has it.

    Args:
        server: from `laboratory`.
        first: the milliseconds of each model's first request.
        later: those of the fastest request of each turn.
    """
    memory = measure.processes(server).groupby("model")["memory_mb"].sum()
    rows = {
        model: {
            "ms": min(turns),
            "first_ms": first[model],
            "memory_mb": memory.get(model, float("nan")),
            "spread": sorted(turns)[1] / min(turns),
        }
        for model, turns in later.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").round(2)


def repeated(times: pd.DataFrame) -> Premise:
    """Premise: the two fastest turns of each model agree."""
    return variants.repeated(times, 2)


def apart(times: pd.DataFrame) -> Premise:
    """Premise: TorchScript and torch.compile differ clearly."""
    return variants.apart(times, "focus_pytorch", "focus_compiled")


def provoke(server: Triton, program: torch.export.ExportedProgram) -> mistakes.Results:
    """Make five mistakes in `focus_pytorch`.

    Args:
        program: from torch.export.
    """
    state = formats.network().state_dict()

    def exported(home: Path) -> None:
        torch.export.save(program, home / "1/model.pt")

    def weights(home: Path) -> None:
        torch.save(state, home / "1/model.pt")

    return mistakes.provoke(server, "focus_pytorch", {
        "an exported program": exported,
        "a newer platform": mistakes.config("pytorch_libtorch", "torch_aoti"),
        "a state dict": weights,
        "a file model.pth": mistakes.rename("1/model.pt", "model.pth"),
        "a parameter": mistakes.config("parameters", NO_BOOLEAN),
    })  # fmt: skip
