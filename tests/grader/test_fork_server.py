"""Fork servers: their copies, and what happens if a fork server cannot start or ends."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from grader import sandbox
from grader.judge import forks_per_assignment
from grader.judge.run_notebook import execute
from grader.sandbox import fork_server
from grader.sandbox.mounts import course
from grader.vocabulary.define import imported_late
from tests.grader.grader_waits import until
from workbook import assignments
from workbook.assignments import cells

pytestmark = pytest.mark.server

WHICH = "import sys; print('numpy' in sys.modules, 'xgboost' in sys.modules)"


def run(
    code: str, forks: sandbox.ForkServer | None, *words: str, **more: object
) -> sandbox.Outcome:
    bound, environment = course()
    return sandbox.run(
        [sys.executable, "-I", "-c", code, *words],
        read_only=bound,
        environment=environment,
        fork_server=forks,
        **more,  # type: ignore[arg-type]
    )


@pytest.fixture
def forks() -> Iterator[sandbox.ForkServer]:
    server = sandbox.ForkServer(["numpy", "there_is_no_such_module"], course()[1])
    yield server
    server.close()


def process(forks: sandbox.ForkServer) -> int:
    """The process id of a fork server that runs."""
    assert forks._process is not None
    return forks._process.pid


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.quick
def test_a_copy_has_the_imports_and_its_own_arguments(forks: sandbox.ForkServer) -> None:
    outcome = run(f"{WHICH}; print(sys.argv, __name__)", forks, "a", "b")
    assert outcome.stdout.decode().splitlines() == ["True False", "['-c', 'a', 'b'] __main__"]
    assert outcome.is_copy
    assert run(WHICH, None).stdout == b"False False\n"


def test_a_module_is_carried_out_by_its_main(forks: sandbox.ForkServer) -> None:
    bound, environment = course()
    command = [sys.executable, "-I", "-m", "grader.judge.judge"]
    outcome = sandbox.run(
        command, read_only=bound, environment=environment, stdin=b"no order", fork_server=forks
    )
    assert (outcome.code, outcome.is_copy) == (1, True)
    assert "1 validation error for Order" in outcome.stderr


def test_copies_draw_different_random_numbers(forks: sandbox.ForkServer) -> None:
    code = "import numpy, random; print(numpy.random.rand(), random.random())"
    drawn = {word for _ in range(3) for word in run(code, forks).stdout.split()}
    assert len(drawn) == 6


@pytest.mark.quick
def test_a_copy_shows_nothing_of_the_caller(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither its environment nor its arguments, nor what other copies were given."""
    monkeypatch.setenv("WORKBOOK_TEST_SECRET", "the-secret")
    server = sandbox.ForkServer(["numpy"], {})
    try:
        run("print('other')", server, "word-of-another", stdin=b"input-of-another")
        shown = run(
            "import os, sys; print(os.environ); print(open('/proc/self/environ').read(),"
            "open('/proc/self/cmdline').read(), sys.stdin.read())",
            server,
            stdin=b"own input",
        ).stdout.decode()
    finally:
        server.close()
    assert "own input" in shown
    assert "secret" not in shown
    assert "another" not in shown


def test_processor_time_of_a_copy_counts(forks: sandbox.ForkServer) -> None:
    code = "import time\nwhile time.process_time() < 0.5: pass"
    assert 0.5 <= run(code, forks).cpu_seconds < 5


def test_one_that_was_killed_is_started_again(forks: sandbox.ForkServer) -> None:
    assert run(WHICH, forks).is_copy
    first = process(forks)
    os.kill(first, signal.SIGKILL)
    assert until(lambda: has_ended(first), 60)
    assert run(WHICH, forks).is_copy
    assert process(forks) != first


def test_one_without_work_ends_and_is_started_again() -> None:
    server = sandbox.ForkServer([], course()[1], idle_s=0.3)
    try:
        assert run("import time; time.sleep(1); print('done')", server).stdout == b"done\n"
        first = process(server)
        assert until(lambda: has_ended(first), 60)
        assert run("print('again')", server).is_copy
        assert process(server) != first
    finally:
        server.close()


def test_a_copy_does_not_outlive_it(forks: sandbox.ForkServer) -> None:
    outcomes: list[sandbox.Outcome] = []
    forks.start()
    server = psutil.Process(process(forks))
    thread = threading.Thread(
        target=lambda: outcomes.append(run("import time; time.sleep(600)", forks))
    )
    thread.start()
    assert until(
        lambda: [child for child in server.children() if child.status() != "zombie"] != [], 60
    )
    time.sleep(1)  # the first child enters the sandbox, and the second one stays
    server.kill()
    thread.join(30)
    assert not thread.is_alive()
    assert (outcomes[0].code, outcomes[0].stopped) == (1, "")


def test_it_ends_with_its_caller() -> None:
    code = (
        "from grader import sandbox\n"
        "import subprocess, sys\n"
        "server = sandbox.ForkServer([], {})\n"
        "print(sandbox.run([sys.executable, '-I', '-c', ''], fork_server=server).is_copy)\n"
        "print(server._process.pid, flush=True)\n"
        "import os; os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    _, pid = done.stdout.split()
    assert until(lambda: has_ended(int(pid)), 60)


def test_where_nothing_can_be_copied_the_command_is_started(
    forks: sandbox.ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Path:
        raise fork_server.NotForked("as on a machine without such a loader")

    monkeypatch.setattr(fork_server, "loader", refuse)
    outcome = run(WHICH, forks)
    assert (outcome.stdout, outcome.is_copy) == (b"False False\n", False)


def test_a_copy_that_may_not_enter_leaves_nothing_behind(
    forks: sandbox.ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine that forbids setns: the sandbox is ended, and another one is made."""
    monkeypatch.setattr("grader.sandbox.forked.other_namespaces", lambda pid: 1 << 40)
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    outcome = run(WHICH, forks)
    assert (outcome.stdout, outcome.is_copy) == (b"False False\n", False)
    after = {child.pid for child in psutil.Process().children(recursive=True)}
    assert after - before == {process(forks)}


def test_notebooks_and_judges_have_what_the_assignment_imports(tmp_path: Path) -> None:
    assignment = assignments.named("a2")
    notebook = cells.read(assignment.release)
    code = {"cell_type": "code", "id": "which", "metadata": {}, "outputs": []}
    notebook["cells"] = [{**code, "execution_count": None, "source": WHICH}]
    (tmp_path / "files").mkdir()
    (tmp_path / "out").mkdir()
    ran = execute(
        notebook,
        tmp_path / "files",
        assignment.name,
        to=tmp_path / "out",
        fork_server=forks_per_assignment.for_notebooks(assignment),
    )
    assert ran.outcome.is_copy
    assert ran.notebook["cells"][0]["outputs"][0]["text"] == "True True\n"
    assert run(WHICH, forks_per_assignment.for_judges(assignment)).stdout == b"True True\n"


def test_no_fork_server_has_the_hidden_checks() -> None:
    code = "import sys; print([name for name in sys.modules if 'hidden' in name])"
    for forks in (forks_per_assignment.for_notebooks, forks_per_assignment.for_judges):
        assert run(code, forks(assignments.named("a2"))).stdout == b"[]\n"


@pytest.mark.parametrize("program", ["checks", "notebook"])
def test_what_is_imported_late_exists(program: str) -> None:
    """A fork server passes over names that are no module: an old one would cost seconds unseen."""
    shorts = [one.short for one in assignments.find()]
    names = [name for short in shorts for name in imported_late(short, program)]
    assert names
    assert [name for name in names if importlib.util.find_spec(name) is None] == []
