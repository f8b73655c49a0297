"""Build the laptop image, try it as a reader and as an instructor would, and write a report.

    make image-test        # or: python docker/laptop/try_image.py

It builds the committed files with Docker, or with Podman if no Docker engine runs (Debian:
`apt install podman`; as root). It starts containers and tries them: JupyterLab in a real browser, a
model over gRPC, a lecture, a restart on the same volume, an assignment that is graded. The table of
results goes to docker/laptop/LAST_RUN.md. The exit status is 0 if everything was as expected.

engine.py says how this differs from a reader's `docker build` and `docker run`.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import platform
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from engine import (
    ROOT,
    Engine,
    Failed,
    available,
    base_image,
    has_cgroups,
    restart_with_cgroups,
)

sys.path.insert(0, str(ROOT))
from tests.lab import browser  # the folder of tests is no installed package

FILE = Path(__file__).with_name("LAST_RUN.md")
STUDENT, INSTRUCTOR = "localhost/triton-workbook", "localhost/triton-workbook-instructor"
START = "work/lectures/00__start/00__start.ipynb"
LARGEST = 3_100_000_000  # bytes of the student's image, without compression
#: The options that a container for grading needs, as the grader's own error says.
GRADING = (
    *("--security-opt", "seccomp=docker/laptop/seccomp.json"),
    *("--security-opt", "systempaths=unconfined"),
)

GRPC = """
import numpy, tritonclient.grpc as grpc
client = grpc.InferenceServerClient("127.0.0.1:8001")
tensor = grpc.InferInput("INPUT", [1, 4], "FP32")
tensor.set_data_from_numpy(numpy.array([[1, 2, 3, 4]], "float32"))
print(client.infer("square", [tensor]).as_numpy("OUTPUT").tolist())
"""
HAND_IN = """
from pathlib import Path
from grader.authoring.submissions import solution
from workbook import assignments
inbox = Path("grader/work/inbox")
inbox.mkdir(parents=True)
print(solution(assignments.named("a2"), inbox / "anna"))
"""
MARKS = """
import json
from pathlib import Path
from grader.classroom.classroom import Classroom
from workbook import assignments
classroom, which = Classroom.default(), assignments.named("a2")
(graded,) = [
    found for path in classroom.home.rglob("*.json")
    if isinstance(found := json.loads(path.read_text()), dict) and "verdict" in found
]
credits = [check["credit"] for check in graded["verdict"]["checks"]]
print(json.dumps({"sandbox": graded["sandbox"], "credits": credits}))
"""


@dataclasses.dataclass
class Row:
    """One line of the table: what was tried, and what was found."""

    tried: str
    found: str


def main() -> int:
    """Try everything, print the table and write it down; returns the exit status."""
    if os.environ.get("WORKBOOK_TRYING") is None and not has_cgroups():
        restart_with_cgroups()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="try-image-") as name:
        folder = Path(name)
        try:
            engine = Engine(available(), folder)
            _try(engine, folder, rows)
        except Failed as failure:
            for row in rows:
                print(f"  {row.tried}: {row.found}")
            print(f"\nNot as expected: {failure}", file=sys.stderr)
            return 1
    text = _page(engine, rows)
    FILE.write_text(text, encoding="utf-8")
    print(text)
    return 0


def _try(engine: Engine, folder: Path, rows: list[Row]) -> None:
    def add(tried: str, found: str) -> None:
        rows.append(Row(tried, found))
        print(f"  {tried}: {found}", flush=True)

    context = _committed(folder / "context")
    seconds = engine.build(context, "student", STUDENT)
    add("Build the student's image", f"{seconds:.0f} s (less if an earlier build is kept)")
    size, layers = engine.size(STUDENT), engine.layers(STUDENT)
    if size > LARGEST:
        raise Failed(f"The image has {size / 1e9:.2f} GB; at most {LARGEST / 1e9:g} are allowed.")
    add("Its size", f"{size / 1e9:.2f} GB without compression, {len(layers)} layers")

    text = context / "lectures" / "00__start" / "00__start.ipynb"
    text.write_text(text.read_text("utf-8").replace("# Triton", "# The Triton", 1), "utf-8")
    seconds = engine.build(context, "student", STUDENT)
    same = sum(a == b for a, b in zip(layers, engine.layers(STUDENT), strict=True))
    if len(layers) - same != 1:
        raise Failed(f"After a change of a lecture's text {len(layers) - same} layers are new.")
    add(
        "Build again after a change of a lecture's text", f"{seconds:.0f} s, one new layer of texts"
    )

    _what_students_do_not_get(engine)
    add("Solutions, hidden checks, the judge, pip's settings", "not in the student's image")

    volume = f"try-image-{os.getpid()}"
    try:
        _student(engine, volume, folder, add)
    finally:
        engine("volume", "rm", "--force", volume, check=False)

    seconds = engine.build(context, "instructor", INSTRUCTOR)
    size = engine.size(INSTRUCTOR)
    add("Build the instructor's image", f"{seconds:.0f} s, {size / 1e9:.2f} GB")
    _instructor(engine, add)


def _what_students_do_not_get(engine: Engine) -> None:
    look = (
        "find / -xdev '(' -path '*/solutions*' -o -path '*/hidden*' -o -path '*/judge/*' "
        "-o -name mutants.py -o -name attacks.py -o -name Makefile ')' -path '/course/*' "
        "-not -path '/course/.venv/*'; cat /etc/pip.conf /root/.config/pip/pip.conf"
    )
    found = engine(
        "run", "--rm", *engine.run_options, STUDENT, "sh", "-c", f"{look} 2>/dev/null; id -u"
    )
    if found.split() != ["1000"]:
        raise Failed(f"The student's image holds, or its user is, something else:\n{found}")
    history = engine("history", "--no-trunc", "--format", "{{.CreatedBy}}", STUDENT)
    if re.search(r"index-url|find-links|token", history):
        raise Failed("The history of the image shows settings of this machine.")


def _student(engine: Engine, volume: str, folder: Path, add: Any) -> None:
    port = _free_port()
    options = ("--publish", f"{port}:8888", "--volume", f"{volume}:/course/work")
    began = time.monotonic()
    with engine.container(STUDENT, *options) as one:
        _until_healthy(engine, one)
        add(
            "`docker run`, with nothing but a port and a volume",
            f"healthy after {time.monotonic() - began:.0f} s",
        )
        ready = re.search(r"(\d+) of (\d+) models are ready", engine.log(one))
        if ready is None or ready[1] != ready[2]:
            raise Failed(f"Some models are not ready.\n{engine.log(one)}")
        add("Models ready", f"{ready[1]} of {ready[2]}; language models are built on request")
        answer = engine.inside(one, "python", "-c", GRPC).strip()
        if answer != "[[1.0, 4.0, 9.0, 16.0]]":
            raise Failed(f"square answered {answer} over gRPC.")
        add("`square` over gRPC", f"[1, 2, 3, 4] → {answer}")
        add("JupyterLab in Chromium", _in_a_browser(engine, one, port, folder))
        used = engine.inside(one, "df", "--output=used,size", "-k", "/dev/shm").split()[-2:]
        add(
            "Shared memory, of Docker's default",
            " of ".join(f"{int(n) / 1024:.0f} MiB" for n in used),
        )
        lecture = "work/lectures/1_architecture/01__first_model/01__first_model.ipynb"
        began = time.monotonic()
        execute = ("jupyter", "nbconvert", "--to", "notebook", "--execute", "--inplace", lecture)
        engine.inside(one, *execute)
        add("Lecture 1, notebook 01, every cell", f"no error, {time.monotonic() - began:.0f} s")
        compiled = "import torch; print(torch.compile(torch.cos)(torch.zeros(9)).sum().item())"
        add(
            "`torch.compile`: nine times the cosine of 0",
            engine.inside(one, "python", "-c", compiled).strip(),
        )
        helpers = "from workbook.server.assemble import find; print(find().preload is not None)"
        if engine.inside(one, "python", "-c", helpers).strip() != "True":
            raise Failed("The server's compiled helpers are missing (workbook/server/native).")
        add("The server's compiled helpers", "there")
        began = time.monotonic()
        engine("stop", "--time", "10", one)
        took = time.monotonic() - began
        (state,) = json.loads(engine("inspect", one))
        code = state["State"]["ExitCode"]
        if code == 137:
            raise Failed("docker stop had to kill the container after 10 s.")
        add("`docker stop`", f"ended by itself after {took:.1f} s, exit status {code}")
    with engine.container(STUDENT, *options) as two:
        _until_healthy(engine, two)
        notebook = json.loads(engine.inside(two, "cat", lecture))
        outputs = sum(bool(cell.get("outputs")) for cell in notebook["cells"])
        if not outputs:
            raise Failed("The notebook that ran has no outputs in a new container.")
        add(
            "A new container on the same volume",
            f"the notebook that ran is there, {outputs} cells with outputs",
        )


def _in_a_browser(engine: Engine, container: str, port: int, folder: Path) -> str:
    if browser.MISSING:
        return f"not tried: {browser.HOW}"
    found = re.search(r"token=(\w+)", engine.log(container))
    if found is None:
        raise Failed(f"No token in the log.\n{engine.log(container)}")
    address = f"http://127.0.0.1:{port}"
    with browser.Browser(folder / "profile") as window:
        window.open(f"{address}/lab")
        window.until("return document.querySelector('input[name=password]') !== null")
        window.open(f"{address}/lab/tree/lectures/00__start/00__start.ipynb?token={found[1]}")
        window.until("return document.body.innerText.includes('Triton Workbook')")
        window.menu("Run", "Run All Cells")
        deadline = time.monotonic() + 120
        while True:  # the page shows the cells in sight only, the file has all
            time.sleep(3)
            window.menu("File", "Save All")
            time.sleep(1)
            cells = _code(json.loads(engine.inside(container, "cat", START)))
            if all(cell["execution_count"] for cell in cells):
                break
            if time.monotonic() > deadline:
                raise Failed(f"Cells of {START} did not run within two minutes.\n{window.text()}")
    errors = [one for cell in cells for one in cell["outputs"] if one["output_type"] == "error"]
    if errors or "1.0,4.0,9.0,16.0" not in json.dumps(cells):
        raise Failed(f"Not all cells of {START} ran without an error: {errors}")
    return f"asks for a token; with it the start opens, and its {len(cells)} cells run, no error"


def _code(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells of a notebook that hold code."""
    return [c for c in notebook["cells"] if c["cell_type"] == "code" and "".join(c["source"])]


def _instructor(engine: Engine, add: Any) -> None:
    wait = ("sleep", "infinity")
    with engine.container(INSTRUCTOR, command=wait) as refusing:
        engine.inside(refusing, "python", "-c", HAND_IN)
        output = _both(engine, refusing, "grader", "autograde", "a2")
        if "allows no sandbox" not in output or "systempaths=unconfined" not in output:
            raise Failed(f"Under Docker's own rules the grader said:\n{output}")
        add("`grader autograde` under Docker's own rules", "refuses, and names the options below")
    with engine.container(INSTRUCTOR, *GRADING, command=wait) as grading:
        engine.inside(grading, "python", "-c", HAND_IN)
        began = time.monotonic()
        output = _both(engine, grading, "grader", "autograde", "a2")
        took = time.monotonic() - began
        try:
            marks = json.loads(engine.inside(grading, "python", "-c", MARKS))
        except (Failed, ValueError):
            raise Failed(f"Nothing was graded:\n{output}") from None
        if set(marks["credits"]) != {1.0}:
            raise Failed(f"The solution of a2 got {marks['credits']}.\n{output}")
        level = marks["sandbox"]
        add(
            f"The same with `{' '.join(GRADING)}`",
            f"a2's solution gets all points in {took:.0f} s; level: {level}",
        )


def _both(engine: Engine, container: str, *words: str) -> str:
    """What a command in a container prints on both of its outputs, whatever its exit status."""
    return engine.inside(container, "sh", "-c", f"{' '.join(words)} 2>&1", check=False)


def _until_healthy(engine: Engine, container: str) -> None:
    deadline = time.monotonic() + 300
    check = ("python", "docker/laptop/healthy.py")
    while "JupyterLab and the server answer" not in engine.inside(container, *check, check=False):
        (state,) = json.loads(engine("inspect", container))
        if not state["State"]["Running"] or time.monotonic() > deadline:
            raise Failed(f"The container is not healthy:\n{engine.log(container)}")
        time.sleep(0.5)


def _committed(to: Path) -> Path:
    """The committed files of the checkout, as after `git clone`."""
    to.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", to], input=archive.stdout, check=True)
    return to


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def _page(engine: Engine, rows: list[Row]) -> str:
    version = engine("--version").strip()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    today = datetime.date.today().isoformat()
    where = f"{version}, Linux {platform.release().partition('-')[0]}, {os.cpu_count()} cores"
    base = (
        "a base image from debootstrap"
        if engine.name == "podman" and base_image(engine)
        else "the base image that the Dockerfile names"
    )
    return "\n".join(
        [
            "# The laptop image: the last run of `make image-test`",
            "",
            f"{today}, commit {commit}, {where}, {base}. No GPU.",
            "",
            "| tried | found |",
            "|---|---|",
            *(f"| {row.tried} | {row.found} |" for row in rows),
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
