"""The task of `09__dali`: a pipeline that was copied from another network's."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import setup
from workbook.lessons import formats
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server

_NEAR = 0.5  # mean difference in grey levels; two JPEG decoders differ by 0.1


@define(
    "dali.front",
    hints=(
        "What did the network of this lecture see while it was trained? Compare numbers and "
        "colours of `decode('front', files[:1])` with those of `pillow(files[0])`.",
        "Three things differ: the order of the colours, how pixels are averaged, and mean and std.",
        "The decoder gives RGB if output_type is types.RGB. Without antialias=False, resize "
        "averages. The network wants -1..1: a mean and a std of 127.5 for each colour.",
    ),
)
def front(server: Server) -> None:
    """The pipeline front gives the pixels that the network was trained with: for the 200 files,
    its verdicts stay as they are."""
    if not server.ready("front"):
        raise NotYet("The model front is not loaded.")
    pixels, trained = setup.decode(server, "front"), formats.pictures()
    if pixels.shape != trained.shape:
        raise NotYet(f"Its pixels have the shape {list(pixels.shape)}, not {list(trained.shape)}.")
    apart = float(np.abs(pixels - trained).mean()) * setup.GREYS
    changed = formats.changed(setup.logits(pixels))
    if apart > _NEAR or changed > 1:
        raise NotYet(
            f"The pixels differ by {apart:.1f} grey levels on average, and {changed} of the 200 "
            "verdicts change."
        )


def start(folder: Path) -> Server:
    """Start a server with the copied pipeline."""
    setup.front(folder)
    return laboratory(folder)
