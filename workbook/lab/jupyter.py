"""What `make lab` starts: a server with the shared repository's models, and JupyterLab.

`LOADED_FIRST` in server/all_models.py names the models that are loaded before all others.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ..common import paths
from ..common.errors import ServerError, WorkbookError
from ..server import Server, Triton, all_models, connect
from ..server.connection import DEFAULT_HTTP
from ..server.native import forkserver
from ..server.which_repository import WrongRepository

_END = (signal.SIGTERM, signal.SIGHUP)
START = "lectures/00__start/00__start.ipynb"
#: JupyterLab's settings for the course: no news from the network, Markdown shown and not edited.
SETTINGS = Path(__file__).parent / "settings"
#: Server extensions that installed packages switch on, but students do not need. jupytext pairs a
#: notebook with a text file, which could bring a solution back into a student's copy.
_OFF = (
    "jupyterlab_jupytext",
    *(
        f"nbgrader.server_extensions.{name}"
        for name in ("assignment_list", "course_list", "formgrader", "validate_assignment")
    ),
)


def server(*, http: int, grpc: int, metrics: int) -> tuple[Server, Callable[[], None]]:
    """The server to work with, and a function to call when the work is over.

    A server that is there already (TRITON_URL, the checkout's own, the container on the default
    port) is used and left alone; otherwise the laptop server is started on the given ports and
    stopped later.

    Raises:
        ServerError: the server that TRITON_URL names does not answer, another checkout's server
            has the port, or the laptop server did not start.
    """
    try:
        return connect(), lambda: None
    except ServerError as error:
        # If another checkout's server runs, ours can start on other ports.
        in_the_way = isinstance(error, WrongRepository) and http == DEFAULT_HTTP
        if in_the_way or os.environ.get("TRITON_URL"):
            raise
        ahead = {forkserver.AHEAD_VARIABLE: " ".join(_imported_first(paths.repository()))}
        triton = Triton(http=http, grpc=grpc, metrics=metrics, environment=ahead)
        triton.start(remember=True)
        return triton, triton.stop


def _imported_first(repository: Path) -> tuple[str, ...]:
    """The fork servers to start first: those whose packages take longest to import.

    All models are loaded at once. See `workbook/server/native/README.md`.
    """
    files = [repository / name / "1" / "model.py" for name in all_models.names(repository)]
    routes = [forkserver.route([b"", os.fsencode(file), b"DEFAULT"]) for file in files]
    return max(routes, key=len, default=())[1:]


def jupyter(*, browser: bool, port: int, server: Server) -> int:
    """Run JupyterLab in `work/` until it is ended; returns its exit status.

    `workbook.lab.reader_copy.update` makes `work/`; what the reader runs and writes stays in it.
    Where a JupyterHub has started this process, it says where JupyterLab listens, and who may use
    it.

    Args:
        browser: open a browser too. Not under a JupyterHub.
        port: where JupyterLab listens; the next free port where it is taken. Not under a
            JupyterHub.
        server: the notebooks find it in their environment.

    Raises:
        WorkbookError: the port is not one.
    """
    if not 0 < port < 65536:
        raise WorkbookError(f"{port} is not a port.", todo="Ports go from 1 to 65535.")
    folder = paths.work()
    page = f"/lab/tree/{START}" if (folder / START).is_file() else "/lab"
    of_hub = "JUPYTERHUB_API_TOKEN" in os.environ
    command = [
        *(sys.executable, "-m", "jupyterhub.singleuser" if of_hub else "jupyterlab"),
        f"--ServerApp.root_dir={folder}",
        "--ContentsManager.allow_hidden=True",  # earlier copies lie in work/.history
        *(() if of_hub else (f"--ServerApp.port={port}",)),
        f"--LabApp.app_settings_dir={SETTINGS}",
        # Else the browser opens a file in a hidden folder, which Ubuntu's Firefox may not read.
        "--ServerApp.use_redirect_file=False",
        "--ServerApp.log_level=WARN",  # the address is shown all the same
        *(f"--ServerApp.jpserver_extensions={name}=False" for name in _OFF),
        f"--LabApp.default_url={page}",
        # A login shell would prefer the system's own programs to this environment's.
        f"--ServerApp.terminado_settings=shell_command=['{os.environ.get('SHELL', '/bin/sh')}']",
    ]
    if not browser:
        command.append("--no-browser")
    if os.getuid() == 0:
        command.append("--allow-root")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "TRITON_URL": server.url,
        "TRITON_GRPC_URL": server.grpc_url,
        "TRITON_METRICS_URL": server.metrics_url,
        "TRITON_REPOSITORY": str(server.repository),
    }
    with subprocess.Popen(command, env=environment) as process:
        # Ctrl-C reaches JupyterLab too. JupyterLab asks before it ends, so this process ignores it.
        interrupt = signal.signal(signal.SIGINT, lambda *_: None)
        others = {n: signal.signal(n, lambda *_: process.terminate()) for n in _END}
        try:
            return process.wait()
        finally:
            for number, handler in {signal.SIGINT: interrupt, **others}.items():
                signal.signal(number, handler)
