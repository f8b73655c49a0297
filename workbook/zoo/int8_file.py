"""Networks that come with the course: a file with a byte per weight, and texts beside the weights.

    int8_file.write(path, weights, tokenizer=text)      # {"embed": (2048, 256) float32, …}
    weights, texts = int8_file.read(path)               # the same, rounded; {"tokenizer": text}

A matrix is kept as int8 with a scale for each row: a weight is off by at most 1/254 of the largest
in its row. Vectors (the weights of norms) are kept as they are. A text is an array of uint8.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SCALE = ":scale"


def write(path: Path, weights: Mapping[str, NDArray[np.float32]], **texts: str) -> None:
    """Write weights, by name, and texts, by name, into a compressed file."""
    stored: dict[str, Any] = {}
    for name, array in weights.items():
        if array.ndim == 2:
            largest = np.abs(array).max(axis=1, keepdims=True)
            scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
            stored[name] = np.rint(array / scale).astype(np.int8)
            stored[name + _SCALE] = scale
        else:
            stored[name] = array
    for name, text in texts.items():
        stored[name] = np.frombuffer(text.encode(), np.uint8)
    np.savez_compressed(path, **stored)


def read(path: Path) -> tuple[dict[str, NDArray[np.float32]], dict[str, str]]:
    """Return the weights as float32, and the texts, of a file that `write` has written."""
    weights: dict[str, NDArray[np.float32]] = {}
    texts: dict[str, str] = {}
    with np.load(path) as stored:
        for name in stored.files:
            array = stored[name]
            if array.dtype == np.uint8:
                texts[name] = array.tobytes().decode()
            elif array.dtype == np.int8:
                weights[name] = array.astype(np.float32) * stored[name + _SCALE]
            elif not name.endswith(_SCALE):
                weights[name] = array
    return weights, texts
