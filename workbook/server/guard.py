"""The guard: a small process that starts a tritonserver and removes all that it leaves behind.

`python guard.py ORDERS.json` starts the server and waits until it ends. The *owner* is the process
that started the guard; a detached server has none. No process is left running when the server, the
owner or the guard ends:

- When the server ends, the guard writes into its log why: the exit status or the signal, or who
  asked the guard to stop it. `ENDED` begins that line.
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
import glob
import json
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
ENDED = "The server has ended: "
GRACE = 8.0  # seconds between SIGTERM and SIGKILL; --exit-timeout-secs counts twice


def main() -> int:
    """Start the server of the orders file, wait, and clean up; returns the exit status 0."""
    with open(sys.argv[1], encoding="utf-8") as file:
        orders = json.load(file)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    # Signals arrive as bytes on a pipe, so that one select() waits for signals and for the owner.
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)

    guard = os.getpid()

    def in_child() -> None:
        os.setpgid(0, 0)  # Ctrl-C in a terminal reaches the guard, and not the server
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != guard:  # the guard died between fork and prctl
            os._exit(1)

    log = os.open(orders["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    server = subprocess.Popen(
        orders["argv"],
        cwd=orders["cwd"],
        env=orders["env"],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        preexec_fn=in_child,  # noqa: PLW1509 - this process has one thread
    )
    with open(orders["pidfile"], "w", encoding="utf-8") as file:
        file.write(f"{server.pid}\n")

    owner = orders.get("owner_fd")
    watched = [wake_read] + ([owner] if owner is not None else [])
    why = ""
    while server.poll() is None and not why:
        ready, _, _ = select.select(watched, [], [], 1.0)
        if owner in ready and not os.read(owner, 1):
            why = "the process that started it has ended, or has closed its pipe to the guard"
        if wake_read in ready:
            for got in os.read(wake_read, 256):
                if got != signal.SIGCHLD:
                    why = f"its guard got {signal_name(got)}"
    with contextlib.suppress(OSError):  # a full disk
        os.write(log, f"{ENDED}{why or how(server.wait())}\n".encode())
    if server.poll() is None:
        server.terminate()
        deadline = time.monotonic() + GRACE
        while server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
    if server.poll() is None:
        server.kill()
        server.wait()
    with contextlib.suppress(OSError):
        os.unlink(orders["pidfile"])  # run_folders.py: from here on the server counts as ended
    end_orphans()
    for path in glob.glob(f"/dev/shm/{glob.escape(orders['shm_prefix'])}*"):
        with contextlib.suppress(OSError):
            os.unlink(path)
    return 0


def how(status: int) -> str:
    """What a process's return code says: `"signal 11 (SIGSEGV)"`, or `"exit status 1"`."""
    return signal_name(-status) if status < 0 else f"exit status {status}"


def signal_name(number: int) -> str:
    """A signal's number and name: `"signal 11 (SIGSEGV)"`."""
    with contextlib.suppress(ValueError):
        return f"signal {number} ({signal.Signals(number).name})"
    return f"signal {number}"


def children() -> list[int]:
    """The ids of the guard's child processes, with those left by the server (see proc(5))."""
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
