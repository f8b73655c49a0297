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
CRASHED = re.compile(rb"^Signal \((?:6|11)\) received\.$", re.MULTILINE)  # SIGABRT, SIGSEGV
PATIENCE = 3.0  # seconds from that line until the server has ended; the trace takes some tenths
LOAD = "--load-model="
EXPLICIT = "--model-control-mode=explicit"


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
    while True:
        begin = os.fstat(log).st_size
        server = start(argv, orders, log, libc)
        if orders.get("loaded") and restarted[-1] > 0:
            loader = load_behind(sys.argv[1], orders, log)
        with open(orders["log"], "rb") as lines:
            lines.seek(begin)
            why = wait(server, wake, orders.get("owner_fd"), loader, lines)
        again = not why and crashed(server) and bool(orders.get("loaded"))
        again = again and time.monotonic() - restarted[-RESTARTS] > WITHIN
        # restart.py leaves out a model that ends the server during its load: no limit is needed.
        incomplete = incomplete + 1 if loader is not None and loader.poll() != 0 else 0
        again = again and (incomplete < RESTARTS or EXPLICIT in argv)
        kept = "" if again or why else orders.get("kept")
        after = f". Its log is kept: {kept}" if kept else ""
        after = ". It is started again with its models." if again else after
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
            with contextlib.suppress(OSError):
                os.unlink(orders["pidfile"])  # run_folders.py: from here on it counts as ended
        end_orphans()
        for path in glob.glob(f"/dev/shm/{glob.escape(orders['shm_prefix'])}*"):
            with contextlib.suppress(OSError):
                os.unlink(path)
        if not again:
            return 0
        restarted.append(time.monotonic())
        argv = [w for w in argv if EXPLICIT not in argv or not w.startswith(LOAD)]


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
) -> str:
    """Wait until the server has ended, or until somebody asks for its end; returns who, or "".

    Args:
        loader: the process that loads the server's models, or None. When it ends, the server runs
            on.
        lines: the log, from the first line of this server on.
    """
    watched = [wake] + ([owner] if owner is not None else [])
    last, crashed_at = b"", None
    while server.poll() is None:
        if loader is not None:
            loader.poll()
        if crashed_at is None:
            text = last + lines.read()
            crashed_at = time.monotonic() if CRASHED.search(text) else None
            last = text[text.rfind(b"\n") + 1 :][:64]  # a line that is not written to its end
        elif time.monotonic() - crashed_at > PATIENCE:
            server.kill()
        ready, _, _ = select.select(watched, [], [], 1.0)
        if owner in ready and not os.read(owner, 1):
            return "the process that started it has ended, or has closed its pipe to the guard"
        if wake in ready:
            for got in os.read(wake, 256):
                if got != signal.SIGCHLD:
                    return f"its guard got {signal_name(got)}"
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
