"""Executed copies of the lectures, kept in `.workbook/executed/`.

`workbook site` runs the lectures whose copy is missing or older than their source. The tests keep
copies too, so that after `make test ALL=yes` the site is built without running anything again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from .. import zoo
from ..common import paths
from ..common.errors import WorkbookError
from ..notebooks import building, executing, read, text
from ..server import Triton, all_models

#: How often a lecture may run, and the messages of a false claim, a false premise, and of a report
#: that perf_analyzer has not written: on a busy machine no request may end in its short window.
TRIES = 3
MEASURED = re.compile("This does not hold here|This run does not show it|The report cannot be read")


def folder() -> Path:
    """Where executed copies are kept."""
    return paths.state("executed")


def keep(source: Path, node: NotebookNode, home: Path | None = None) -> Path:
    """Keep an executed lecture.

        keep(source, executing.run(source))

    Args:
        source: the lecture's source, in the checkout.
        node: what `executing.run` returned.
        home: the folder to keep it in; by default `folder()`.

    Returns:
        The copy's path.
    """
    target = _copy(source, home)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text(node), "utf-8")
    return target


def copy_of(source: Path, home: Path | None = None) -> NotebookNode | None:
    """The executed copy of a lecture; None if there is none, or the source has changed since.

        node = copy_of(Path("lectures/1_architecture/01__first_model/lesson.py"))

    Args:
        source: the lecture's source.
        home: as in `keep`.
    """
    target = _copy(source, home)
    if not target.is_file():
        return None
    node: NotebookNode = nbformat.read(target, as_version=4)  # type: ignore[no-untyped-call]
    return node if _content(node) == _content(building.page(source)) else None


def everything(
    home: Path | None = None,
    report: Callable[[str], None] = lambda name: None,
    sources: Sequence[Path] | None = None,
) -> dict[Path, NotebookNode]:
    """The executed copies of lectures; those that are missing are run now.

        site.build(everything(), Path(".workbook/site"))

    Args:
        home: the folder with the copies; by default `folder()`. New ones are kept there too.
        report: called with the name of each lecture that is run.
        sources: the lectures; by default all of them.

    Returns:
        Source → executed notebook, in the order of the course.

    Raises:
        WorkbookError: a cell failed, or a claim did not hold.
        ServerError: the server for the lectures could not start.
    """
    if sources is None:
        sources = [lecture.source for lecture in building.lectures()]
    found = {source: copy_of(source, home) for source in sources}
    missing = [source for source in sources if found[source] is None]
    if missing:
        with shared_server(missing) as environment:
            for source in missing:
                report(source.parent.name)
                found[source] = node = run(source, environment)
                keep(source, node, home)
    return {source: node for source, node in found.items() if node is not None}


def run(source: Path, environment: dict[str, str]) -> NotebookNode:
    """Run a lecture. Run it again if other programs may have disturbed a measurement.

    Raises:
        WorkbookError: a cell failed, or a claim did not hold in `TRIES` runs.
    """
    for _ in range(TRIES - 1):
        try:
            return executing.run(source, environment)
        except WorkbookError as error:
            if not MEASURED.search(str(error)):
                raise
    return executing.run(source, environment)


@contextmanager
def shared_server(sources: Sequence[Path]) -> Iterator[dict[str, str]]:
    """A server on the shared repository with the models that lectures name, on free ports.

        with shared_server([source]) as environment:
            executing.run(source, environment)

    Args:
        sources: the lectures.

    Returns:
        Variables for the kernels, e.g. `TRITON_URL`.

    Raises:
        ServerError: it could not start.
        LoadError: it refused a model.
    """
    repository = paths.root() / "model_repository"
    code = "\n".join(cell.source for source in sources for cell in read(source).cells)
    offered = {*zoo.repository.MODELS, *all_models.names(repository)}  # MODELS are built here
    named = {name for name in offered if re.search(rf"\b{name}\b", code)}
    with Triton(repository) as server:
        for name in sorted(named):  # an ensemble needs its parts
            config = (repository / name / "config.pbtxt").read_text("utf-8")
            named |= set(re.findall(r'model_name: "(\w+)"', config))
        zoo.repository.build(only=sorted(named))
        for error in all_models.load_all(server, sorted(named)).values():
            raise error
        yield {
            "TRITON_URL": server.url,
            "TRITON_GRPC_URL": server.grpc_url,
            "TRITON_METRICS_URL": server.metrics_url,
            "TRITON_REPOSITORY": str(server.repository),
        }


def _content(node: NotebookNode) -> list[str]:
    """What an author wrote: the cells, and the texts that are not in them."""
    return [*(cell.source for cell in node.cells), node.metadata.workbook.get("words", "")]


def _copy(source: Path, home: Path | None) -> Path:
    within = os.path.relpath(building.Lecture(source).built, paths.root() / "lectures")
    return (home or folder()) / within
