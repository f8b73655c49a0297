"""The kernel of a notebook, as a fork of the program that runs the notebook.

Jupyter starts a kernel as a new Python process, which imports IPython and then what the notebook
imports. notebook_program.py may be a copy of a fork server, with all of that imported. So it forks
the kernel from itself, before it has read anything of the submission or has opened its results.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

_LONGEST = 1 << 16


class KernelProcess:
    """A process that waits for orders, and then becomes an IPython kernel.

    It has the methods and attributes of `subprocess.Popen` that Jupyter's provisioner uses.

    Attributes:
        pid: its process id.
    """

    stdin = stdout = stderr = None

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._status: int | None = None
        self._orders = ours
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            with theirs:
                os.set_inheritable(theirs.fileno(), False)
                _become_kernel(theirs)

    def begin(self, arguments: list[str], variables: dict[str, str], cwd: str) -> None:
        """Let it be a kernel.

        Args:
            arguments: for ipykernel, such as `["-f", connection_file]`.
            variables: its environment variables, beside the number of this process: when this
                process ends, the kernel ends.
            cwd: its working folder.
        """
        with self._orders:
            variables = {**variables, "JPY_PARENT_PID": str(os.getpid())}
            self._orders.send(json.dumps([arguments, variables, cwd]).encode())

    def poll(self) -> int | None:
        """Its exit status; None while it runs."""
        if self._status is None:
            with contextlib.suppress(ChildProcessError):
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def wait(self) -> int:
        """Wait until it has ended; returns its exit status."""
        while (status := self.poll()) is None:
            time.sleep(0.01)
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)


def _become_kernel(orders: socket.socket) -> None:
    """In the forked process: wait for the orders, and be a kernel until it ends."""
    os.setsid()
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - before anything else is imported
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # standard output is the pipe of the results
    kept = orders.fileno()
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
    message = orders.recv(_LONGEST)
    orders.close()
    if not message:
        os._exit(0)
    arguments, variables, cwd = json.loads(message)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(cwd)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()  # else the runner's and the kernel's random numbers would be the same
    sys.argv = ["ipykernel", *arguments]

    from ipykernel.kernelapp import IPKernelApp

    class KernelApp(IPKernelApp):
        """Lets the notebook import modules beside it, as in JupyterLab.

        IPython puts "" into `sys.path` before the first folder of installed packages, but not where
        Python runs in isolated mode (`sys.flags.safe_path`), as it does here.
        """

        def init_path(self) -> None:
            places = [
                Path(folder).name in ("site-packages", "dist-packages") for folder in sys.path
            ]
            sys.path.insert(places.index(True) if any(places) else 0, "")

    KernelApp.launch_instance(arguments)
    sys.exit()
