"""The hub of a class on one machine: JupyterHub, its proxy, and two students in a browser."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from nbformat import v4

from grader import sandbox
from tests.lab.browser import HOW, MISSING, Browser
from workbook.common import paths

CONFIG = "docker/hub/one_machine/jupyterhub_config.py"
PASSWORD = "correct horse battery"

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(find_spec("jupyterhub") is None, reason="needs `make test ALL=yes`"),
    pytest.mark.skipif(bool(MISSING), reason=HOW),
    pytest.mark.timeout(900),
    pytest.mark.alone,  # two students' servers, a hub and a browser
    pytest.mark.usefixtures("by_itself"),
]

#: The student's cell: it deploys a model with the student's name, and looks for the others.
PROBE = f"""\
import json, os, socket, time
from pathlib import Path
import psutil
from workbook.server import connect, deploy

def answers(port):
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex(("127.0.0.1", port)) == 0

deploy(Path(os.environ["TRITON_REPOSITORY"]) / "square", name=os.environ["JUPYTERHUB_USER"])
server = connect()
root = Path({str(paths.root())!r})
places = [root / "solutions", *root.glob("assignments/*/hidden.py")]
print("PROBE" + json.dumps({{
    "time": time.time(),
    "url": server.url,
    "models": sorted(entry["name"] for entry in server.index()),
    "interfaces": sorted(psutil.net_if_addrs()),
    "listening": sorted(port for port in PORTS if answers(port)),
    "programs": sorted({{process.name() for process in psutil.process_iter()}}),
    "seen": [str(place) for place in places if place.exists()],
    "homes": os.listdir("/home"),
    "user": os.getuid(),
}}))
"""


@dataclass
class Hub:
    """A running hub.

    Attributes:
        base: its address.
        students: the folder with the students' folders.
        cull: the culler runs while this file exists; the file `culled` appears when it has ended.
        process: JupyterHub.
        ports: of the hub's API and of the proxy's.
    """

    base: str
    students: Path
    cull: Path
    culled: Path
    process: psutil.Process
    ports: tuple[int, int]

    def servers(self) -> list[str]:
        """The students whose servers run."""
        found = []
        for child in self.process.children(recursive=True):
            try:
                words = child.cmdline()
            except psutil.Error:  # it ends just now
                continue
            if any(word.endswith("one_machine/launch.py") for word in words):
                found.append(Path(words[2]).name)
        return sorted(found)

    def work(self, student: str) -> Path:
        """The student's copy of the course."""
        return self.students / student / "course/work"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    if (refusal := sandbox.protection().error) is not None:
        pytest.skip(f"no sandbox on this machine: {refusal}")
    home, work = tmp_path_factory.mktemp("class"), tmp_path_factory.mktemp("hub")
    for name in ("lectures", "assignments", "model_repository/square", ".workbook/server"):
        shutil.copytree(paths.root() / name, home / name)
    with (
        socket.create_server(("127.0.0.1", 0)) as first,
        socket.create_server(("127.0.0.1", 0)) as second,
        socket.create_server(("127.0.0.1", 0)) as third,
    ):
        port, api, proxy = (free.getsockname()[1] for free in (first, second, third))
    cull, culled = work / "cull", work / "culled"
    # The culler that the config names, with its own rights, but only while the file exists.
    loop = (
        f'while sleep 0.2; do [ -e {cull} ] || continue; "$@" --timeout=1 --cull-every=1 & '
        f"while [ -e {cull} ]; do sleep 0.2; done; kill $!; wait $!; touch {culled}; done"
    )
    settings = work / "for_this_test.py"
    settings.write_text(
        f"load_subconfig({str(paths.root() / CONFIG)!r})\n"
        f"c.JupyterHub.bind_url = 'http://127.0.0.1:{port}'\n"
        f"c.JupyterHub.hub_port = {api}\n"
        f"c.ConfigurableHTTPProxy.api_url = 'http://127.0.0.1:{proxy}'\n"
        "c.NativeAuthenticator.open_signup = True\n"
        "culler = c.JupyterHub.services[0]\n"
        f"culler['command'] = ['sh', '-c', {loop!r}, 'sh', *culler['command'][:3]]\n"
    )
    log = (work / "log").open("w+")
    started = subprocess.Popen(
        [sys.executable, "-m", "jupyterhub", "-f", str(settings)],
        env={**os.environ, "WORKBOOK_HOME": str(home), "WORKBOOK_HUB": str(work)},
        cwd=work,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        deadline = time.monotonic() + 120
        while "JupyterHub is now running" not in (work / "log").read_text():
            assert started.poll() is None, (work / "log").read_text()
            assert time.monotonic() < deadline, (work / "log").read_text()
            time.sleep(0.2)
        yield Hub(
            f"http://127.0.0.1:{port}",
            work / "students",
            cull,
            culled,
            psutil.Process(started.pid),
            (api, proxy),
        )
    finally:
        started.terminate()  # it ends the proxy, the culler and the students' servers
        started.wait(timeout=120)
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0, "the proxy has outlived the hub"
        log.close()
        print((work / "log").read_text())


def fill(window: Browser, **fields: str) -> None:
    """Fill a form's fields, by their names, and send it."""
    for name, text in fields.items():
        field = f"document.querySelector('form input[name={name}]')"
        window.until(f"return !!{field}")
        window.run(f"{field}.value = arguments[0]", text)
    window.click("//form//input[@type='submit']")


def log_in(window: Browser, hub: Hub, student: str) -> None:
    """Log in, and wait for the student's own server and the course's first notebook."""
    window.open(f"{hub.base}/hub/login")
    fill(window, username=student, password=PASSWORD)
    window.until("return document.title.startsWith('00__start')", seconds=240)


def open_notebook(window: Browser, hub: Hub, student: str, name: str) -> None:
    """Open a notebook of the student's, and wait for its kernel."""
    window.open(f"{hub.base}/user/{student}/lab/tree/{name}.ipynb")
    window.until("return document.title.startsWith(arguments[0])", name)
    window.until("return !!document.querySelector('.jp-Notebook-ExecutionIndicator')")


def log_out(window: Browser, hub: Hub) -> None:
    window.open(f"{hub.base}/hub/logout")  # JupyterLab's menu leads there too
    window.until("return location.pathname === '/hub/login'")


def run_and_save(window: Browser, notebook: Path) -> dict[str, Any]:
    """Run all cells of the open notebook, and save it; returns the new output of its probe."""
    shown = "((document.body.innerText.match(/PROBE[{].*[}]/) || [''])[0])"
    before = window.run(f"return {shown}")
    # A page that has just been opened can lose the first click: a user would click again.
    begun = "!!document.querySelector('.jp-Notebook .jp-CodeCell .jp-OutputArea-output')"
    for _ in range(3):
        choose(window, "Run", "Run All Cells")
        if before or window.within(f"return {begun}", seconds=60):
            break
    window.until(f"return {shown} && {shown} !== arguments[0]", before, seconds=240)
    found = json.loads(window.run(f"return {shown}").removeprefix("PROBE"))
    choose(window, "File", "Save All")
    deadline = time.monotonic() + 120
    while printed(notebook) != found:
        assert time.monotonic() < deadline, window.text()
        time.sleep(0.2)
    return dict(found)


def choose(window: Browser, menu: str, entry: str) -> None:
    dialog = window.run("return document.querySelector('dialog')?.innerText")
    assert not dialog, dialog
    window.menu(menu, entry)


def printed(notebook: Path) -> dict[str, Any] | None:
    """What the probe in a saved notebook has printed; None if it has not run, or is being saved."""
    try:
        book = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    except nbformat.reader.NotJSONError:
        return None
    for cell in book.cells:
        for output in cell.get("outputs", ()):
            if (found := re.search(r"PROBE(\{.*\})", str(output.get("text", "")))) is not None:
                return dict(json.loads(found[1]))
    return None


def test_two_students_each_with_a_server_culled_and_back(hub: Hub, tmp_path: Path) -> None:
    found = {}
    for student in ("anna", "ben"):
        with Browser(tmp_path / student) as window:
            window.open(f"{hub.base}/hub/signup")
            words = {"signup_password": PASSWORD, "signup_password_confirmation": PASSWORD}
            fill(window, username=student, **words)
            window.until("return document.body.innerText.includes('signup was successful')")
            log_in(window, hub, student)

            # The student's own notebook, in the copy of the course.
            own = hub.work(student) / "mine.ipynb"
            source = f"PORTS = {[8000, 8001, 8002, *hub.ports]}\n{PROBE}"
            book = v4.new_notebook(cells=[v4.new_code_cell(source)])  # type: ignore[no-untyped-call]
            book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
            nbformat.write(book, own)  # type: ignore[no-untyped-call]
            os.chown(own, *(hub.work(student).stat().st_uid,) * 2)
            open_notebook(window, hub, student, "mine")
            found[student] = run_and_save(window, own)
            log_out(window, hub)

    # Both servers run on the same ports, and neither student sees anything of the other.
    assert hub.servers() == ["anna", "ben"]
    api, _ = hub.ports
    for student, seen in found.items():
        assert seen["url"] == "http://localhost:8000"
        assert seen["models"] == sorted([student, "square"])
        assert seen["interfaces"] == ["lo"]
        assert seen["listening"] == [8000, 8001, 8002, api]  # and not the proxy's own
        assert "node" not in seen["programs"]
        assert seen["seen"] == []
        assert seen["homes"] == ["student"]
        assert seen["user"] != 0

    # Idle servers end; what was saved is there at the next login, and so is the deployed model.
    hub.cull.touch()
    deadline = time.monotonic() + 120
    while hub.servers():
        assert time.monotonic() < deadline, "nobody ended the idle servers"
        time.sleep(0.2)
    hub.cull.unlink()
    while not hub.culled.exists():
        assert time.monotonic() < deadline, "the culler did not end"
        time.sleep(0.2)
    with Browser(tmp_path / "again") as window:
        log_in(window, hub, "anna")
        open_notebook(window, hub, "anna", "mine")
        window.until("return document.body.innerText.includes('PROBE{')")
        assert hub.servers() == ["anna"]
        assert run_and_save(window, hub.work("anna") / "mine.ipynb")["models"] == ["anna", "square"]
