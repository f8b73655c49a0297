"""An OpenAI-compatible API for the language models of a running server.

    workbook openai --port 9000
    openai.OpenAI(base_url="http://localhost:9000/v1", api_key="none")

It does what NVIDIA's own front end in the container does: it turns a chat into a prompt with the
model's chat template, sends it to Triton, and converts the answer to the JSON that OpenAI's clients
expect. It refuses a request with a field that it cannot fulfil, and names the field. When a client
leaves, the model stops.

- `fields`: the bodies of the requests
- `answer`: an answer's choices, as one JSON object or as a stream
- `logprobs`: log probabilities, from the form of vLLM's backend to OpenAI's
- `error_responses`: errors in OpenAI's form
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from ...common.errors import RequestError, ServerError, WorkbookError
from ...server import Server
from .. import chat
from . import error_responses
from .answer import Answer
from .fields import Chat, Completion, Question


def app(server: Server) -> FastAPI:
    """The web application for a running server; it does not start listening by itself.

    Example:
        uvicorn.run(openai.app(server), port=9000)
    """
    made = FastAPI(title="OpenAI's API for Triton", docs_url=None, redoc_url=None)
    for kind in (WorkbookError, RequestValidationError, HTTPException, Exception):
        made.add_exception_handler(kind, error_responses.response)
    began = int(time.time())

    @made.get("/v1/models")
    def models() -> dict[str, Any]:
        return {
            "object": "list",
            "data": [_model(name, began) for name in chat.language_models(server)],
        }

    @made.get("/v1/models/{name}")
    def model(name: str) -> dict[str, Any]:
        chat.check(server, name)
        return _model(name, began)

    @made.post("/v1/completions")
    async def completions(question: Completion, request: Request) -> Any:
        await asyncio.to_thread(_check, server, question)
        prompts = [question.prompt] if isinstance(question.prompt, str) else question.prompt
        answer = Answer(server, question, prompts, question.sampling(16))
        answer.echo = question.echo
        return await answer.respond(request)

    @made.post("/v1/chat/completions")
    async def chats(question: Chat, request: Request) -> Any:
        turns = [message.turn() for message in question.messages]
        await asyncio.to_thread(_check, server, question)
        text = await asyncio.to_thread(chat.prompt, server, question.model, turns)
        sampling = question.sampling(question.max_completion_tokens or chat.MAX_TOKENS)
        return await Answer(server, question, [text], sampling).respond(request)

    @made.get("/health")
    @made.get("/health/ready")
    def health() -> Response:
        return Response(status_code=200 if server.live() else 503)

    @made.get("/metrics")
    async def metrics() -> Response:
        try:
            async with httpx.AsyncClient(trust_env=False) as client:
                found = await client.get(server.metrics_url)
        except httpx.HTTPError as error:
            raise ServerError(f"Triton gives no metrics: {error}.", where=server.url) from None
        return Response(found.content, media_type=found.headers.get("content-type"))

    return made


def serve(server: Server, address: str, port: int, *, report: Callable[[str], None]) -> None:
    """Answer OpenAI's clients until Ctrl-C.

    Args:
        address, port: where to listen.
        report: called with a sentence as soon as the program listens.

    Raises:
        WorkbookError: the server has no language model, or nothing can listen there.
    """
    chat.check_any(server)
    try:
        listener = socket.create_server((address, port))
    except OSError as error:
        raise WorkbookError(
            f"Nothing can listen on {address}:{port}: {error.strerror}.",
            todo="Give another place: --port, --address.",
        ) from None
    report(f"OpenAI's clients find {server.url} at http://{address}:{port}/v1")
    uvicorn.Server(uvicorn.Config(app(server), log_level="warning")).run([listener])


def _check(server: Server, question: Question) -> None:
    """Check that a request's model is ready, and can do what the request needs of vLLM's backend.

    Raises:
        WorkbookError: there is no such model.
        RequestError: the model gives no log probabilities, or cannot restrict its answer to JSON.
    """
    inputs = {entry["name"] for entry in chat.check(server, question.model)["input"]}
    for field, value in (("logprobs", question.top()), ("response_format", question.structure())):
        if value is not None and chat.LOGPROBS not in inputs:
            message = f"{field}: not supported by {question.model}; a model of vLLM's backend can"
            raise RequestError(message, model=question.model, message=message)


def _model(name: str, began: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": began, "owned_by": "triton"}
