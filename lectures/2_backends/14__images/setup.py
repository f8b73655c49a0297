"""For 14__images: the contents of NVIDIA's releases, and a small repository.

setup.contents(), setup.changes()     # versions per release, and what changed when
setup.releases()                       # the sizes of two images, one row per release
models = setup.repository(folder("images"))
"""

from __future__ import annotations

import functools
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
from IPython.display import HTML

from workbook import zoo
from workbook.common import paths
from workbook.lessons import place
from workbook.lessons.workspace import version
from workbook.measure import style

#: The text for a value that no source names, of those that we could read.
NOT_FOUND = "not found"
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
    """List what each release added, changed or removed: `what` and `source`, by release."""
    return pd.DataFrame(_stored()["changes"]).set_index("release")


def linked(table: pd.DataFrame) -> HTML:
    """Return a table with the addresses in its column `source` as links, and all text at the left.

    JupyterLab shows the cells and headers of a table at the right, unless each says otherwise.
    """

    def link(address: str) -> str:
        return f'<a href="{address}">{address.rstrip("/").rpartition("/")[2]}</a>'

    text = table.to_html(formatters={"source": link}, escape=False, index_names=False)
    left = re.sub(r"<(t[hd])>", r'<\1 style="text-align: left">', text)
    return HTML(left)  # type: ignore[no-untyped-call]


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


@functools.cache
def _stored() -> Any:
    """Read the data on NVIDIA's releases from lectures/releases.json."""
    return json.loads((paths.root() / "lectures" / "releases.json").read_text("utf-8"))
