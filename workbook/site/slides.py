"""Slides of a lecture for whoever presents it, made from its executed copy.

    from workbook.site import executed, slides

    slides.write(executed.copy_of(source), Path("slides.html"))

The slides are the lecture's question, each prediction as a poll, what this run measured, the
reader's task, and what to remember. The file needs no other file and no network. (nbconvert's own
slides load reveal.js, require.js and MathJax from other sites, and show every cell.)
"""

from __future__ import annotations

import re
from collections.abc import Collection
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt
from nbformat import NotebookNode

from ..common import paths
from ..common.errors import WorkbookError
from ..lessons.cards import SHOWS, Card, as_html
from ..notebooks import building
from .pages import links

_PAGE = Path(__file__).with_name("slides.html")
_FIGURE, _TABLE = re.compile(r"<svg\b"), re.compile(r"<table[^>]*\bdataframe\b")
_RUN = "Figures: one run of this notebook, on the machine that made these slides."
#: How many of the last lines of a printed output are shown, where there is no figure.
_LINES = 12


def html(node: NotebookNode) -> str:
    """The slides of a lecture as one HTML file.

    Args:
        node: the executed notebook.
    """
    slides = _slides(node)
    title = re.sub("<[^>]+>", "", slides[0].partition("</h1>")[0])
    sections = [f'<section id="{number}">{one}</section>' for number, one in enumerate(slides, 1)]
    before, _, after = _PAGE.read_text("utf-8").replace("TITLE", title).partition("SLIDES")
    return before + "\n".join(sections) + after


def write(node: NotebookNode, file: Path) -> Path:
    """Write the slides of an executed lecture into a file; returns it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(html(node), "utf-8")
    return file


def sources(names: Collection[str]) -> list[Path]:
    """The sources of lectures by their names; of all lectures where there is no name.

        sources(["1/05", "08__fil"])

    Raises:
        WorkbookError: there is no such lecture.
    """
    found = {lecture.source.parent: lecture.source for lecture in building.lectures()}
    for name in names:
        if not any(_is_named(folder, name) for folder in found):
            raise WorkbookError(
                f"There is no lecture {name}.",
                where=str(paths.root() / "lectures"),
                todo="Write it as 1/05, or as its folder is called: 05__dynamic_batcher.",
            )
    chosen = [one for one in found if not names or any(_is_named(one, name) for name in names)]
    return [found[folder] for folder in chosen]


def _is_named(folder: Path, name: str) -> bool:
    """Whether `1/05` or `05__dynamic_batcher` stands for a lecture's folder."""
    return name in (folder.name, f"{folder.parent.name[0]}/{folder.name.partition('__')[0]}")


def _slides(node: NotebookNode) -> list[str]:
    """The slides, each as HTML."""
    found = [_first(node)]
    # Predictions without an answer yet, and the outputs since then.
    open_polls: dict[str, list[NotebookNode]] = {}
    heading = ""
    for cell in node.cells:
        if cell.cell_type == "markdown":
            heading = _heading(cell.source) or heading
            if heading == "What to remember" and _heading(cell.source):
                found.append(_markdown(cell.source))
            continue
        for output in cell.get("outputs", []):
            for outputs in open_polls.values():
                outputs.append(output)
            about = _about(output)
            if "predict" in about:
                open_polls[about["predict"]] = []
                found.append(_poll(heading, output))
            if "task" in about:
                found.append(_task(output))
        for key in {_about(output).get("compare", "") for output in cell.get("outputs", [])}:
            if key in open_polls:
                found.append(_result(heading, open_polls.pop(key)))
    return found


def _first(node: NotebookNode) -> str:
    """The title and the question of a lecture."""
    text = node.cells[0].source
    title, _, rest = text.partition("\n")
    question = next((part for part in rest.split("\n\n") if "**Question.**" in part), "")
    first = _markdown(f"{title}\n\n{question.replace('**Question.** ', '')}")
    return f"{first}<p><small>{_RUN}</small></p>"


def _poll(heading: str, output: NotebookNode) -> str:
    """A prediction: the question, and the options with letters to vote for."""
    first, *lines = [line.strip() for line in output.data["text/plain"].splitlines()]
    options = [f"<li>{as_html(line[2:])}</li>" for line in lines if line.startswith("○ ")]
    others = [f"<p>{as_html(line)}</p>" for line in lines if not line.startswith("○ ")]
    question = f'<p class="question">{as_html(first.partition(": ")[2])}</p>'
    choice = ["<ol>", *options, "</ol>"] if options else []
    return "".join([f"<h2>{as_html(heading)}</h2>", question, *choice, *others])


def _result(heading: str, outputs: list[NotebookNode]) -> str:
    """What was measured since the question: the last figure, table or print; then the cards."""
    tables = [data for data in map(_as_html, outputs) if _TABLE.search(data)]
    figures = [one for one in map(_figure, outputs) if one] or tables
    printed = "".join(one.text for one in outputs if one.output_type == "stream")
    last = "\n".join(printed.splitlines()[-_LINES:])
    cards = [_as_html(output) for output in outputs if _says_something(output)]
    shown = figures[-1] if figures else f"<pre>{escape(last)}</pre>" if last else ""
    return "".join([f"<h2>{as_html(heading)}</h2>", shown, *cards])


def _says_something(output: NotebookNode) -> bool:
    """Whether an output is a card of a comparison or of a claim, with more than its title."""
    card = {"compare", "claim"} & {*_about(output)} and not _figure(output)
    return bool(card) and output.data["text/plain"].strip() != str(Card(SHOWS, "Compare", ""))


def _task(output: NotebookNode) -> str:
    """The task of the reader's own, without the state in which this run left it."""
    sentence = output.data["text/plain"].splitlines()[0].partition(": ")[2]
    return f'<h2>Your turn</h2><p class="question">{as_html(sentence)}</p>'


def _figure(output: NotebookNode) -> str:
    """A figure as HTML; "" for another output."""
    if _FIGURE.search(_as_html(output)):
        return _as_html(output)
    data = output.get("data", {})
    if "image/png" in data:
        text = escape(data.get("text/plain", ""), quote=True)
        return f'<img src="data:image/png;base64,{data["image/png"].strip()}" alt="{text}">'
    return ""


def _as_html(output: NotebookNode) -> str:
    return str(output.get("data", {}).get("text/html", ""))


def _about(output: NotebookNode) -> dict[str, str]:
    """The name that a card belongs to, by `predict`, `compare`, `claim` or `task`."""
    return dict(output.get("metadata", {}).get("workbook", {}))


def _heading(text: str) -> str:
    """The last heading of a text cell; "" if it has none."""
    found = re.findall(r"(?m)^#{1,3} +(.+)$", text)
    return str(found[-1]) if found else ""


def _markdown(text: str) -> str:
    """A text as HTML. Links to files become their text."""
    return str(MarkdownIt("commonmark").enable("table").render(links(text, Path("x"), ())))
