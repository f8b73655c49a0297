"""For 14__images: the contents of NVIDIA's releases, and a small repository.

setup.releases()                       # versions per release, and what changed when
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

#: The text for a value that no source names, of those that we could read.
NOT_FOUND = "not found"
#: The parts that are shown first.
MAIN = ("Triton", "ONNX Runtime", "OpenVINO", "TensorFlow backend", "vLLM", "TensorRT-LLM")
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
    return HTML(_left(text))  # type: ignore[no-untyped-call]


def releases() -> HTML:
    """Return the parts on which models depend most, and folds with all parts and all changes."""
    everything = contents()
    few = everything.loc[list(MAIN), [*_stored()["shown"][::2]]]
    return HTML(  # type: ignore[no-untyped-call]
        _left(few.to_html())
        + _fold("All parts, all releases of the table, and their sources", linked(everything))
        + _fold("What came and what went, from release to release", linked(changes()))
    )


def _fold(title: str, table: HTML) -> str:
    return f"<details><summary>{title}</summary>{table.data}</details>"


def _left(table: str) -> str:
    """Put all text of a table at the left."""
    return re.sub(r"<(t[hd])>", r'<\1 style="text-align: left">', table)


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
