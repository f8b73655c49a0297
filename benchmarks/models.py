"""Make the models under test, and the repository that serves them."""

from __future__ import annotations

import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

FEATURES, WIDE, CLASSES = 16, 2048, 4
IMAGE = (3, 64, 64)
#: Seconds that a batch of the network takes on one core.
CNN_S = 0.009

_CONFIG = """\
platform: "{platform}"
max_batch_size: {batch}
input [ {{ name: "{x}" data_type: TYPE_FP32 dims: [ {dims} ] }} ]
output [ {{ name: "{y}" data_type: TYPE_FP32 dims: [ {classes} ] }} ]
# One thread in each instance: more threads than cores would only take turns on them.
instance_group [ {{ count: {instances} kind: KIND_CPU }} ]
parameters {{ key: "{threads}" value: {{ string_value: "1" }} }}
{more}"""

#: By a model file's suffix: the platform, the names of its input and output, of its threads.
_SERVED_AS = {
    ".onnx": ("onnxruntime_onnx", "x", "y", "intra_op_thread_count"),
    ".pt": ("pytorch_libtorch", "INPUT__0", "OUTPUT__0", "INTRA_OP_THREAD_COUNT"),
}

_SCALE_CONFIG = """\
backend: "python"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]
instance_group [ { count: 1 kind: KIND_CPU } ]
"""
_SCALE = """\
import numpy as np
import triton_python_backend_utils as pb_utils

FACTOR = np.float32(%d)


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([self.scaled(r)]) for r in requests]

    def scaled(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        return pb_utils.Tensor("y", x * FACTOR)
"""


def scale(folder: Path, *, factor: int) -> None:
    """Write (or change) a Python model that needs numpy only: x (n, 4) → y = factor x."""
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / "config.pbtxt").write_text(_SCALE_CONFIG)
    (folder / "1" / "model.py").write_text(_SCALE % factor)


def one_layer(folder: Path) -> Path:
    """Write a linear layer, (n, 16) → (n, 4) float32, seeded, as ONNX; return the file."""
    return _export(_one_layer(), (FEATURES,), folder / "one_layer.onnx")


def one_layer_torch(folder: Path) -> Path:
    """Write the same layer as TorchScript; return the file."""
    import torch

    file = folder / "one_layer.pt"
    torch.jit.trace(_one_layer(), torch.zeros(1, FEATURES)).save(str(file))
    return file


def three_layers(folder: Path) -> Path:
    """Write a network of 16 → 2048 → 2048 → 4, seeded, as ONNX; return the file.

    An execution reads its 17 MB of weights, whether for one row or for many.
    """
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers = (nn.Linear(FEATURES, WIDE), nn.ReLU(), nn.Linear(WIDE, WIDE), nn.ReLU())
    network = nn.Sequential(*layers, nn.Linear(WIDE, CLASSES))
    return _export(network, (FEATURES,), folder / "three_layers.onnx")


def cnn(folder: Path) -> Path:
    """Write a convolutional network, (n, 3, 64, 64) → (n, 2) float32, seeded; return the file.

    Its width is chosen so that a batch of eight takes about 9 ms on one core of this machine: the
    cost of serving is then compared with the same work everywhere. The time grows with the square
    of the width. The weights are random, because they do not change the time.
    """
    width, file = 1.0, folder / "cnn.onnx"
    for _ in range(2):
        width *= (CNN_S / batch_seconds(_cnn(file, width))) ** 0.5
    return _cnn(file, width)


def batch_seconds(onnx: Path) -> float:
    """The median time of a batch of eight images on one thread of this process, in seconds."""
    run, batch = session(onnx, 1).run, {"x": rows(IMAGE, 8)}
    for _ in range(5):
        run(None, batch)
    times = []
    for _ in range(30):
        began = time.perf_counter()
        run(None, batch)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _cnn(file: Path, width: float) -> Path:
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers: list[nn.Module] = []
    before = IMAGE[0]
    for channels in (48, 96, 128, 128):
        after = max(8, round(channels * width / 8) * 8)  # the vector units work on eight at a time
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        before = after
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 2)]
    return _export(nn.Sequential(*layers), IMAGE, file)


def input_name(file: Path) -> str:
    """The name of a model file's input in its config."""
    return _SERVED_AS[file.suffix][1]


def place(
    repository: Path,
    name: str,
    file: Path,
    dims: tuple[int, ...],
    *,
    batch: int,
    classes: int,
    instances: int,
    more: str = "",
) -> None:
    """Write a model folder that serves an ONNX or TorchScript file.

    Args:
        dims: of the input, without the batch. batch: max_batch_size.
        more: further lines for config.pbtxt.
    """
    version = repository / name / "1"
    version.mkdir(parents=True)
    (version / f"model{file.suffix}").write_bytes(file.read_bytes())
    platform, x, y, threads = _SERVED_AS[file.suffix]
    config = _CONFIG.format(
        platform=platform,
        batch=batch,
        x=x,
        dims=", ".join(map(str, dims)),
        y=y,
        classes=classes,
        instances=instances,
        threads=threads,
        more=more,
    )
    (version.parent / "config.pbtxt").write_text(config)


def session(onnx: Path, threads: int) -> Any:
    """Open the same file in this process, with `threads` threads."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(onnx), options, providers=["CPUExecutionProvider"])


def rows(shape: tuple[int, ...], count: int) -> Array:
    """Seeded inputs in 0..1, float32, shaped (count, *shape)."""
    return np.random.default_rng(0).random((count, *shape), dtype=np.float32)


def _one_layer() -> Any:
    import torch

    torch.manual_seed(0)
    return torch.nn.Linear(FEATURES, CLASSES)


def _export(module: Any, shape: tuple[int, ...], file: Path) -> Path:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            module.eval(),
            (torch.zeros(2, *shape),),
            str(file),
            input_names=["x"],
            output_names=["y"],
            dynamic_axes={"x": {0: "n"}, "y": {0: "n"}},
            dynamo=False,
        )
    return file
