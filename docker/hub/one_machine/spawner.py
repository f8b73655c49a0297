"""`StudentSpawner`: JupyterHub starts each student's server in a sandbox of its own.

On one machine all students would share one loopback device, and everybody who reaches the ports of
a student's Triton can load code into it. So each server runs in a sandbox (launch.py) with a
network, processes, shared memory and files of its own. There Triton has its usual ports, and nobody
else reaches them.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from urllib.parse import quote

from jupyterhub.spawner import LocalProcessSpawner
from jupyterhub.utils import wait_for_http_server
from traitlets import Unicode

from workbook.common import paths

_LAUNCH = Path(__file__).with_name("launch.py")


class NotStarted(Exception):
    """A student's server ended before it answered."""

    #: What JupyterHub shows to the student.
    jupyterhub_message = "Your server did not start. Tell your instructor: the hub's log says why."


class StudentSpawner(LocalProcessSpawner):  # type: ignore[misc]  # JupyterHub carries no types
    """Starts `launch.py` for a student. No user of the system is needed.

    c.JupyterHub.spawner_class = StudentSpawner
    c.StudentSpawner.students = "/srv/class"
    """

    students = Unicode(help="The folder with one folder per student.").tag(config=True)
    shared = Unicode(
        "", help="A folder that students may read as /shared; for git repositories behind links."
    ).tag(config=True)

    @property
    def folder(self) -> Path:
        """The student's folder: the name, with all but letters, digits, `_`, `-`, `~` escaped.

        Two students never share a folder, and no name leads out of `students`.
        """
        return Path(self.students) / quote(self.user.name, safe="").replace(".", "%2E")

    def make_preexec_fn(self, name: str) -> None:
        """Nothing is done before the start: the sandbox changes the user, if it has to."""

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        """Tell launch.py where the class's checkout is. It chooses what a student gets."""
        return {**env, "WORKBOOK_HOME": str(paths.root())}

    async def start(self) -> tuple[str, int]:
        """Start the server, and wait until JupyterLab answers; returns its address.

        Raises:
            NotStarted: it ended before JupyterLab answered. JupyterHub itself would wait until
                `http_timeout`.
        """
        self.cmd = [sys.executable, str(_LAUNCH), str(self.folder)]
        self.args = [f"--memory={self.mem_limit}"] if self.mem_limit else []
        self.args += [f"--shared={self.shared}"] if self.shared else []
        ip, port = await super().start()
        address = f"http://{ip}:{port}{self.server.base_url}"
        answers = asyncio.ensure_future(wait_for_http_server(address, timeout=self.http_timeout))
        while not answers.done():
            if await self.poll() is not None:
                answers.cancel()
                raise NotStarted
            await asyncio.wait([answers], timeout=0.5)
        await answers
        return ip, port
