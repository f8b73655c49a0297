"""The commands of README and docs/, run as a reader types them, in a checkout of their own.

`STUDENT` and `INSTRUCTOR` are run here, each in one shell. Every other command of these pages
stands in `ELSEWHERE`, with the test that runs it, or with what it needs that no test has.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from grader.authoring import submissions
from grader.sandbox import bubblewrap
from tests.checkouts import checkout
from tests.project import pages
from workbook import assignments
from workbook.assignments import cells
from workbook.common import paths

CURL = (
    "curl -s localhost:8000/v2/models/square/infer -d "
    '\'{"inputs": [{"name": "INPUT", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}\''
)

_GIT = {
    **{name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ},
    **{
        f"GIT_{who}_{what}": "a@example.org"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    },
}
#: Commands, and words of what they print.
STUDENT = (
    ("make doctor", "This machine has what the course needs."),
    ("source .venv/bin/activate", ""),
    ("workbook serve --detach", "models are ready"),
    ("workbook status", "http://localhost:8000"),
    (CURL, '"data":[1.0,4.0,9.0,16.0]'),
    ("workbook deploy path/to/my_model", "my_model"),
    ("workbook undeploy my_model", "my_model"),
    ("workbook submit a2", "a2__forest.zip"),
    ("mkdir -p grader/work/inbox", ""),
    ("cp work/assignments/a2__forest/a2__forest.zip grader/work/inbox/me.zip", ""),
    ("make grade ASSIGNMENT=a2", "1 graded"),
    ("workbook stop", ""),
)
#: For all commands of a page, on a busy machine too.
SECONDS = 900
TAKE = (
    "grader answers a2 --take grader/work/report/answers/a2.delay.all.csv "
    "--take grader/work/report/answers/a2.why.all.csv"
)
#: The written answers are filled in before `TAKE`.
INSTRUCTOR = (
    ("source .venv/bin/activate", ""),
    ("git clone ADDRESS ../class", ""),
    ("grader release ../new", ""),
    ("cp -r ../new/. ../class/ && rm -r ../new", ""),
    (
        'git -C ../class add --all && git -C ../class commit -m "The course" '
        "&& git -C ../class push",
        "The course",
    ),
    ("cp ~/Downloads/students.csv grader/work/", ""),
    ("cp ~/Downloads/submissions.zip ~/Downloads/Grades-a2.csv grader/work/inbox/", ""),
    ("grader inbox", "anna"),
    ("make grade", "anna"),
    ("grader answers a2", "a2.delay.all.csv"),
    (TAKE, "all: 2 read"),
    ("make grade", ""),
    (
        "grader export a2 --format moodle --worksheet ~/Downloads/Grades-a2-new.csv --final",
        "a2__forest.moodle.feedback.zip",
    ),
    ("grader export a2", "a2__forest.nbgrader.csv"),
    ("grader totals", ""),
    ("grader autograde a2 --student anna", ""),
    ("grader autograde a2 --student anna --force", "anna"),
    ("grader answers a2 --reader ann --reader bob", "ann"),
    ('grader regrade anna a2 --request "…"', ""),
    ('grader regrade anna a2 --reply "…"', ""),
    ("grader feedback a2", "a2__forest.html"),
)
#: Patterns of commands → the test that runs them, or what no test has.
ELSEWHERE = {
    r"make lab.*|workbook lab --no-browser": "tests/cli/test_make.py",
    r"workbook doctor": "tests/cli/test_doctor.py",
    r"make (setup|test|check|vllm).*": "CI: `make test ALL=yes` sets up and runs the same lines",
    r"make(| clean| lock.*)": "needs: a network, or a checkout that may be emptied",
    r"make hub": "tests/docker/test_hub.py",
    r"make grade .*OPTIONS=.*": "tests/grader/test_grading_commands.py",
    r"make site|workbook site": "tests/lectures/test_site.py",
    r"make bench|make bench-peers|workbook bench.*": "tests/benchmarks",
    r"make image-test": "needs: Docker, or Podman as root",
    r"make gpu|make gpu-stack|docker/verify_gpu.sh.*": "needs: a GPU, or Prometheus and redis",
    r"make mutants": "needs: hours",
    r"(docker|helm|kubectl|scp) .*": "needs: Docker, a cluster, another machine",
    r"sudo .*": "needs: Ubuntu, and its administrator",
    r"COMPOSE_PROFILES=.*|TRITON_RELEASE=.*|TLS=.*|dask .*": "needs: several machines",
    r"grader cluster|grader autograde .*--scheduler .*": "tests/grader/test_cluster.py",
    r"git clone ADDRESS triton-workbook( && cd triton-workbook)?": "CI clones the repository",
    r"cd (~|triton-workbook)": "CI clones the repository",
    r"sudo apt update && sudo apt install .*": "needs: a machine that may be changed",
    r"\.venv/bin/pytest .*|pytest .*|ruff .*": "CI",
    r"\.venv/bin/python -m tests\.lectures\.busy": "tests/lectures/busy.py",
    r"\.venv/bin/python -m tests\.grader\.busy a7": "tests/grader/busy.py",
    r"GRADER_WORK=/tmp/class grader autograde .*": "tests/grader/test_authoring.py",
    r"\.venv/bin/python -m tests\.project\.\w+": "tests/project: the pages are as they write them",
    r"\.venv/bin/python -m tests\.lectures\.upstream_links": "needs: the pages of others",
    r"\.venv/bin/python lectures/images/draw\.py": "tests/lectures/test_images.py",
    r"\.venv/bin/uv cache clean|\.venv/bin/pip .*": "needs: an environment that may be changed",
    r"\.venv/bin/grader|grader|workbook|workbook build.*|\.venv/bin/workbook build.*": "CI",
    r"git (add -A|commit)|wrk": "the reader's own",
    r"workbook (serve|deploy|status|stop).*|OMP_WAIT_POLICY=.*": ("tests/cli/test_cli.py"),
    r"workbook (models|chat|openai).*": "tests/llm",
    r"curl .*llama.*|curl -X POST .*": "tests/llm",
    r"\.venv/bin/workbook (models|serve|deploy|stop).*": "tests/cli/test_cli.py",
    r"workbook slides.*": "tests/lectures/test_slides.py",
    r"workbook submit.*": "tests/notebooks/test_notebooks_submit.py",
    r"grader (new|try|solve).*": "tests/grader/test_authoring.py",
    r"grader release.*": "tests/notebooks/test_notebooks_assignments.py",
    r"grader (autograde|export|answers|drop|regrade|totals|formgrader|inbox).*": "tests/grader",
}


def written() -> dict[str, str]:
    """Every command of README, CONTRIBUTING and docs/ → the page that it stands in."""
    found = {}
    for path in pages.own():
        if path.name not in ("CHANGELOG.md", "BENCHMARKS.md", "NOTICE.md"):
            for command in pages.commands(pages.text(path)):
                found[pages.typed(command)] = path.name
    return found


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A checkout that is set up, as `make setup` leaves it."""
    with checkout() as home:
        root = paths.root()
        leave = shutil.ignore_patterns("llama*", "logs")  # language models are built on request
        for name in ("model_repository", ".workbook/zoo", ".workbook/server", ".workbook/tools"):
            shutil.copytree(
                root / name, home / name, symlinks=True, ignore=leave, dirs_exist_ok=True
            )
        for stamp in (*home.glob(".venv/.complete-*"), *home.glob(".venv/.compiled-*")):
            stamp.unlink()
            stamp.touch()
        for command in ("init -q", "add --all", "commit -q -m course"):
            subprocess.run(["git", *command.split()], cwd=home, env=_GIT, check=True)
        yield home


def run(home: Path, commands: tuple[tuple[str, str], ...], **values: str) -> None:
    """Run commands in one shell, in a network of its own, where the usual ports are free.

    Args:
        home: the checkout.
        commands: what is typed, and words of what each prints.
        values: what stands in place of a word in capitals.
    """
    typed = [f"echo; echo '## {n}'; {command}" for n, (command, _) in enumerate(commands)]
    script = "\n".join(["set -e", *typed])
    for name, value in values.items():
        script = re.sub(rf"\b{name}\b", value, script)
    own = ["--dev-bind", "/", "/", "--unshare-net", "--die-with-parent"]
    done = subprocess.run(
        [bubblewrap.program(), *own, "bash", "-c", script],
        cwd=home,
        env={**_GIT, "HOME": str(home.parent), "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    parts = re.split(r"(?m)^## \d+$", done.stdout)[1:]
    last = f"{commands[len(parts) - 1][0]}:\n{parts[-1]}"
    assert done.returncode == 0, last
    for (command, words), part in zip(commands, parts, strict=True):
        assert words in part, f"{command}:\n{part}"


def fill_in(folder: Path) -> None:
    """Write the solution as a student has it: in the notebook that students get."""
    a2 = assignments.named("a2")
    submissions.solution(a2, folder)
    notebook = folder / a2.release.name
    nbformat.write(cells.restore(cells.read(notebook), cells.read(a2.release)), notebook)


@pytest.mark.server
@pytest.mark.timeout(SECONDS + 100)
def test_what_a_student_types(home: Path) -> None:
    model = home / "path/to/my_model"
    shutil.copytree(home / "model_repository/square", model)
    config = model / "config.pbtxt"
    config.write_text(config.read_text().replace('"square"', '"my_model"'))
    fill_in(home / "work/assignments/a2__forest")
    run(home, STUDENT)
    assert (home / "grader/work/feedback/me/a2__forest.html").is_file()


@pytest.mark.server
@pytest.mark.timeout(SECONDS + 100)
def test_what_an_instructor_types(home: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", home.parent / "class.git"], check=True)
    downloads, work = home.parent / "Downloads", home / "grader/work"
    downloads.mkdir()
    shutil.rmtree(work, ignore_errors=True)
    (work / "inbox").mkdir(parents=True)
    (downloads / "students.csv").write_text("id,first name,last name\nanna,Anna,Okafor\n")
    solved = submissions.solution(assignments.named("a2"), home.parent / "anna/a2__forest", "anna")
    with zipfile.ZipFile(downloads / "submissions.zip", "w") as file:
        for path in solved.rglob("*"):
            inside = path.relative_to(solved)
            file.write(path, f"Anna Okafor_4711_assignsubmission_file_/a2__forest/{inside}")
    for name in ("Grades-a2.csv", "Grades-a2-new.csv"):
        (downloads / name).write_text(
            "Identifier,Full name,Status,Grade,Maximum Grade,Grade can be changed,"
            "Last modified (submission),Last modified (grade),Feedback comments\n"
            "Participant 4711,Anna Okafor,Submitted,,100.00,Yes,"
            '"Friday, 20 November 2026, 10:00 AM",-,\n'
        )
    at = [command for command, _ in INSTRUCTOR].index(TAKE)
    run(home, INSTRUCTOR[:at], ADDRESS=str(home.parent / "class.git"))
    for sheet in (work / "report/answers").glob("*.all.csv"):
        with sheet.open(encoding="utf-8-sig", newline="") as file:
            (titles, *answers) = csv.reader(file)
        earned = titles.index("text") + 1  # the rubric's first item
        with sheet.open("w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file).writerows(
                [titles, *([*row[:earned], "x", *row[earned + 1 :]] for row in answers)]
            )
    run(home, (INSTRUCTOR[0], *INSTRUCTOR[at:]))
    assert (work / "report/a2__forest.moodle.csv").is_file()


def test_every_command_is_run_or_says_where() -> None:
    run = {pages.typed(command) for command, _ in (*STUDENT, *INSTRUCTOR)}
    left = [
        f"{page}: {command}"
        for command, page in written().items()
        if command not in run and not any(re.fullmatch(one, command) for one in ELSEWHERE)
    ]
    assert not left


def test_what_is_run_here_stands_in_a_page() -> None:
    there = written()
    missing = {c for c, _ in (*STUDENT, *INSTRUCTOR) if pages.typed(c) not in there}
    assert not missing
    unused = [one for one in ELSEWHERE if not any(re.fullmatch(one, c) for c in there)]
    assert not unused
    for place in ELSEWHERE.values():
        if place.startswith("tests/"):
            assert (paths.root() / place.partition(":")[0]).exists(), place
