"""The task of 04__compile: warm-ups, so that no user waits for torch.compile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import setup
from workbook.lessons import files
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server


def start(folder: Path) -> Server:
    """Start a server with the model as the notebook has it."""
    here = Path(__file__).parent
    files.place(folder, here.parent / "03__batching/models/batched", here / "models/flexible")
    setup.prepare(folder)
    return laboratory(folder, only=["flexible"])


@define(
    "compile.warmup",
    hints=(
        "Which requests waited above? Their shapes are the ones to warm up with.",
        "The field is `model_warmup`, and a config may have several. Each has a `name`, a "
        '`batch_size` (0 here), and `inputs` with a `key`, here "image", and a `value`.',
        "One warm-up has dims: [ 1, 3, 64, 64 ], then two have other numbers of pictures, for "
        "example 2 and 3: the first of these is compiled for its own size, the second for any.",
    ),
)
def warmup(server: Server) -> None:
    """The model flexible has warmed up before it is ready, so that no request with 1 to 16 pictures
    waits for the compiler."""
    samples: list[dict[str, Any]] = server.config("flexible").get("model_warmup", [])
    if not samples:
        raise NotYet(
            "The config that the server has names no warm-up. At each load it reads "
            "$TRITON_MODELS/flexible/config.pbtxt."
        )
    sizes = []
    for sample in samples:
        inputs = sample.get("inputs", {})
        if list(inputs) != ["image"]:
            raise NotYet(f"The sample {sample.get('name', '')!r} has other inputs than image.")
        sizes.append(int(inputs["image"]["dims"][0]))
    if 1 not in sizes:
        raise NotYet("No warm-up has one picture, and one picture has a program of its own.")
    others = {size for size in sizes if size != 1}
    needed = 2 if sizes[0] != 1 else 1
    if len(others) < needed:
        raise NotYet(
            f"Warm-ups with {', '.join(map(str, sizes))} pictures leave PyTorch without a program "
            "for any number."
        )
