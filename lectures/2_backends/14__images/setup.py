"""For 14__images: the contents of NVIDIA's releases, disk use here, and a small repository.

setup.contents(), setup.changes()     # versions per release, and what changed when
setup.releases()                       # the sizes of two images, one row per release
setup.frameworks()                     # MB on this disk, per framework
models = setup.repository(folder("images"))
"""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.io.formats.style import Styler

from workbook import measure, zoo
from workbook.common import paths
from workbook.lessons import place
from workbook.lessons.workspace import version
from workbook.measure import style

#: The text for a value that no source names, of those that we could read.
NOT_FOUND = "not found"
#: Framework → its Python distributions.
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
#: The config of the ensemble.
HERE = Path(__file__).parent / "models"


def contents() -> pd.DataFrame:
    """List the contents of NVIDIA's images: one row per part, one column per release, the source.

    `lectures/releases.json` has the figures. A figure without a source stays open: `NOT_FOUND`.
    """
    stored = _stored()
    shown: list[str] = stored["shown"]
    rows = {
        name: {release: part["values"].get(release, NOT_FOUND) for release in shown}
        | {"source": part["source"].format(release=shown[-1])}
        for name, part in stored["parts"].items()
    }
    return pd.DataFrame(rows).T


def changes() -> pd.DataFrame:
    """List what each release added, changed or removed: `release`, `what`, `source`."""
    return pd.DataFrame(_stored()["changes"])


def linked(table: pd.DataFrame) -> Styler:
    """Return a table with the addresses in its column `source` as links."""

    def link(address: str) -> str:
        return f'<a href="{address}">{address.rstrip("/").rpartition("/")[2]}</a>'

    style = table.style.format(link, subset=["source"])
    left = {"selector": "th, td", "props": "text-align: left"}
    return style.set_table_styles([left])  # type: ignore[list-item]


def releases() -> pd.DataFrame:
    """List the sizes of the images for language models in GB, one row per release."""
    columns = {f"with {kind}, GB": part["values"] for kind, part in _stored()["sizes"].items()}
    return pd.DataFrame(columns).sort_index()


def plot_sizes() -> style.Picture:
    """Draw the sizes of both images over the releases, on one axis."""
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
    """Sum each framework's MB on this disk, from its packages' lists of files; largest first."""
    sizes = {name: sum(map(_size, parts)) / 1e6 for name, parts in _FRAMEWORKS.items()}
    return pd.Series(sizes, name="MB").sort_values(ascending=False)


def plot_frameworks(sizes: pd.Series) -> style.Picture:
    """Draw one bar per framework."""
    return measure.plot_bars(
        sizes.to_frame("on this disk"), title="What each framework takes", below="MB"
    )


def repository(home: Path) -> Path:
    """Make a model repository of five models: two ONNX, one Python, one DALI, and an ensemble.

    Raises:
        BuildError: the weights of a model could not be built.
    """
    zoo.repository.build(only=list(MODELS), bar=False)
    for name in MODELS:
        shutil.copytree(paths.repository() / name, home / name, dirs_exist_ok=True)
    version(home, "pair")
    place(home, HERE / "pair")
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


@functools.cache
def _stored() -> Any:
    """Read the data on NVIDIA's releases from lectures/releases.json."""
    return json.loads((paths.root() / "lectures" / "releases.json").read_text("utf-8"))


def _size(distribution: str) -> int:
    """Return the bytes of an installed distribution's files; 0 if it is not installed."""
    try:
        files: Iterable[metadata.PackagePath] = metadata.files(distribution) or ()
    except metadata.PackageNotFoundError:
        return 0
    return sum(
        path.stat().st_size for file in files if (path := Path(str(file.locate()))).is_file()
    )
