"""The first program in a student's sandbox: bring the course, and run `workbook lab`.

    python inside.py DESCRIPTOR

launch.py starts it. It copies from the class's checkout, which the sandbox shows read-only under
/class, what the student's own checkout needs: the sources of the lectures, the assignments and the
models. Of a file that both have, the newer one stays. So what an instructor updates comes with the
student's next start, and what the student has changed since then is kept. Notebooks are copied by
`workbook lab`, which has rules of its own for them (workbook/lab/reader_copy.py).
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from forwarding import forward, listen

#: The class's files in the sandbox, and the socket that leads to the hub.
CLASS, HUB = Path("/class"), Path("/run/hub.sock")


def bring_course(home: Path) -> None:
    """Copy the class's files into the student's checkout, where they are new or newer.

    Raises:
        CalledProcessError: a file cannot be read or written; cp's message is in the hub's log.
    """
    home.mkdir(exist_ok=True)
    options = ("--recursive", "--update", "--preserve=mode,timestamps", "--no-target-directory")
    for source in sorted(path for path in CLASS.iterdir() if path.is_dir()):
        subprocess.run(["cp", *options, source, home / source.name], check=True)


def port(variable: str) -> int:
    """The port in the address that a variable of the environment holds.

    Raises:
        KeyError, ValueError: there is none. JupyterHub sets both variables.
    """
    found = urlsplit(os.environ[variable]).port
    if found is None:
        raise ValueError(f"{variable} has no port: {os.environ[variable]}")
    return found


async def main(descriptor: int) -> int:
    """Run the student's server until it ends; returns its exit status.

    Args:
        descriptor: the listening Unix socket for connections from outside.
    """
    incoming = await forward(socket.socket(fileno=descriptor), port("JUPYTERHUB_SERVICE_URL"))
    outgoing = await forward(listen(port("JUPYTERHUB_API_URL")), HUB)
    os.chdir(os.environ["HOME"])  # bubblewrap could not: the folder is the student's alone
    await asyncio.to_thread(bring_course, Path(os.environ["WORKBOOK_HOME"]))
    lab = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workbook.cli", "lab", "--no-browser"
    )
    code = await lab.wait()
    incoming.close()
    outgoing.close()
    return code


if __name__ == "__main__":
    # Not asyncio.run, which would wait for connections that are still open.
    os._exit(asyncio.new_event_loop().run_until_complete(main(int(sys.argv[1]))))
