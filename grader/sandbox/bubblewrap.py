"""Bubblewrap as one function: a command in, an outcome out.

    outcome = run(["/usr/bin/python3", "-c", "print(6 * 7)"], limits=Limits(wall_s=10))
    outcome.stdout      # b"42\\n"

What a sandbox has: the system's programs and what the caller binds, all read-only; a loopback
device of its own; its own processes, IPC and host name; `/tmp` and `/dev/shm` of limited size in
memory. Nothing that can be written inside reaches the disk: results leave as bytes on standard
output. What it has not: other files, other processes, the network, capabilities, the caller's
environment.

Limits are kept three times over: by the kernel for each process (prlimit(1)), by the kernel for
all of them where a pids cgroup can be made (cgroup.py), and by a supervisor in this process that
looks every tenth of a second and ends the whole sandbox at once, by killing the init of its PID
namespace. When the supervisor is killed, bubblewrap ends the sandbox (--die-with-parent).

Two things that bubblewrap's own options do not see to: for root, the files under /proc/sys would
be the machine's own and writable, so /proc is read-only; and what bubblewrap is started with can
be read inside (/proc/1), so it gets no environment and its arguments through a descriptor. System
calls that get around the accounts are filtered (seccomp.py).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self

from workbook.common.errors import WorkbookError

from . import cgroup, process_tree, seccomp

Network = Literal["own", "outer"]
Isolation = Literal["sandbox", "unsandboxed"]
Stopped = Literal["", "wall clock", "cpu", "memory", "processes", "output", "asked"]

_TICK = 0.1  # seconds between two looks
_SPARE = 16  # processes above the limit that the kernel still grants, so that the look sees them
_STDERR = 16 << 10  # bytes of standard error kept: the last ones
_WRITABLE = ("/tmp", "/dev/shm")  # inside the sandbox, tmpfs both
_USER = 1000  # inside the sandbox everybody is this user, whoever started it

_ETC: Mapping[str, str] = {
    "/etc/passwd": f"student:x:{_USER}:{_USER}::/tmp/home:/bin/sh\n",
    "/etc/group": f"student:x:{_USER}:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
_ETC_OF_HOST = ("ld.so.cache", "alternatives", "localtime", "mime.types", "fonts")
_SYSTEM = ("bin", "sbin", "lib", "lib64", "lib32", "libx32")


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a sandbox may use.

    Attributes:
        wall_s: seconds from start to end.
        cpu_s: seconds of processor time, all processes together, ended ones included.
        memory_bytes: all processes and the writable folders together. One process that asks for
            more gets a MemoryError; several that hold more end the sandbox.
        processes: processes and threads at a time.
        file_bytes: the largest single file.
        scratch_bytes: the size of each writable folder, `/tmp` and `/dev/shm`.
        output_bytes: standard output, and standard error, each.
        open_files: file descriptors a process.
    """

    wall_s: float = 300.0
    cpu_s: float = 600.0
    memory_bytes: int = 4 << 30
    processes: int = 1024
    file_bytes: int = 1 << 30
    scratch_bytes: int = 2 << 30
    output_bytes: int = 256 << 20
    open_files: int = 4096


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Attributes:
        code: its exit status; negative for a signal; -9 where a limit stopped it.
        stdout: all it wrote there, at most `output_bytes`.
        stderr: the last 16 KiB.
        seconds, cpu_seconds: wall clock and processor time.
        peak_bytes: the most memory seen at one look.
        stopped: the limit that ended it, or "".
        isolated: False where it ran without a sandbox because the caller asked for that.
    """

    code: int
    stdout: bytes
    stderr: str
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    stopped: Stopped
    isolated: bool


class Running:
    """A command in a sandbox that goes on by itself: a server. A context manager.

    A thread supervises it; `stop()` ends it with all it started.

    Attributes:
        pid: the sandbox's first process, as the caller sees it.
    """

    def __init__(self, task: _Task) -> None:
        self._task = task
        self.pid = task.root
        self._outcome: Outcome | None = None
        self._thread = threading.Thread(target=self._supervise, name="sandbox", daemon=True)
        self._thread.start()

    def _supervise(self) -> None:
        self._outcome = self._task.supervise()

    def alive(self) -> bool:
        """Whether the command still runs."""
        return self._thread.is_alive()

    def log(self) -> str:
        """What it has written so far: the first `output_bytes` of standard output, then the end
        of standard error."""
        return bytes(self._task.stdout).decode(errors="replace") + self._task.stderr_text()

    def wait(self, timeout: float | None = None) -> Outcome | None:
        """Its outcome when it ends within `timeout` seconds, else None."""
        self._thread.join(timeout)
        return self._outcome

    def stop(self) -> Outcome:
        """End it and say how it went. Stopping twice does no harm."""
        self._task.end("asked")
        self._thread.join()
        assert self._outcome is not None
        return self._outcome

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def run(
    command: Sequence[str],
    *,
    read_only: Mapping[str, Path] | None = None,
    stdin: bytes | IO[bytes] = b"",
    environment: Mapping[str, str] | None = None,
    cwd: str = "/tmp",
    limits: Limits | None = None,
    network: Network = "own",
    nesting: bool = False,
    isolation: Isolation = "sandbox",
) -> Outcome:
    """Run a command in a sandbox and return when it, and all it started, has ended.

    Args:
        command: program and arguments; the program's path as it is inside.
        read_only: path inside → file or folder outside, bound read-only, in this order.
        stdin: bytes, or an open file that the command reads.
        environment: all its variables but PATH, HOME, LANG and TMPDIR, which have defaults.
        cwd: the folder inside in which it starts.
        limits: what it may use.
        network: `own`, a loopback device that nothing else reaches; `outer`, the caller's, for a
            sandbox within a sandbox.
        nesting: let it start sandboxes itself. For programs of ours only: where the caller is
            root, such a sandbox sees the machine's `/proc`.
        isolation: `unsandboxed` runs the command as it is, within the same limits; `read_only`
            and `network` mean nothing then, and a private folder takes the place of `/tmp` in
            `cwd` and in the environment. Only for a caller told so in words.

    Raises:
        WorkbookError: the machine allows no sandbox, or something to be bound is not there.
    """
    return _Task(
        command,
        read_only=read_only or {},
        stdin=stdin,
        environment=environment or {},
        cwd=cwd,
        limits=limits or Limits(),
        network=network,
        nesting=nesting,
        isolation=isolation,
    ).supervise()


def start(
    command: Sequence[str],
    *,
    read_only: Mapping[str, Path] | None = None,
    environment: Mapping[str, str] | None = None,
    cwd: str = "/tmp",
    limits: Limits | None = None,
    network: Network = "own",
    isolation: Isolation = "sandbox",
) -> Running:
    """Start a command in a sandbox and return at once; the arguments are those of `run`.

    The sandbox ends with the thread that calls this, if not before.

    Raises:
        WorkbookError: as `run` does.
    """
    return Running(
        _Task(
            command,
            read_only=read_only or {},
            stdin=b"",
            environment=environment or {},
            cwd=cwd,
            limits=limits or Limits(),
            network=network,
            nesting=False,
            isolation=isolation,
        )
    )


class _Task:
    """One command, started; `supervise()` sees it to its end."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        read_only: Mapping[str, Path],
        stdin: bytes | IO[bytes],
        environment: Mapping[str, str],
        cwd: str,
        limits: Limits,
        network: Network,
        nesting: bool,
        isolation: Isolation,
    ) -> None:
        self.limits = limits
        self.isolated = isolation == "sandbox"
        self.stdout = bytearray()
        self._stderr = bytearray()
        self._stderr_size = 0
        self._cpu = 0.0
        self._peak = 0
        self._stopped: Stopped = ""
        self._group: cgroup.Pids | None = None
        self._pidfd = -1
        self._private: str | None = None
        self._status: IO[bytes] | None = None  # what bubblewrap itself tells, in lines of JSON
        self._began = time.monotonic()
        variables = {
            "PATH": "/usr/bin:/bin",
            "HOME": "/tmp/home",
            "LANG": "C.UTF-8",
            "TMPDIR": "/tmp",
            **environment,
        }
        limited = [*_prlimit(limits), *command]
        with contextlib.ExitStack() as mine:  # descriptors that only the child keeps
            source = mine.enter_context(_memory_file(stdin)) if isinstance(stdin, bytes) else stdin
            if not self.isolated:
                self._private = tempfile.mkdtemp(prefix="unsandboxed-")
                (Path(self._private) / "home").mkdir()
                self._process = subprocess.Popen(
                    limited,
                    stdin=source,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={name: self._moved(value) for name, value in variables.items()},
                    cwd=self._moved(cwd),
                    start_new_session=True,
                )
                self.root = self._process.pid
                self._pidfd = os.pidfd_open(self.root)
                return
            status_read, status_write = os.pipe()
            self._status = os.fdopen(status_read, "rb")
            block_read, block_write = os.pipe()
            mine.callback(os.close, block_write)
            inherited = [status_write, block_read]
            arguments = _arguments(read_only, variables, cwd, limits, network, nesting)
            self._group = cgroup.pids(limits.processes + _SPARE)
            if self._group is not None and nesting:
                arguments += ["--bind", str(self._group.folder), self._group.inside]
            for path, text in _ETC.items():
                file = mine.enter_context(_memory_file(text.encode()))
                inherited.append(file.fileno())
                arguments += ["--ro-bind-data", str(file.fileno()), path]
            filtering = None if nesting else seccomp.program()
            if filtering is not None:
                file = mine.enter_context(_memory_file(filtering))
                inherited.append(file.fileno())
                arguments += ["--seccomp", str(file.fileno())]
            arguments += ["--remount-ro", "/"]
            words = mine.enter_context(_memory_file("\0".join(arguments).encode()))
            inherited.append(words.fileno())
            try:
                self._process = subprocess.Popen(
                    [
                        _bwrap(),
                        *("--json-status-fd", str(status_write), "--block-fd", str(block_read)),
                        *("--args", str(words.fileno())),  # else /proc/1/cmdline tells it all
                        "--",
                        *limited,
                    ],
                    stdin=source,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    pass_fds=inherited,
                    cwd="/",
                    env={},  # what bubblewrap is given can be read in /proc/1/environ
                )
            finally:
                os.close(status_write)
                os.close(block_read)
            told = self._status.readline()
            if not told:
                raise self._refused()
            self.root = int(json.loads(told)["child-pid"])
            try:
                self._pidfd = os.pidfd_open(self.root)
                if self._group is not None:
                    self._group.add(self.root)
            except ProcessLookupError:  # it could not build its rooms, and was quick to say so
                raise self._refused() from None
            with contextlib.suppress(BrokenPipeError):  # supervise() tells why
                os.write(block_write, b"x")

    def supervise(self) -> Outcome:
        """Collect what it writes and keep its limits until it ends."""
        process = self._process
        assert process.stdout is not None
        assert process.stderr is not None
        ended = os.pidfd_open(process.pid)
        next_look = self._began + _TICK
        with selectors.DefaultSelector() as selector:
            for pipe, take in ((process.stdout, self._take), (process.stderr, self._take_error)):
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, take)
            selector.register(ended, selectors.EVENT_READ)
            is_over = False
            while len(selector.get_map()) > (0 if is_over else 1) or not is_over:
                for key, _ in selector.select(max(0.0, next_look - time.monotonic())):
                    if key.fileobj == ended:
                        is_over = True
                        selector.unregister(ended)
                        self._kill()  # what it left behind; the pipes end with the last of it
                    else:
                        self._read(selector, key.fd, key.data)
                if time.monotonic() >= next_look:
                    if not is_over:
                        self._look()
                    next_look = time.monotonic() + _TICK
        os.close(ended)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self._kill()
        seconds = time.monotonic() - self._began
        for pipe in (process.stdout, process.stderr):
            pipe.close()
        self._release()
        if self._status is not None:
            with self._status:
                has_run = b"exit-code" in self._status.read()
            if process.returncode == 1 and not has_run and not self._stopped:
                raise _no_sandbox(self.stderr_text().strip())
        code = process.returncode
        if code > 128:  # bubblewrap's way, and the shell's, to tell of a signal
            code = 128 - code
        return Outcome(
            code=-signal.SIGKILL if self._stopped else code,
            stdout=bytes(self.stdout),
            stderr=self.stderr_text(),
            seconds=seconds,
            cpu_seconds=max(self._cpu, usage.ru_utime + usage.ru_stime),
            peak_bytes=self._peak,
            stopped=self._stopped,
            isolated=self.isolated,
        )

    def end(self, why: Stopped) -> None:
        """End it, for this reason."""
        if not self._stopped and self._process.returncode is None:
            self._stopped = why
        self._kill()

    def stderr_text(self) -> str:
        """The last part of what it wrote to standard error."""
        return bytes(self._stderr[-_STDERR:]).decode(errors="replace")

    def _moved(self, value: str) -> str:
        """Without a sandbox there is no `/tmp` of one's own: a private folder takes its place."""
        return re.sub(r"^/tmp(?=/|$)", lambda _: str(self._private), value)

    def _kill(self) -> None:
        """Kill the namespace's init, and so the kernel kills all in it at once."""
        if not self.isolated:
            for process in process_tree.descendants(self.root):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.root, signal.SIGKILL)
            return
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _look(self) -> None:
        limits = self.limits
        if time.monotonic() - self._began > limits.wall_s:
            return self.end("wall clock")
        if self._group is not None and self._group.refused():
            return self.end("processes")
        if self._group is not None:  # the kernel's own list; else the machine's table is searched
            processes = process_tree.those(self._group.members())
        else:
            processes = process_tree.descendants(self.root)
        if sum(p.threads for p in processes) > limits.processes:
            return self.end("processes")
        self._cpu = max(self._cpu, sum(p.cpu_seconds for p in processes))
        if self._cpu > limits.cpu_s:
            return self.end("cpu")
        scratch = process_tree.tmpfs(self.root, _WRITABLE) if self.isolated else 0
        held = process_tree.memory(processes) + scratch
        if held > limits.memory_bytes:
            held = process_tree.memory_shared(processes, _TICK) + scratch
        self._peak = max(self._peak, held)
        if held > limits.memory_bytes:
            return self.end("memory")
        return None

    def _read(
        self, selector: selectors.BaseSelector, fd: int, take: Callable[[bytes], None]
    ) -> None:
        try:
            data = os.read(fd, 1 << 20)
        except BlockingIOError:
            return
        if data:
            take(data)
        else:
            selector.unregister(fd)

    def _take(self, data: bytes) -> None:
        self.stdout += data[: self.limits.output_bytes - len(self.stdout)]
        if len(self.stdout) >= self.limits.output_bytes:
            self.end("output")

    def _take_error(self, data: bytes) -> None:
        self._stderr_size += len(data)
        self._stderr += data
        del self._stderr[: -2 * _STDERR]
        if self._stderr_size > self.limits.output_bytes:
            self.end("output")

    def _release(self) -> None:
        """Give back what was held of the system for it."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        if self._group is not None:
            self._group.close()
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)

    def _refused(self) -> WorkbookError:
        """Bubblewrap ended before it had a sandbox: its own words, and what mends them."""
        _, said = self._process.communicate()
        if self._status is not None:
            self._status.close()
        self._release()
        return _no_sandbox(said.decode(errors="replace").strip())


def _memory_file(data: bytes) -> IO[bytes]:
    file = os.fdopen(os.memfd_create("sandbox"), "w+b")
    file.write(data)
    file.seek(0)
    return file


def _prlimit(limits: Limits) -> list[str]:
    """The launcher that sets what the kernel keeps for each process; prlimit(1) of util-linux.

    RLIMIT_DATA and not RLIMIT_AS: a server maps far more addresses than it ever uses.
    """
    wanted = {
        "core": (resource.RLIMIT_CORE, 0),
        "cpu": (resource.RLIMIT_CPU, int(limits.cpu_s) + 2),
        "data": (resource.RLIMIT_DATA, limits.memory_bytes),
        "fsize": (resource.RLIMIT_FSIZE, limits.file_bytes),
        "nofile": (resource.RLIMIT_NOFILE, limits.open_files),
        "nproc": (resource.RLIMIT_NPROC, limits.processes + _SPARE),
    }
    words = []
    for name, (number, value) in wanted.items():
        ceiling = resource.getrlimit(number)[1]
        at_most = value if ceiling == resource.RLIM_INFINITY else min(value, ceiling)
        words.append(f"--{name}={at_most}")
    return ["/usr/bin/prlimit", *words, "--"]


def _arguments(
    read_only: Mapping[str, Path],
    variables: Mapping[str, str],
    cwd: str,
    limits: Limits,
    network: Network,
    nesting: bool,
) -> list[str]:
    words = [
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        "--unshare-cgroup-try",
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
        *("--uid", str(_USER), "--gid", str(_USER), "--hostname", "sandbox"),
    ]
    if network == "own":
        words.append("--unshare-net")
    if not nesting and _can_disable_userns():
        words.append("--disable-userns")
    words += ["--ro-bind", "/usr", "/usr"]
    for name in _SYSTEM:
        place = Path("/", name)
        if place.is_symlink():
            words += ["--symlink", str(place.readlink()), str(place)]
        elif place.is_dir():
            words += ["--ro-bind", str(place), str(place)]
    for name in _ETC_OF_HOST:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    size = str(limits.scratch_bytes)
    words += ["--dev", "/dev", "--perms", "1777", "--size", size, "--tmpfs", "/dev/shm"]
    words += ["--remount-ro", "/dev", "--proc", "/proc"]
    if not nesting:
        # The files under /proc/sys belong to the machine's root. Where root starts the sandbox,
        # its processes are that root to the kernel's file permissions, namespace or not.
        words += ["--remount-ro", "/proc"]
    elif os.getuid() == 0:
        # For root bubblewrap covers parts of /proc, and then the kernel allows no second /proc in
        # a sandbox within, unless an uncovered one is in sight (mount_too_revealing in Linux).
        words += ["--bind", "/proc", "/run/proc"]
    words += ["--perms", "1777", "--size", size, "--tmpfs", "/tmp", "--dir", "/tmp/home"]
    lent = _lent(read_only, variables.get("WORKBOOK_HOME", ""))
    for folder in lent:
        words += ["--tmpfs", folder]
    for inside, outside in read_only.items():
        words += ["--ro-bind", str(outside.absolute()), inside]
    for folder in lent:
        words += ["--remount-ro", folder]
    for name, value in variables.items():
        words += ["--setenv", name, value]
    return [*words, "--chdir", cwd]


def _lent(read_only: Mapping[str, Path], home: str) -> list[str]:
    """The folders of /tmp that hold what is seen at its own path, as a checkout in /tmp does.

    Nothing can be written there, as nothing can be beside a checkout elsewhere; but `home`, the
    checkout that a program in the sandbox has for itself, stays as it is.
    """
    places = [Path(p) for p, outside in read_only.items() if p == str(outside.absolute())]
    tops = {Path("/tmp", p.parts[2]) for p in places if Path("/tmp") in p.parents[1:]}
    return sorted(str(top) for top in tops if not Path(home).is_relative_to(top))


def _bwrap() -> str:
    found = shutil.which("bwrap")
    if found is None:
        raise _no_sandbox("")
    return found


@functools.cache
def _can_disable_userns() -> bool:
    """Bubblewrap has the option from 0.8 on; without it, only nesting is not forbidden."""
    helped = subprocess.run([_bwrap(), "--help"], capture_output=True, text=True, check=False)
    return "--disable-userns" in helped.stdout + helped.stderr


def _no_sandbox(said: str) -> WorkbookError:
    if shutil.which("bwrap") is None:
        todo = "Install bubblewrap (Debian, Ubuntu: `apt install bubblewrap`)."
    elif "find source path" in said:
        return WorkbookError("Something that the sandbox should see is not there.", where=said)
    elif Path("/.dockerenv").exists():
        todo = (
            "This is a container whose rules forbid namespaces. Start it with `--security-opt "
            "seccomp=unconfined --security-opt systempaths=unconfined`, or grade outside it."
        )
    elif _says("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"):
        todo = (
            "Ubuntu's AppArmor forbids user namespaces. Allow them to bubblewrap with a profile "
            "in /etc/apparmor.d for /usr/bin/bwrap that says `userns,`, or for all programs: "
            "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`."
        )
    elif _says("/proc/sys/kernel/unprivileged_userns_clone", "0"):
        todo = "Allow user namespaces: `sysctl kernel.unprivileged_userns_clone=1`."
    elif _says("/proc/sys/user/max_user_namespaces", "0"):
        todo = "Allow user namespaces: `sysctl user.max_user_namespaces=15000`."
    else:
        todo = "Grade on a machine, or as a user, that may make user namespaces."
    return WorkbookError(
        "This machine allows no sandbox, so nothing of a student's was run.",
        where=said or "bwrap is not on PATH",
        todo=f"{todo} To run without one, trusting every submission: --unsandboxed.",
    )


def _says(file: str, word: str) -> bool:
    with contextlib.suppress(OSError):
        return Path(file).read_text().strip() == word
    return False


@dataclasses.dataclass(frozen=True)
class Probe:
    """What this machine allows.

    Attributes:
        sandbox: a sandbox works.
        nested: a sandbox within one works, which the judge needs.
        pids_cgroup: the kernel itself bounds the number of processes.
        root: this account is root, for whom RLIMIT_NPROC means nothing.
        level: the same in words.
        error: what is wrong and how to mend it; None where grading can go on.
    """

    sandbox: bool
    nested: bool
    pids_cgroup: bool
    root: bool
    level: str
    error: WorkbookError | None


def probe() -> Probe:
    """Try what grading needs, in a few hundredths of a second, and say what was found."""
    root = os.getuid() == 0
    group = cgroup.pids(64)
    if group is not None:
        group.close()
    kept = group is not None
    try:
        outcome = run(["/bin/true"], limits=Limits(wall_s=20))
        if outcome.code != 0:
            raise _no_sandbox(outcome.stderr.strip())
    except WorkbookError as error:
        return Probe(False, False, kept, root, "no sandbox", error)
    nested = _nested()
    if nested is not None:
        return Probe(True, False, kept, root, "a sandbox, but none within it", nested)
    if kept or not root:
        level = "full: nested sandboxes; the kernel bounds processes"
    else:
        level = "good: nested sandboxes; processes are counted ten times a second"
    return Probe(True, True, kept, root, level, None)


def _nested() -> WorkbookError | None:
    """Why a sandbox within a sandbox does not work; None where it does."""
    outer = _arguments({}, {"PATH": "/usr/bin:/bin"}, "/", Limits(), "own", True)
    inner = _arguments({}, {"PATH": "/usr/bin:/bin"}, "/", Limits(), "outer", False)
    command = [_bwrap(), *outer, "--", "/usr/bin/bwrap", *inner, "--", "/bin/true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    return None if done.returncode == 0 else _no_sandbox(done.stderr.strip())
