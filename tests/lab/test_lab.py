"""`workbook lab` as a reader meets it: JupyterLab in Chromium, opened on the reader's own copy."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import browser
import nbformat
import pytest
from browser import Browser

from workbook import notebooks
from workbook.common import paths
from workbook.lab.reader_copy import update

SOURCES = sorted((paths.root() / "lectures").glob("**/[0-9][0-9]__*.py"))
NAMES = "[...document.querySelectorAll('.jp-DirListing-itemText')].map(e => e.textContent.trim())"
COURSE = ("lectures", "assignments", "model_repository/square", ".gitignore")

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
        built = home / path.relative_to(paths.root()).with_suffix(".ipynb")
        built.write_text(notebooks.text(notebooks.notebook(notebooks.read(path))), "utf-8")
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


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_every_link_and_image_of_a_lecture_is_in_the_copy(path: Path, tmp_path: Path) -> None:
    for name in ("lectures", "assignments"):
        shutil.copytree(paths.root() / name, tmp_path / name)
    update(tmp_path)
    copy = tmp_path / "work" / path.relative_to(paths.root())
    text = "\n".join(c.source for c in notebooks.read(path).cells if c.type == "markdown")
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
    said: str

    def page(self, path: str) -> str:
        return f"{self.base}/lab/tree/{path}?token={self.token}"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    home = course(tmp_path_factory.mktemp("lab") / "course")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = tmp_path_factory.mktemp("jupyter")  # the settings of this machine's user stay alone
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
    said = ""
    try:
        assert process.stdout is not None
        while not (found := re.search(r"(http://127\.0\.0\.1:\d+)/lab\S*token=(\w+)", said)):
            line = process.stdout.readline()
            assert line, said
            said += line
        yield Lab(home, found[1], found[2], said)
    finally:
        process.terminate()
        process.communicate(timeout=60)


def code_cells(path: Path) -> list[Any]:
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def opened(window: Browser, lab: Lab, path: str, heading: str) -> None:
    """Open a notebook, and wait until its first heading and its kernel are there."""
    window.open(lab.page(path))
    window.until("return document.body.innerText.includes(arguments[0])", heading)
    window.until("return !!document.querySelector('.jp-Notebook-ExecutionIndicator')")


@needs_browser
@pytest.mark.timeout(900)  # a browser on a busy machine
def test_a_reader_s_first_session(lab: Lab, tmp_path: Path) -> None:
    assert re.search(r"\d+ files of the course were copied into work/", lab.said)
    with Browser(tmp_path / "profile") as window:
        # The page that opens is the start, and nothing but the copy is to be seen.
        opened(window, lab, "lectures/00__start.ipynb", "Triton Workbook")
        shown = window.until(f"const names = {NAMES}; return names.length > 1 && names")
        assert set(shown) == {"1_architecture", "images", "00__start.ipynb"}
        window.click("//*[contains(@class, 'jp-BreadCrumbs-home')]")
        window.until(f"return {NAMES}.sort().join() === 'assignments,lectures'")

        # Every cell runs; the shared server is the one that `workbook lab` started.
        window.click("//div[contains(@class, 'lm-MenuBar-itemLabel') and .='Run']")
        window.click("//li[.//div[.='Run All Cells']]")
        window.until("return document.body.innerText.includes('Lecture 1: architecture')")
        cells = "[...document.querySelectorAll('.jp-Notebook .jp-CodeCell .jp-InputPrompt')]"
        window.until(f"return {cells}.every(e => /^\\[\\d+\\]:$/.test(e.textContent.trim()))")

        # A link of the syllabus opens a lecture in the copy, with its image.
        window.click("//td/a[contains(@href, '01__first_model')]")
        window.until("return document.title.startsWith('01__first')")
        # JupyterLab draws what is in sight: scroll down until an image is.
        window.until(
            "document.querySelectorAll('.jp-WindowedPanel-outer').forEach(e => e.scrollBy(0, 300));"
            "const images = [...document.querySelectorAll('.jp-Notebook img')];"
            "return images.some(image => image.naturalWidth)"
        )

        # Saved, it is in the copy; git sees nothing of it.
        window.click("//div[contains(@class, 'lm-MenuBar-itemLabel') and .='File']")
        window.click("//li[.//div[.='Save All']]")
        copy = lab.home / "work/lectures/00__start.ipynb"
        deadline = time.monotonic() + 60
        while not all(cell.execution_count for cell in code_cells(copy)):
            assert time.monotonic() < deadline, "the notebook was not saved"
            time.sleep(0.2)
        outputs = [output for cell in code_cells(copy) for output in cell.outputs]
        assert not [output for output in outputs if output.output_type == "error"]
        assert any("[1.0, 4.0, 9.0, 16.0]" in str(output) for output in outputs), outputs
        assert git(lab.home, "status", "--porcelain") == ""

        # The course changes; the outputs are a click away.
        original = lab.home / "lectures/00__start.ipynb"
        original.write_text(original.read_text().replace("# Triton Workbook", "# A new start"))
        commit(lab.home)
        (note,) = update(lab.home).notes
        opened(window, lab, "lectures/00__start.ipynb", "A new start")
        window.open(lab.page("course_updates.md"))
        window.until("return document.body.innerText.includes(arguments[0])", note.links[0])
        window.click("//a[.='00__start.ipynb' and contains(@href, 'history')]")
        first = str(outputs[0].text).strip()  # the server's address and version
        window.until("return document.body.innerText.includes(arguments[0])", first)
    assert git(lab.home, "status", "--porcelain") == ""
