"""For 11__generate: the best language model at hand, a parrot, and a front end.

host, name = setup.language_model()          # llama_vllm, or llama_stream, or a parrot
lab = laboratory(setup.parrot("generate"))
with setup.front_end(host) as url:           # OpenAI's API for the models of a server
    print(url)
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.lessons.files import place
from workbook.lessons.workspace import folder, laboratory
from workbook.server import Server, connect
from workbook.zoo.repository import lacking

PARROT = Path(__file__).parent / "models/parrot"
#: Language models of the shared repository, the best one first.
LLAMAS = ("llama_vllm", "llama_stream")

#: The server that this kernel has started for a language model, and the model's name.
_own: list[tuple[Server, str]] = []


def language_model() -> tuple[Server, str]:
    """Find a server with a language model that streams; prints what is missing.

    The best model that is ready on the shared server is taken. Without one, a server is started
    with `llama_stream` if its weights are built, else with the parrot.

    Returns:
        The server, and the model's name.

    Raises:
        LoadError: the model could not be loaded.

    Example:
        host, name = setup.language_model()
    """
    with contextlib.suppress(WorkbookError):
        shared = connect()
        for name in LLAMAS:
            if shared.ready(name):
                return shared, _tell(name)
    if not any(server.ready(name) for server, name in _own):
        _own[:] = [_start()]
    return _own[0][0], _tell(_own[0][1])


def _start() -> tuple[Server, str]:
    """Start a server of this kernel with the best language model that is built."""
    if not lacking(paths.repository() / "llama_stream"):
        return laboratory(paths.repository(), only=["llama_stream"]), "llama_stream"
    return laboratory(parrot("generate_parrot")), "parrot"


def _tell(name: str) -> str:
    """Print which model answers, and what a better one needs."""
    print(f"{name} answers.")
    for better in LLAMAS[: LLAMAS.index(name) if name in LLAMAS else len(LLAMAS)]:
        command = lacking(paths.repository() / better)
        print(f"{better} would be better: " + (f"`{command}`, then " if command else "")
              + "`workbook serve --detach` loads it.")  # fmt: skip
    return name


def parrot(name: str) -> Path:
    """Make a fresh repository with the parrot, which repeats a prompt word by word.

    Args:
        name: the repository's name: small letters, digits, dots and underscores.

    Returns:
        Its path, relative to the notebook.

    Example:
        lab = laboratory(setup.parrot("generate"))
    """
    home = folder(name)
    place(home, PARROT)
    return home


@contextlib.contextmanager
def front_end(server: Server) -> Iterator[str]:
    """Run the course's front end for OpenAI's API in a thread of this process; yields its address.

    Args:
        server: where the models are.

    Raises:
        WorkbookError: it did not start within ten seconds.

    Example:
        with setup.front_end(server) as url:
            client = openai.OpenAI(base_url=url, api_key="none")
    """
    import uvicorn

    from workbook.llm import openai

    ear = socket.create_server(("127.0.0.1", 0))
    front = uvicorn.Server(uvicorn.Config(openai.app(server), log_level="error"))
    thread = threading.Thread(target=front.run, args=([ear],), daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 10
        while not front.started:
            if time.monotonic() > deadline:
                raise WorkbookError("The front end did not start.", todo="Run the cell again.")
            time.sleep(0.01)
        yield f"http://127.0.0.1:{ear.getsockname()[1]}/v1"
    finally:
        front.should_exit = True
        thread.join(timeout=10)
