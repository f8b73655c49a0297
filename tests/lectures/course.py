"""Read what the tests of lectures check: sources, built notebooks, cells, calls, headings."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from tests import sources
from workbook.common import paths
from workbook.notebooks import Cell, building

HOME = paths.root() / "lectures"
LECTURES = [lecture.source for lecture in building.lectures()]
TOPICS = [path for path in LECTURES if path.parent.parent != HOME]

#: The notebooks that `make test` runs: one of lecture 1, one of lecture 2.
QUICK = ("01__first_model", "08__fil")

each_lecture = pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.quick] * (path.parent.name in QUICK))
        for path in LECTURES
    ],
    ids=lambda path: path.parent.name,
)
each_topic = pytest.mark.parametrize("path", TOPICS, ids=lambda path: path.parent.name)


def built(path: Path) -> Any:
    return nbformat.read(building.Lecture(path).built, as_version=4)  # type: ignore[no-untyped-call]


def texts(path: Path) -> list[Cell]:
    return [cell for cell in sources.read(path).cells if cell.type == "markdown"]


def codes(path: Path) -> list[Cell]:
    return [cell for cell in sources.read(path).cells if cell.type == "code"]


def parsed(cell: Cell) -> ast.Module:
    """A code cell's Python; a cell magic's body is another file, line magics are left out."""
    if cell.source.startswith("%%"):
        return ast.Module([], [])
    return ast.parse(re.sub(r"(?m)^(\s*)[%!].*$", r"\1pass", cell.source))


def calls(path: Path, *names: str) -> list[ast.Call]:
    """The calls of these functions, in their order."""
    return [
        node
        for cell in codes(path)
        for node in ast.walk(parsed(cell))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in names
    ]


def keys(path: Path, *names: str) -> list[str]:
    """The first arguments of the calls of these functions."""
    return [str(ast.literal_eval(call.args[0])) for call in calls(path, *names)]


def proofs(path: Path) -> list[str]:
    """The ids of a lecture's claims and tasks."""
    ids = [
        word.value for call in calls(path, "claim") for word in call.keywords if word.arg == "id"
    ]
    return [str(ast.literal_eval(id)) for id in ids] + keys(path, "task")


def headings(path: Path) -> list[str]:
    """The headings of a notebook, in their order."""
    prose = "\n".join(cell.source for cell in texts(path))
    prose = re.sub(r"(?ms)^```.*?^```", "", prose)
    return [heading.strip() for heading in re.findall(r"(?m)^#+ (.+)$", prose)]


def parse_config(text: str) -> Any:
    """A config as the server's own parser reads it."""
    return text_format.Parse(text, model_config_pb2.ModelConfig())  # type: ignore[attr-defined]
