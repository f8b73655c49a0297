"""`workbook lab` as a reader sees it: JupyterLab in Chromium, opened on the reader's own copy."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import browser
import httpx
import nbformat
import pytest
from browser import Browser

from tests import sources
from workbook import assignments, notebooks
from workbook.common import paths
from workbook.lab.reader_copy import update
from workbook.notebooks import building
from workbook.notebooks.hide_words import carried, encode
from workbook.notebooks.source import dotted

SOURCES = sorted((paths.root() / "lectures").glob("**/lesson.py"))
NAMES = "[...document.querySelectorAll('.jp-DirListing-itemText')].map(e => e.textContent.trim())"
COURSE = ("lectures", "assignments", "model_repository/square", ".gitignore")

#: The texts in a notebook's outputs with too little contrast: (text, ratio). Words need 4.5:1 (WCAG
#: 2.2, 1.4.3), single signs 3:1 (1.4.11). Opacity mixes a colour with its background. In a drawing
#: the bar below a text is its background.
FAINT = """
const parts = text => (text.match(/[\\d.]+/g) || []).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
  .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const faint = [];
for (const output of document.querySelectorAll('.jp-Notebook .jp-OutputArea-output')) {
  const texts = document.createTreeWalker(output, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.data.trim(), own = texts.currentNode.parentElement;
    if (!text || !own.getClientRects().length || own.closest('[disabled], style, script')) continue;
    let clear = 1, ground = own;
    while (ground && (parts(getComputedStyle(ground).backgroundColor)[3] ?? 1) === 0) {
      clear *= Number(getComputedStyle(ground).opacity);
      ground = ground.parentElement;
    }
    const look = getComputedStyle(own), drawn = own.closest('svg');
    const {x, y, width, height} = own.getBoundingClientRect();
    const bar = drawn && document.elementsFromPoint(x + width / 2, y + height / 2).find(e =>
      drawn !== e && drawn.contains(e) && !e.closest('text')
      && getComputedStyle(e).fill.startsWith('rgb'));
    const below = parts(bar ? getComputedStyle(bar).fill
      : getComputedStyle(ground || document.body).backgroundColor);
    const [r, g, b, a] = parts(drawn ? look.fill : look.color);
    const seen = [r, g, b].map((v, i) => v * (a ?? 1) * clear + below[i] * (1 - (a ?? 1) * clear));
    const [low, high] = [light(seen), light(below)].sort((x, y) => x - y);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < (text.length > 1 ? 4.5 : 3)) faint.push([text, ratio]);
  }
}
return faint;
"""

needs_browser = pytest.mark.skipif(bool(browser.MISSING), reason=browser.HOW)


def course(home: Path) -> Path:
    """The course with one model, its notebooks built from their sources, committed."""
    for name in COURSE:
        source, target = paths.root() / name, home / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
        else:
            shutil.copy(source, target)
    for path in SOURCES:
        built = home / building.Lecture(path).built.relative_to(paths.root())
        built.write_text(notebooks.text(building.page(path)), "utf-8")
    git(home, "init", "-q")
    commit(home)
    return home


def git(home: Path, *words: str) -> str:
    who = ("-c", "user.name=Reader", "-c", "user.email=reader@example.org")
    command = ["git", *who, "-C", str(home), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def commit(home: Path) -> None:
    git(home, "add", ".")
    git(home, "commit", "-qm", "The course")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's copy of the whole course."""
    home = tmp_path_factory.mktemp("copied")
    for name in ("lectures", "assignments"):
        shutil.copytree(paths.root() / name, home / name)
    update(home)
    return home / "work"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.parent.name)
def test_every_link_and_image_of_a_lecture_is_in_the_copy(path: Path, work: Path) -> None:
    copy = work / path.relative_to(paths.root())
    text = "\n".join(c.source for c in sources.read(path).cells if c.type == "markdown")
    for pair in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", text):
        target = "".join(pair).partition("#")[0]
        if target and "://" not in target:
            assert (copy.parent / target).is_file(), target


@dataclass
class Lab:
    """A running `workbook lab`: its checkout, and addresses with its token."""

    home: Path
    base: str
    token: str
    output: str

    def page(self, path: str) -> str:
        """The address that opens a file, without the files that were open before."""
        return f"{self.base}/lab/tree/{path}?token={self.token}&reset"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    home = course(tmp_path_factory.mktemp("lab") / "course")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = tmp_path_factory.mktemp("jupyter")  # the user's own settings are not changed
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_")}
    environment |= {"WORKBOOK_HOME": str(home), "JUPYTER_CONFIG_DIR": str(settings)}
    ports = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
    process = subprocess.Popen(
        [sys.executable, "-m", "workbook.cli", "lab", "--no-browser", "--port", str(port), *ports],
        env=environment,
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output = ""
    try:
        assert process.stdout is not None
        while not (found := re.search(r"(http://127\.0\.0\.1:\d+)/lab\S*token=(\w+)", output)):
            line = process.stdout.readline()
            assert line, output
            output += line
        yield Lab(home, found[1], found[2], output)
    finally:
        process.terminate()
        process.communicate(timeout=60)


def code_cells(path: Path) -> list[Any]:
    """The code cells of a notebook, which JupyterLab may be writing at this moment."""
    while True:
        with contextlib.suppress(nbformat.reader.NotJSONError):
            notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
            return [cell for cell in notebook.cells if cell.cell_type == "code"]
        time.sleep(0.1)


def opened(window: Browser, lab: Lab, path: str, heading: str) -> None:
    """Open a notebook, and wait until its first heading and its kernel are there."""
    window.open(lab.page(path))
    window.until("return document.body.innerText.includes(arguments[0])", heading)
    window.until("return !!document.querySelector('.jp-Notebook-ExecutionIndicator')")


@pytest.mark.server
@needs_browser
@pytest.mark.timeout(900)  # a browser on a busy machine
def test_a_reader_s_first_session(lab: Lab, tmp_path: Path) -> None:
    assert re.search(r"\d+ files of the course were copied into work/", lab.output)
    with Browser(tmp_path / "profile") as window:
        # The page that opens is the start, and nothing but the copy is to be seen.
        opened(window, lab, "lectures/00__start/00__start.ipynb", "Triton Workbook")
        shown = window.until(f"const names = {NAMES}; return names.length > 1 && names")
        assert set(shown) == {
            *("00__start.ipynb", "setup.py", "task.py", "architecture.svg", "at_work")
        }
        window.click("//*[contains(@class, 'jp-BreadCrumbs-home')]")
        window.until(f"return {NAMES}.sort().join() === 'assignments,lectures'")

        # Every cell runs; the shared server is the one that `workbook lab` started.
        window.menu("Run", "Run All Cells")
        window.until("return document.body.innerText.includes('Lecture 1: architecture')")
        # A collapsed cell has no prompt.
        cells = "[...document.querySelectorAll('.jp-Notebook .jp-CodeCell .jp-InputPrompt')]"
        window.until(f"return {cells}.every(e => /^(\\[\\d+\\]:)?$/.test(e.textContent.trim()))")

        # A link of the syllabus opens a lecture in the copy, with its image.
        window.click("//td/a[contains(@href, '01__first_model')]")
        window.until("return document.title.startsWith('01__first')")
        # JupyterLab draws only what is visible: scroll down until an image is.
        window.until(
            "document.querySelectorAll('.jp-WindowedPanel-outer').forEach(e => e.scrollBy(0, 300));"
            "const images = [...document.querySelectorAll('.jp-Notebook img')];"
            "return images.some(image => image.naturalWidth)"
        )

        # After saving, it is in the copy, and git does not see it.
        window.menu("File", "Save All")
        copy = lab.home / "work/lectures/00__start/00__start.ipynb"
        deadline = time.monotonic() + 60
        while not all(cell.execution_count for cell in code_cells(copy)):
            assert time.monotonic() < deadline, "the notebook was not saved"
            time.sleep(0.2)
        outputs = [output for cell in code_cells(copy) for output in cell.outputs]
        assert not [output for output in outputs if output.output_type == "error"]
        assert any("[[1.0], [4.0], [9.0]" in str(output) for output in outputs), outputs
        assert git(lab.home, "status", "--porcelain") == ""

        # The course changes; one click opens the old outputs.
        original = lab.home / "lectures/00__start/00__start.ipynb"
        original.write_text(original.read_text().replace("# Triton Workbook", "# A new start"))
        commit(lab.home)
        (note,) = update(lab.home).notes
        opened(window, lab, "lectures/00__start/00__start.ipynb", "A new start")
        window.open(lab.page("course_updates.md"))
        window.until("return document.body.innerText.includes(arguments[0])", note.links[0])
        window.click("//a[.='00__start.ipynb' and contains(@href, 'history')]")
        first = str(outputs[0].text).strip()  # the server's address and version
        window.until("return document.body.innerText.includes(arguments[0])", first)
    assert git(lab.home, "status", "--porcelain") == ""


@pytest.mark.server
@needs_browser
@pytest.mark.alone  # it waits for what a page draws while it is idle
@pytest.mark.usefixtures("by_itself")
@pytest.mark.timeout(900)
def test_predictions_and_tasks_answer_to_clicks_in_both_themes(lab: Lab, tmp_path: Path) -> None:
    source = building.page(paths.root() / "lectures/00__start/lesson.py")
    texts = carried(source)  # this copy's own; those of 00__start.ipynb beside it are others
    texts["predict"]["start.square"]["question"] = "How many executions, in your own words?"
    source.metadata.workbook["words"] = encode(texts)
    copy = lab.home / "work/lectures/00__start/try.ipynb"
    copy.write_text(notebooks.text(source), "utf-8")
    shows = "return document.body.innerText.includes(arguments[0])"
    with Browser(tmp_path / "profile", size=(1280, 9000)) as window:  # all cells are in sight
        opened(window, lab, "lectures/00__start/try.ipynb", "Triton Workbook")
        window.menu("Run", "Run All Cells")
        window.until(shows, "nothing yet: answer the question above", seconds=300)
        window.until(shows, "How many executions, in your own words?")
        window.until(shows, "3 rows in one request are 3 inferences in one execution.")  # a claim

        # A click on an option changes the earlier comparison.
        window.click("//label[.='3, one per row']")
        window.until(shows, "✓ remembered: 3, one per row")
        window.until(shows, "Not what you said.")
        window.click("//label[.='1']")
        window.until(shows, "You were right.")

        # A task has hints, and checks the server.
        window.until(shows, "Not yet: Its executions so far had")
        window.click("//button[contains(., 'Hint 1 of 2')]")
        window.until(shows, "The cell with numbers = [1, 2, 3] sends three rows.")
        assert window.run(FAINT) == []
        window.menu("Settings", "Theme", "JupyterLab Dark")
        window.until("return document.body.dataset.jpThemeLight === 'false'")
        assert window.run(FAINT) == []

        # Its button works after the page was opened again, with the same running kernel.
        window.menu("File", "Save All")
        window.until("return !document.querySelector('.jp-mod-dirty')")
        assert carried(json.loads(copy.read_bytes())) == texts
        opened(window, lab, "lectures/00__start/try.ipynb", "Triton Workbook")
        window.until(shows, "Not yet: Its executions so far had")
        rows = {"name": "INPUT", "shape": [5, 1], "datatype": "FP32", "data": [1, 2, 3, 4, 5]}
        url = re.search(r"HTTP\s+(\S+)", lab.output)
        assert url, lab.output
        answer = httpx.post(f"{url[1]}/v2/models/square/infer", json={"inputs": [rows]}, timeout=60)
        assert answer.is_success, answer.text
        window.click("//button[contains(., 'Look again')]")
        window.until(shows, "✓ Done Let square compute five rows in one execution.")


#: What the notebook of the next test draws, one kind of figure or table per cell.
KINDS = """
import pandas as pd
from workbook import measure
from workbook.lessons import Premise, compare_curve, simulator, slots
table = pd.DataFrame({"model": ["square", "digits_onnx"], "ms": [1.5, 20.25]}, index=["a", "b"])
table
# %%
measure.plot_bars(table[["ms"]], title="Where the time goes", below="ms")
# %%
config = {"name": "m", "max_batch_size": 4, "instance_group": [{"count": 4, "kind": "KIND_CPU"}]}
plan = measure.every(1, 60)
model = simulator.from_config({**config, "dynamic_batching": {}})
result = simulator.simulate(model, plan, duration_ms=20)
measure.plot_timeline(result.spans, title="Sixty requests")
# %%
slots.draw(measure.executions(result.spans), most=4)
# %%
compare_curve("figures.curve", [1, 2, 4], [1, 3, 7], premise=Premise(True, ""))
"""
#: Each drawing of the page: its height, and how light the ground below it is, from 0 to 1.
DRAWINGS = r"""
return [...document.querySelectorAll('.jp-OutputArea-output svg[role=img]')].map(svg => {
  let ground = svg;
  while (ground && getComputedStyle(ground).backgroundColor === 'rgba(0, 0, 0, 0)')
    ground = ground.parentElement;
  const [red] = getComputedStyle(ground || document.body).backgroundColor.match(/\d+/g);
  return {high: svg.getBoundingClientRect().height, light: red / 255};
});
"""


@pytest.mark.server
@needs_browser
@pytest.mark.timeout(900)
def test_figures_and_tables_follow_the_theme(lab: Lab, tmp_path: Path) -> None:
    source = nbformat.read(lab.home / "lectures/00__start/00__start.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    source.cells = [nbformat.v4.new_code_cell(text) for text in KINDS.strip().split("\n# %%\n")]  # type: ignore[no-untyped-call]
    (lab.home / "work/figures.ipynb").write_text(notebooks.text(source), "utf-8")
    with Browser(tmp_path / "profile", size=(1280, 5000)) as window:  # all cells are in sight
        opened(window, lab, "figures.ipynb", "measure.plot_bars")
        window.menu("Run", "Run All Cells")
        window.until(f"return (() => {{{DRAWINGS}}})().length === 4", seconds=300)
        for theme, dark in (("JupyterLab Light", False), ("JupyterLab Dark", True)):
            window.menu("Settings", "Theme", theme)
            window.until(f"return document.body.dataset.jpThemeLight === '{str(not dark).lower()}'")
            assert window.run(FAINT) == []
            drawings = window.run(DRAWINGS)
            assert {drawing["light"] < 0.2 for drawing in drawings} == {dark}, drawings
            # The legend and the last row are seen at the same time.
            assert max(drawing["high"] for drawing in drawings) < 650, drawings
        sides = window.run(
            "return [...document.querySelectorAll('.jp-OutputArea-output tr')]"
            ".map(row => [...row.cells].map(cell => getComputedStyle(cell).textAlign))"
        )
        assert sides == [["left", "left", "right"]] * 3


#: The text of the editor at a place in the page, replaced as by typing.
TYPED = """
const editor = document.querySelectorAll(arguments[0])[arguments[1]]?.querySelector('.cm-content');
if (!editor) return false;
const view = editor.cmTile?.view ?? editor.cmView?.view ?? editor.cmView?.rootView?.view;
view.dispatch({changes: {from: 0, to: view.state.doc.length, insert: arguments[2]}});
return true;
"""


def solutions(source: Path) -> dict[str, str]:
    """The text that a student writes into an assignment's cells, by the cell's id."""
    return {
        cell.id: "\n".join(
            line for line in cell.source.splitlines() if not line.lstrip().startswith("###")
        )
        for cell in sources.read(source).cells
        if cell.kind == "solution"
    }


def edit(window: Browser, page: str, file: Path, text: str) -> None:
    """Open a file in JupyterLab's editor, replace its text and save it.

    Args:
        page: the editor's address.
        file: the same file on the disk.
        text: what is written.
    """
    first = next(line.strip() for line in file.read_text("utf-8").splitlines() if line.strip())
    window.open(page)
    window.until("return document.body.innerText.includes(arguments[0])", first)
    window.until(TYPED, ".jp-FileEditor", 0, text)
    window.until("return !!document.querySelector('.jp-mod-dirty')")
    window.menu("File", "Save All")
    deadline = time.monotonic() + 60
    while file.read_text("utf-8") != text:
        assert time.monotonic() < deadline, "the file was not saved"
        time.sleep(0.2)


@pytest.mark.server
@needs_browser
@pytest.mark.alone  # models are batched and delays measured
@pytest.mark.usefixtures("by_itself")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("short", "title"),
    [
        pytest.param("a1", "Assignment 1: a classifier from Hugging Face", marks=pytest.mark.long),
        ("a2", "Assignment 2: a forest on FIL"),
    ],
)
def test_a_student_s_way_through_an_assignment(
    short: str, title: str, lab: Lab, tmp_path: Path
) -> None:
    """Edits the files and fills the cells in JupyterLab, runs them, reads the checks, submits.

    `make test` follows one student, who edits more files; `make mutants` also the other one, whose
    models take longer.
    """
    assignment = assignments.named(short)
    work = lab.home / "work/assignments" / assignment.name
    inside = f"assignments/{assignment.name}"
    notebook = nbformat.read(work / f"{short}.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    ids = [c.metadata.get("nbgrader", {}).get("grade_id", "") for c in notebook.cells]
    answers = solutions(assignment.source)
    with Browser(tmp_path / "profile", size=(1280, 24_000)) as window:  # all cells are in sight
        for solved in sorted(p for p in assignment.solution.rglob("*") if p.is_file()):
            name = solved.relative_to(assignment.solution)
            copy, text = work / name, solved.read_text("utf-8")
            if not copy.exists():  # a file that the student makes
                copy.write_text(text, "utf-8")
            elif copy.read_text("utf-8") != text:
                edit(window, lab.page(f"{inside}/{name}"), copy, text)

        opened(window, lab, f"{inside}/{short}.ipynb", title)
        # nbgrader's own buttons and menus are for instructors.
        assert "Validate" not in window.text()
        assert "Nbgrader" not in window.text()
        cells = ".jp-Notebook .jp-Cell"
        window.until(
            f"return document.querySelectorAll({cells!r}).length === {len(ids)}", seconds=300
        )
        for place, id in enumerate(ids):
            if (source := answers.get(dotted(id))) is not None:
                window.until(TYPED, cells, place, source)
        window.menu("Run", "Run All Cells")
        passed = "return (document.body.innerText.match(/✓ passed/g) || []).length"
        window.until(f"{passed} === {len(assignment.checks)}", seconds=300)
        window.menu("File", "Save All")
        window.until("return !document.querySelector('.jp-mod-dirty')")
    handed_in = subprocess.run(
        [sys.executable, "-m", "workbook.cli", "submit", short, "--no-run"],
        env={**os.environ, "WORKBOOK_HOME": str(lab.home), "COLUMNS": "200"},
        cwd=lab.home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert handed_in.returncode == 0, handed_in.stderr
    assert "not begun" in handed_in.stderr  # the answers in words
    with zipfile.ZipFile(work / f"{assignment.name}.zip") as packed:
        names = packed.namelist()
    files = (p for p in assignment.solution.rglob("*") if p.is_file())
    assert {f"{short}.ipynb", *(str(p.relative_to(assignment.solution)) for p in files)} <= {*names}
