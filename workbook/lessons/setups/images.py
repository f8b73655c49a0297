"""For 14__images: what NVIDIA's releases contain, what takes the disk here, a small repository.

images.releases()                       # one row per release, from NVIDIA's matrix
images.frameworks()                     # MB on this disk, per framework
models = images.repository(folder("images"))
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pandas as pd

from ... import measure, zoo
from ...common import paths
from ...measure import style

#: NVIDIA's matrix, read in November 2026: release → ONNX Runtime, vLLM, and the size in GB of the
#: images with vLLM and with TensorRT-LLM (NVIDIA names none of the latter for 26.08).
#: https://github.com/triton-inference-server/server/blob/main/docs/introduction/compatibility.md
_MATRIX = {
    "24.04": ("1.17.3", "0.4.0", 17.0, 34.0),
    "24.07": ("1.18.1", "0.5.0", 19.0, 23.0),
    "24.10": ("1.19.2", "0.5.5", 21.0, 23.3),
    "25.01": ("1.20.1", "0.6.3", 23.0, 30.0),
    "25.03": ("1.21.0", "0.7.3", 22.0, 28.0),
    "25.04": ("1.21.0", "0.8.1", 10.0, 17.0),
    "25.07": ("1.22.0", "0.9.0", 10.0, 18.3),
    "25.10": ("1.23.1", "0.10.2", 8.34, 16.21),
    "26.01": ("1.23.2", "0.13.0", 8.79, 16.17),
    "26.04": ("1.24.4", "0.19.0", 9.09, 14.22),
    "26.07": ("1.27.0", "0.24.0", 10.28, 14.20),
    "26.08": ("1.28.0", "0.27.1", 10.65, None),
}
#: Framework → the distributions whose files it is.
_FRAMEWORKS = {
    "PyTorch": ("torch",),
    "TensorFlow": ("tensorflow", "tensorflow-cpu", "keras"),
    "DALI": ("nvidia-dali-cuda120", "nvidia-nvimgcodec-cu12", "nvidia-nvjpeg-cu12",
             "nvidia-nvjpeg2k-cu12", "nvidia-nvtiff-cu12", "nvidia-libnvcomp-cu12"),
    "ONNX Runtime": ("onnxruntime-gpu", "onnxruntime"),
    "OpenVINO": ("openvino",),
    "XGBoost": ("xgboost", "nvidia-nccl-cu12"),
    "Triton": ("nvidia-pytriton",),
}  # fmt: skip
#: The models of the small repository: each copied from the shared one.
MODELS = ("digits_onnx", "digits_cached", "square", "jpeg_dali")
_PAIR = """\
platform: "ensemble"
max_batch_size: 0
input [ { name: "X" data_type: TYPE_FP32 dims: [ -1, -1 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ -1, -1 ] } ]
ensemble_scheduling { step [ {
  model_name: "square" model_version: -1
  input_map { key: "INPUT" value: "X" } output_map { key: "OUTPUT" value: "Y" }
} ] }
"""


def releases() -> pd.DataFrame:
    """What NVIDIA's images hold, one row per release: versions, and sizes in GB."""
    columns = ["ONNX Runtime", "vLLM", "with vLLM, GB", "with TensorRT-LLM, GB"]
    return pd.DataFrame.from_dict(_MATRIX, orient="index", columns=columns)


def plot_sizes() -> style.Picture:
    """The sizes of both images over the releases, on one axis."""
    table = releases()
    figure = style.Picture(8.4, 2.8, "Sizes of NVIDIA's images with vLLM and with TensorRT-LLM.")
    axes = figure.subplots()
    style.panel(axes, "Size of the image in GB, per release", grid="y")
    for number, (column, mark) in enumerate(
        (("with TensorRT-LLM, GB", "s"), ("with vLLM, GB", "o"))
    ):
        axes.plot(table.index, table[column], marker=mark, color=style.COLOURS[number],
                  label=column.removesuffix(", GB"))  # fmt: skip
    axes.set_ylim(0)
    style.legend(axes, loc="upper right")
    return figure


def frameworks() -> pd.Series:
    """MB on this disk, per framework, largest first: what its packages' lists of files name."""
    sizes = {name: sum(map(_size, parts)) / 1e6 for name, parts in _FRAMEWORKS.items()}
    return pd.Series(sizes, name="MB").sort_values(ascending=False)


def plot_frameworks(sizes: pd.Series) -> style.Picture:
    """One bar per framework."""
    return measure.plot_bars(
        sizes.to_frame("on this disk"), title="What each framework takes", below="MB"
    )


def repository(home: Path) -> Path:
    """A model repository with five models: two ONNX, one Python, one DALI, and an ensemble.

    Raises:
        BuildError: the weights of a model could not be built.
    """
    zoo.repository.build(only=list(MODELS), bar=False)
    for name in MODELS:
        shutil.copytree(paths.repository() / name, home / name, dirs_exist_ok=True)
    (home / "pair" / "1").mkdir(parents=True, exist_ok=True)
    (home / "pair" / "config.pbtxt").write_text(_PAIR, "utf-8")
    return home


def newer(home: Path, version: int) -> None:
    """Write another version number of the ONNX format into a model's file.

    Args:
        home: the folder of a model with `1/model.onnx`.
        version: the number (`ir_version`).
    """
    import onnx

    for file in home.glob("*/model.onnx"):
        model = onnx.load(file)
        model.ir_version = version
        onnx.save(model, file)


def _size(distribution: str) -> int:
    """Bytes of an installed distribution's files; 0 where it is not installed."""
    try:
        files: Iterable[metadata.PackagePath] = metadata.files(distribution) or ()
    except metadata.PackageNotFoundError:
        return 0
    return sum(
        path.stat().st_size for file in files if (path := Path(str(file.locate()))).is_file()
    )
