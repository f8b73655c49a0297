"""The syllabus: all lectures and assignments, with the minutes that each one's header names."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from IPython.display import Markdown

from .. import notebooks
from ..common import paths

#: The folders of the lectures. One that does not exist yet is listed as "to come".
LECTURES = ("1_architecture", "2_backends", "3_acceleration")


@dataclasses.dataclass(frozen=True)
class Route:
    """What to take if the time is short.

    Attributes:
        hours: the time that it takes at most, after `00__start`.
        goal: what one can do afterwards.
        names: notebooks, whole folders of lectures, and assignments.
    """

    hours: int
    goal: str
    names: tuple[str, ...]


ROUTES = (
    Route(
        2,
        "say what Triton does with requests",
        ("01__first_model", "03__schedulers", "05__dynamic_batcher"),
    ),
    Route(
        4,
        "serve a text classifier of your own, which answers in batches",
        ("01__first_model", "05__dynamic_batcher", "02__python", "a1__classifier"),
    ),
    Route(
        4,
        "serve a forest of your own, batched, in two versions",
        (
            "01__first_model",
            "05__dynamic_batcher",
            "07__model_repository_manager",
            "08__fil",
            "a2__forest",
        ),
    ),
    Route(
        8,
        "choose how to serve a model, and make it faster by measuring",
        (
            "01__first_model",
            "03__schedulers",
            "05__dynamic_batcher",
            "07__model_repository_manager",
            "08__metrics",
            "02__python",
            "05__onnxruntime",
            "08__fil",
            "a2__forest",
            "01__point_a",
            "02__instances",
            "03__batching",
            "11__tuning",
        ),
    ),
)


@dataclasses.dataclass(frozen=True)
class Entry:
    """A lecture or an assignment.

    Attributes:
        folder: e.g. `1_architecture`; for an assignment `assignments`.
        name: e.g. `01__first_model`, or `a2__forest`.
        title: the title in its header.
        minutes: how long it takes.
        link: its notebook, relative to the folder of the start, `lectures/00__start/`.
    """

    folder: str
    name: str
    title: str
    minutes: float
    link: str


def entries(home: Path | None = None) -> list[Entry]:
    """The lectures and assignments of a checkout, in their order.

    Raises:
        WorkbookError: a source cannot be read.
    """
    home = home or paths.root()
    found = []
    for path in sorted(home.glob("lectures/[0-9]_*/[0-9][0-9]__*/lesson.py")):
        folder, name = path.parts[-3:-1]
        link = f"../{folder}/{name}/{name}.ipynb"
        found.append(_entry(notebooks.read(path).header, folder, name, link))
    for path in sorted(home.glob("assignments/a[0-9]__*/a[0-9].ipynb")):
        # Students do not have its source; the builder copies the header into the notebook.
        header = json.loads(path.read_text("utf-8"))["metadata"].get("workbook", {})
        link = f"../../assignments/{path.parent.name}/{path.name}"
        found.append(_entry(header, "assignments", path.parent.name, link))
    return found


def heading(folder: str) -> str:
    """The title of a folder of notebooks: `1_architecture` → `Lecture 1: architecture`."""
    number, _, name = folder.rpartition("_")
    return f"Lecture {number}: {name}" if number else name.capitalize()


def table() -> Markdown:
    """A table for a notebook: every lecture and assignment, with links and minutes per folder."""
    lines = ["| notebook | minutes |", "|---|---:|"]
    by_folder: dict[str, list[Entry]] = {folder: [] for folder in LECTURES}
    for entry in entries():
        by_folder.setdefault(entry.folder, []).append(entry)
    for folder, own in by_folder.items():
        minutes = f"**{sum(entry.minutes for entry in own):g}**" if own else "to come"
        lines.append(f"| **{heading(folder)}** | {minutes} |")
        lines += [f"| [{e.title}]({e.link}) | {e.minutes:g} |" for e in own]
    return Markdown("\n".join(lines))  # type: ignore[no-untyped-call]


def take(route: Route) -> list[Entry]:
    """The notebooks of a route, in the order in which to take them.

    Raises:
        WorkbookError: a source cannot be read.
    """
    known = entries()
    return [e for name in route.names for e in known if name in (e.name, e.folder)]


def routes() -> Markdown:
    """A table for a notebook: what to take in 2, 4 or 8 hours after the start."""
    lines = ["| time | afterwards you can | take, in this order | minutes |", "|---|---|---|---:|"]
    for route in ROUTES:
        way = take(route)
        links = ", ".join(f"[{each.title}]({each.link})" for each in way)
        minutes = sum(each.minutes for each in way)
        lines.append(f"| {route.hours}\u00a0hours | {route.goal} | {links} | {minutes:g} |")
    return Markdown("\n".join(lines))  # type: ignore[no-untyped-call]


def _entry(header: Mapping[str, Any], folder: str, name: str, link: str) -> Entry:
    return Entry(folder, name, str(header.get("title", name)), header.get("minutes", 0), link)
