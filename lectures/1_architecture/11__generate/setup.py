"""For 11__generate: a language model, a parrot, and a front end for OpenAI's API.

setup.place_models(models)                                   # llama and parrot
os.environ["TRITON_OPENAI"] = setup.front_end(lab)           # localhost:41234
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from pathlib import Path

import uvicorn

from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.lessons.files import place
from workbook.lessons.workspace import copy
from workbook.llm import openai
from workbook.server import Server, connect
from workbook.zoo.repository import lacking

PARROT = Path(__file__).parent / "models/parrot"
VLLM, STREAM = "llama_vllm", "llama_stream"

#: The front end of this kernel.
_fronts: list[uvicorn.Server] = []


def place_models(models: Path) -> None:
    """Put `parrot` and `llama` into a repository; prints what is missing.

    `llama` is the course's language model. If its weights are not built, it is a second parrot.

    Example:
        models = folder("generate")
        setup.place_models(models)
        lab = laboratory(models)
    """
    place(models, PARROT)
    command = lacking(paths.repository() / STREAM)
    if command:
        print(f"llama repeats its prompt, as the parrot does. `{command}` builds the real one.")
        place(models, PARROT, name="llama")
    else:
        copy(models, STREAM, "llama", {})


def front_end(server: Server) -> str:
    """Start the course's front end for OpenAI's API in this kernel; returns its host and port.

    The model of vLLM answers, if the shared server has it. An earlier front end is ended.

    Args:
        server: where the language models are, if there is none of vLLM.

    Raises:
        WorkbookError: it did not start within ten seconds.
    """
    for old in _fronts:
        old.should_exit = True
    ear = socket.create_server(("127.0.0.1", 0))
    app = openai.app(_best(server))
    front = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    _fronts[:] = [front]
    threading.Thread(target=front.run, args=([ear],), daemon=True).start()
    deadline = time.monotonic() + 10
    while not front.started:
        if time.monotonic() > deadline:
            raise WorkbookError("The front end did not start.", todo="Run the cell again.")
        time.sleep(0.01)
    return f"localhost:{ear.getsockname()[1]}"


def _best(server: Server) -> Server:
    """The shared server, if vLLM's model is ready there; else the given one."""
    with contextlib.suppress(WorkbookError):
        shared = connect()
        if shared.ready(VLLM):
            return shared
    return server
