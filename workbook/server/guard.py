"""The guard: a small process that starts a tritonserver and removes all that it leaves behind.

`python guard.py ORDERS.json` starts the server and waits until it ends. The *owner* is the process
that started the guard; a detached server has none. No process is left running when the server, the
owner or the guard ends:

- When the server ends, the guard writes into its log why: the exit status or the signal, or who
  asked the guard to stop it. `ENDED` begins that line.
- When a signal that nobody asked for has ended the server (it crashed, or memory was short), and
  the orders name a file `loaded`, the guard starts it again: at most three times a minute, and at
  most three times in a row if it crashes before it has loaded its models. With the model control
  mode "explicit" the server starts without models, so that it answers at once. Another process
  (restart.py) then loads the models that it had. In the other modes Triton loads all models before
  it opens its ports.
- If it is not started again, the guard keeps its log: the orders may name a file `kept` for it. The
  run folder is removed by the next command.
- A server that has crashed writes a stack trace before it ends, and for that it allocates memory.
  If its heap is damaged, this allocation can wait for ever: the server answers nothing and does not
  end. The guard reads in the log that the server has crashed (`CRASHED`), and kills it `PATIENCE`
  seconds later.
- A *lecture's server* is paused while nobody uses it (`Lecture`): the server ends, the guard stays.
  The guard keeps the server's ports, and starts the server again with its models when a cell of its
  notebook runs.
- When the server ends, its Python stubs become children of the guard, because the guard is a child
  subreaper. The guard kills them, removes the server's shared memory (the names begin with the
  server's own prefix), and exits.
- When the owner ends, a pipe from it to the guard is closed. The guard reads end of file and stops
  the server.
- When the guard is killed, the kernel sends SIGTERM to the server, which has asked for that with
  PR_SET_PDEATHSIG.

It uses the standard library only and imports nothing of this package, so that it starts in
milliseconds. See prctl(2) for PR_SET_CHILD_SUBREAPER and PR_SET_PDEATHSIG.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import glob
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import IO, Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
ENDED = "The server has ended: "
GRACE = 8.0  # seconds between SIGTERM and SIGKILL; --exit-timeout-secs counts twice
RESTARTS, WITHIN = 3, 60.0  # at most this many restarts within this many seconds
ASKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # the signals by which somebody ends it
CRASHED = re.compile(rb"^Signal \((6|11)\) received\.$", re.MULTILINE)  # SIGABRT, SIGSEGV
PATIENCE = 3.0  # seconds from that line until the server has ended; the trace takes some tenths
LOAD = "--load-model="
EXPLICIT = "--model-control-mode=explicit"
BEGIN, END = b"+", b"-"  # the owner of a lecture's server writes them: a cell begins, a cell ends
RELEASE = "release"  # a file in the run folder: another lecture asks that this server be paused
PAUSED = "paused"  # a file in the run folder: this server is paused
NEXT = "another lecture has started its own"
IDLE = "nobody has used it for some time"


def main() -> int:
    """Start the server of the orders file, wait, and clean up; returns the exit status 0."""
    with open(sys.argv[1], encoding="utf-8") as file:
        orders = json.load(file)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    # Signals arrive as bytes on a pipe, so that one select() waits for signals and for the owner.
    wake, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in (*ASKED, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)

    log = os.open(orders["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    argv, restarted = orders["argv"], [float("-inf")] * RESTARTS
    loader, incomplete = None, 0
    lecture = Lecture(orders) if orders.get("lecture") else None
    while True:
        begin = os.fstat(log).st_size
        server = start(argv, orders, log, libc)
        if orders.get("loaded") and restarted[-1] > 0:
            loader = load_behind(sys.argv[1], orders, log)
        if lecture is not None:
            remove(lecture.paused)
        with open(orders["log"], "rb") as lines:
            lines.seek(begin)
            owner = orders.get("owner_fd")
            why = wait(server, wake, owner, loader, lines, lecture)
        paused = why in (NEXT, IDLE)
        again = not why and crashed(server) and bool(orders.get("loaded")) and lecture is None
        again = again and time.monotonic() - restarted[-RESTARTS] > WITHIN
        # restart.py leaves out a model that ends the server during its load: no limit is needed.
        incomplete = incomplete + 1 if loader is not None and loader.poll() != 0 else 0
        again = again and (incomplete < RESTARTS or EXPLICIT in argv)
        kept = "" if again or why else orders.get("kept")
        if again:
            after = ". It is started again with its models."
        elif paused:
            after = ". It is started again when a cell of its notebook runs."
        else:
            after = f". Its log is kept: {kept}" if kept else ""
        when = time.strftime("%H:%M:%S")
        with contextlib.suppress(OSError):  # a full disk
            os.write(
                log,
                f"{ENDED}{why or describe_status(server.returncode)}, at {when}{after}\n".encode(),
            )
        if kept:
            keep(orders["log"], kept)
        end(server)
        if not again:
            remove(orders["pidfile"])  # run_folders.py: from here on it counts as ended
        end_orphans()
        for path in glob.glob(f"/dev/shm/{glob.escape(orders['shm_prefix'])}*"):
            remove(path)
        if lecture is not None and paused:
            again = wait_for_cell(wake, orders, lecture)
        if not again:
            return 0
        restarted.append(time.monotonic())
        argv = [w for w in argv if EXPLICIT not in argv or not w.startswith(LOAD)]


class Lecture:
    """Decides when a lecture's server is paused: never while a cell of its notebook runs.

    It is paused when another lecture asks for that (the file RELEASE), and when for `idle` seconds
    no cell has run and the server's counts of requests have not changed.

    The owner may begin a cell at any time. It writes BEGIN first, and looks for the file PAUSED
    then. `reason_to_pause` makes this file first, and looks for BEGIN then. So at least one of the
    two sees what the other one does.
    """

    def __init__(self, orders: dict[str, Any]) -> None:
        self._orders = orders
        folder = os.path.dirname(orders["pidfile"])
        self._release, self.paused = os.path.join(folder, RELEASE), os.path.join(folder, PAUSED)
        self.cell_runs = True  # the one that starts the server
        self._used = self._looked = time.monotonic()
        self._counts: list[str] | None = None

    def note(self, words: bytes) -> None:
        """Note what the owner has written."""
        self.cell_runs = words.endswith(BEGIN)
        self._used = time.monotonic()
        if BEGIN in words:
            remove(self._release)

    def reason_to_pause(self) -> str:
        """NEXT or IDLE if the server is to be paused now, else "".

        The file PAUSED is there afterwards, and the file `loaded` has the models that are ready.
        """
        if self.cell_runs:
            return ""
        now, idle = time.monotonic(), self._orders["lecture"]["idle"]
        why = NEXT if os.path.exists(self._release) else ""
        if not why and now - self._looked > idle / 10:
            self._looked = now
            text = ask(self._orders, "metrics", "GET /metrics")
            counts = [line for line in text.splitlines() if line.startswith("nv_inference_")]
            if counts != self._counts:
                self._counts, self._used = counts, now
        if not why and now - self._used > idle:
            why = IDLE
        if not why or not self._save_models():
            return ""
        with open(self.paused, "wb"):
            pass
        if select.select([self._orders["owner_fd"]], [], [], 0)[0]:
            remove(self.paused)
            return ""
        return why

    def _save_models(self) -> bool:
        """Write the models that are ready into the file `loaded`; False if they are not known."""
        if EXPLICIT not in self._orders["argv"]:
            return True
        try:
            index = json.loads(ask(self._orders, "HTTP", "POST /v2/repository/index"))
            lines = [f"+{model['name']}\n" for model in index if model.get("state") == "READY"]
            with open(self._orders["loaded"], "w", encoding="utf-8") as file:
                file.writelines(lines)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return False
        return True


def ask(orders: dict[str, Any], endpoint: str, request: str) -> str:
    """Send a request without a body to the server, and return the body of its answer, or ""."""
    place = (orders["address"], orders["ports"][endpoint])
    with contextlib.suppress(OSError), socket.create_connection(place, timeout=5.0) as connection:
        connection.sendall(f"{request} HTTP/1.0\r\nContent-Length: 0\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        return answer.partition(b"\r\n\r\n")[2].decode("utf-8", errors="replace")
    return ""


def wait_for_cell(wake: int, orders: dict[str, Any], lecture: Lecture) -> bool:
    """Wait until a cell of the notebook runs. False if the owner or a signal asks for the end.

    Meanwhile the server's ports are bound, so that no other program gets them.
    """
    owner, address = orders["owner_fd"], orders["address"]
    with contextlib.ExitStack() as held:
        for port in orders["ports"].values():
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            holder = held.enter_context(socket.socket(family))
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                holder.bind((address, port))
        while True:
            ready, _, _ = select.select([wake, owner], [], [])
            if owner in ready:
                words = os.read(owner, 256)
                lecture.note(words)
                if not words or lecture.cell_runs:
                    return bool(words)
            if wake in ready and any(got != signal.SIGCHLD for got in os.read(wake, 256)):
                return False


def remove(path: str) -> None:
    """Remove a file, if it is there."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def start(
    argv: list[str], orders: dict[str, Any], log: int, libc: ctypes.CDLL
) -> subprocess.Popen[bytes]:
    """Start the server, and write its process number into the orders' file for it."""
    guard = os.getpid()

    def in_child() -> None:
        os.setpgid(0, 0)  # Ctrl-C in a terminal reaches the guard, and not the server
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != guard:  # the guard died between fork and prctl
            os._exit(1)

    server = subprocess.Popen(
        argv,
        cwd=orders["cwd"],
        env=orders["env"],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        preexec_fn=in_child,  # noqa: PLW1509 - this process has one thread
    )
    whole = f"{orders['pidfile']}.new"
    with open(whole, "w", encoding="utf-8") as file:
        file.write(f"{server.pid}\n")
    os.replace(whole, orders["pidfile"])
    return server


def load_behind(file: str, orders: dict[str, Any], log: int) -> subprocess.Popen[bytes]:
    """Start the process that loads the models of a server that was started again (restart.py).

    Args:
        file: the orders' file.
    """
    code = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    # A lock on this file, which the process inherits, says that it is at work (common/locks.py).
    lock = os.open(orders["loading"], os.O_RDWR | os.O_CREAT, 0o600)
    with contextlib.suppress(OSError):
        whole_file = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(lock, fcntl.F_OFD_SETLK, whole_file)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "workbook.server.restart", file],
            cwd=code,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock,),
        )
    finally:
        os.close(lock)


def wait(
    server: subprocess.Popen[bytes],
    wake: int,
    owner: int | None,
    loader: subprocess.Popen[bytes] | None,
    lines: IO[bytes],
    lecture: Lecture | None,
) -> str:
    """Wait until the server has ended, or is to end; returns why it is to end, or "".

    Args:
        loader: the process that loads the server's models, or None. When it ends, the server runs
            on.
        lines: the log, from the first line of this server on.
        lecture: decides when the server is paused; None for a server that is not a lecture's.
    """
    watched = [wake] + ([owner] if owner is not None else [])
    last, crash, crashed_at = b"", None, 0.0
    while server.poll() is None:
        if loader is not None:
            loader.poll()
        if crash is None:
            text = last + lines.read()
            crash, crashed_at = CRASHED.search(text), time.monotonic()
            last = text[text.rfind(b"\n") + 1 :][:64]  # a line that is not written to its end
        elif time.monotonic() - crashed_at > PATIENCE:
            server.kill()
            server.wait()
            server.returncode = -int(crash[1])  # the signal that ended it is not our SIGKILL
            return ""
        ready, _, _ = select.select(watched, [], [], 1.0)
        if owner in ready:
            words = os.read(owner, 256)
            if not words:
                return "the process that started it has ended, or has closed its pipe to the guard"
            if lecture is not None:
                lecture.note(words)
        if wake in ready:
            for got in os.read(wake, 256):
                if got != signal.SIGCHLD:
                    return f"its guard got {signal_name(got)}"
        is_loading = loader is not None and loader.poll() is None
        if lecture is not None and not is_loading and (why := lecture.reason_to_pause()):
            return why
    return ""


def keep(log: str, kept: str) -> None:
    """Give a log a second name, outside of the run folder; it replaces an older log there."""
    with contextlib.suppress(OSError):
        os.unlink(kept)
    with contextlib.suppress(OSError):
        os.link(log, kept)


def crashed(server: subprocess.Popen[bytes]) -> bool:
    """Whether a signal has ended the server that is not a request to end (`ASKED`)."""
    return server.returncode < 0 and -server.returncode not in ASKED


def end(server: subprocess.Popen[bytes]) -> None:
    """End a server: SIGTERM, and SIGKILL after GRACE seconds."""
    if server.poll() is None:
        server.terminate()
        deadline = time.monotonic() + GRACE
        while server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
    if server.poll() is None:
        server.kill()
        server.wait()


def describe_status(status: int) -> str:
    """A process's return code in words: `"signal 11 (SIGSEGV)"`, or `"exit status 1"`."""
    return signal_name(-status) if status < 0 else f"exit status {status}"


def signal_name(number: int) -> str:
    """A signal's number and name: `"signal 11 (SIGSEGV)"`."""
    with contextlib.suppress(ValueError):
        return f"signal {number} ({signal.Signals(number).name})"
    return f"signal {number}"


def children() -> list[int]:
    """The ids of the guard's child processes, those left by the server included (see proc(5))."""
    pid = os.getpid()
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]
    return []


def end_orphans() -> None:
    """Kill every process that the server left behind, with their child processes."""
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        for pid in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return  # no child is left
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())
