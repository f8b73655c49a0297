"""For 11__generate: a language model, a parrot, and a front end for OpenAI's API.

setup.place_models(models)                                   # llama and parrot
os.environ["TRITON_OPENAI"] = setup.front_end(lab)           # localhost:41234
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import threading
import time
from pathlib import Path

import uvicorn

from workbook import zoo
from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.lessons.files import place
from workbook.llm import openai
from workbook.server import Server, connect

PARROT = Path(__file__).parent / "models/parrot"
VLLM, STREAM = "llama_vllm", "llama_stream"

#: The front end of this kernel.
_fronts: list[uvicorn.Server] = []


def place_models(models: Path) -> None:
    """Put `parrot`, and `llama`, the course's language model, into a repository.

    Example:
        models = folder("generate")
        setup.place_models(models)
        lab = laboratory(models)
    """
    place(models, PARROT)
    source, llama = paths.repository() / STREAM, models / "llama"
    (llama / "1").mkdir(parents=True, exist_ok=True)
    shutil.copy(source / "config.pbtxt", llama)
    shutil.copy(source / "1/model.py", llama / "1")
    shutil.copy(paths.package() / "llm/sampling.py", llama / "1")
    shutil.copytree(zoo.checkpoint("llama"), llama / "1/checkpoint", dirs_exist_ok=True)


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
