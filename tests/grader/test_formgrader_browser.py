"""Hostile submissions as an instructor's browser shows them: in formgrader, and on our own pages.

A script of a student's that runs in formgrader could write marks with the instructor's rights. So
each hostile text here sets `window.owned`, and no page may have set it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from a_class import answered, classroom, course, fake_grade, fake_key, pack

from grader.classroom import autograde, intake, roster
from grader.classroom.classroom import Classroom
from grader.judge.grade_submission import Settings
from grader.pages import class_report, feedback
from tests.lab.browser import HOW, MISSING, Browser
from workbook.assignments import Assignment

pytestmark = pytest.mark.server

RUN = "window.owned=(window.owned||0)+1"
#: Texts that a browser runs as scripts if they are used as HTML or as an address.
HOSTILE = (
    f"<script>{RUN}</script>",
    f"<img src=x onerror='{RUN}'>",
    f"<svg onload='{RUN}'></svg>",
    f'<iframe srcdoc="<script>parent.{RUN}</script>"></iframe>',
    f"<details open ontoggle='{RUN}'>open</details>",
    f"</pre></textarea></script><script>{RUN}</script>",
    f"<math><mtext><table><mglyph><style><img src=x onerror='{RUN}'></style></mglyph></table>",
    f"[a link](javascript:{RUN})",
    f"![an image](x' onerror='{RUN})",
    f"$\\href{{javascript:{RUN}}}{{x}}$ $\\unicode{{<img src=x onerror={RUN}>}}$",
    f"<meta http-equiv=refresh content='0;url=javascript:{RUN}'>",
    "{% raw %}{{ self._TemplateReference__context }} ${alert(1)} <%= owned %>",
)
TEXT = "\n\n".join(HOSTILE)
OUTPUTS = [
    {"output_type": "stream", "name": "stdout", "text": TEXT},
    {"output_type": "stream", "name": "<script>owned", "text": TEXT},
    {"output_type": "error", "ename": HOSTILE[0], "evalue": TEXT, "traceback": [TEXT]},
    *(
        {"output_type": "display_data", "metadata": {}, "data": {kind: body}}
        for kind, body in {
            "text/html": TEXT,
            "text/markdown": TEXT,
            "text/latex": TEXT,
            "image/svg+xml": HOSTILE[2],
            "application/javascript": RUN,
            "application/vnd.jupyter.widget-view+json": {"model_id": HOSTILE[0]},
            "image/png": HOSTILE[0],
        }.items()
    ),
]
NAME = "Eve <script>window.owned=1</script>'\" onload=window.owned=1"
LIMIT = 90


def hand_in(where: Classroom, toy: Assignment) -> None:
    """Hand in for a student with hostile texts everywhere, and for an honest one."""
    code = f"number = 0.5\noutputs = {OUTPUTS!r}\nlog = {TEXT!r}\n# {' '.join(HOSTILE)}"
    notebook = json.loads(answered(toy, code, TEXT))
    notebook["metadata"] |= {"title": HOSTILE[0], "widgets": {"x": {"state": {"y": HOSTILE[0]}}}}
    notebook["cells"].append(
        {"cell_type": "markdown", "id": "x", "metadata": {}, "source": TEXT, "attachments": {}}
    )
    pack(where.inbox / "eve.zip", {"a9.ipynb": json.dumps(notebook)})
    pack(where.inbox / "anna.zip", {"a9.ipynb": answered(toy, "number = 1", "Because.")})
    roster.path(where).write_text(
        'id,name\neve,"{}"\nanna,Anna\n'.format(NAME.replace('"', '""')), "utf-8"
    )


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Classroom, Assignment]]:
    home = tmp_path_factory.mktemp("course")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBOOK_HOME", str(home))
        toy, where = course(home), classroom(home)
        patch.setenv("GRADER_WORK", str(where.home))
        where.make_inbox()
        hand_in(where, toy)
        intake.take_inbox(where, toy, where.inbox)
        autograde.autograde(where, toy, Settings(), workers=1, grader=fake_grade, keyer=fake_key)
        yield where, toy


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def formgrader(graded: tuple[Classroom, Assignment]) -> Iterator[str]:
    """The address of formgrader, as `grader formgrader` starts it."""
    where, _ = graded
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "grader.cli", "formgrader", "--no-browser", f"--port={port}"]
    command += ["--IdentityProvider.token=", "--allow-root"]
    log = (where.home / "formgrader.log").open("wb")
    server = subprocess.Popen(
        command, stdout=log, stderr=log, env={**os.environ, "HOME": str(where.home)}
    )
    try:
        deadline = time.monotonic() + LIMIT
        while True:
            try:
                if httpx.get(f"{address}/formgrader/api/assignments", timeout=30).is_success:
                    break
            except httpx.TransportError:
                pass
            assert server.poll() is None, (where.home / "formgrader.log").read_text()[-3000:]
            assert time.monotonic() < deadline, (where.home / "formgrader.log").read_text()[-3000:]
            time.sleep(0.5)
        yield address
    finally:
        server.terminate()
        server.wait(timeout=30)
        log.close()


@pytest.mark.skipif(bool(MISSING), reason=HOW)
@pytest.mark.timeout(300)
def test_no_script_of_a_student_runs_in_formgrader(
    graded: tuple[Classroom, Assignment], formgrader: str, tmp_path: Path
) -> None:
    _, toy = graded
    submissions = httpx.get(f"{formgrader}/formgrader/api/submissions/{toy.name}").json()
    assert {entry["student"] for entry in submissions} == {"anna", "eve"}
    notebooks = httpx.get(
        f"{formgrader}/formgrader/api/submitted_notebooks/{toy.name}/{toy.short}"
    ).json()
    pages = [
        "manage_assignments",
        f"manage_submissions/{toy.name}",
        f"gradebook/{toy.name}",
        f"gradebook/{toy.name}/{toy.short}",
        "manage_students",
        "manage_students/eve",
        f"manage_students/eve/{toy.name}",
        *(f"submissions/{entry['id']}" for entry in notebooks),
    ]
    shown = ""
    with Browser(tmp_path / "profile") as browser:
        for page in pages:
            browser.open(f"{formgrader}/formgrader/{page}")
            browser.until("return document.readyState === 'complete'")
            assert not browser.within("return window.owned !== undefined", seconds=1), page
            shown += browser.run("return document.documentElement.textContent")
        browser.screenshot(tmp_path / "formgrader.png")
    assert shown.count("window.owned") > 5  # the texts were shown, as texts


@pytest.mark.skipif(bool(MISSING), reason=HOW)
@pytest.mark.timeout(300)
def test_no_script_of_a_student_runs_on_our_pages(
    graded: tuple[Classroom, Assignment], tmp_path: Path
) -> None:
    where, toy = graded
    class_report.write_class_report(where, toy)
    feedback.write_feedback(where, toy)
    pages = [class_report.page(where, toy), *sorted(where.feedback.rglob("*.html"))]
    assert len(pages) == 3
    shown = ""
    with Browser(tmp_path / "profile") as browser:
        for page in pages:
            browser.open(page.as_uri())
            assert not browser.within("return window.owned !== undefined", seconds=1), page
            shown += browser.run("return document.documentElement.textContent")
    assert "window.owned" in shown
