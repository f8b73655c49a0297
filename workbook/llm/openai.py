"""An OpenAI-compatible API for the language models of a running server.

    workbook openai --port 9000
    openai.OpenAI(base_url="http://localhost:9000/v1", api_key="none")

It does what NVIDIA's own front end in the container does: it turns a chat into a prompt with the
model's chat template, sends it to Triton, and converts the answer to the JSON that OpenAI's clients
expect. A field that it cannot fulfil is refused by name. When a client leaves, the model stops.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping, Sequence
from typing import Annotated, Any, Literal

import httpx
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from ..common.errors import RequestError, ServerError, WorkbookError
from ..server import Server
from . import chat, tokenizer

#: Fields that are sampling parameters of the same name. The last five are vLLM's; a model that
#: does not know one of them refuses it.
_SAMPLING = (
    "temperature", "top_p", "seed", "stop",
    "presence_penalty", "frequency_penalty", "repetition_penalty", "top_k", "min_p",
)  # fmt: skip
#: What the status of an answer is whose client has left (nginx has made it up).
_CLIENT_LEFT = 499


class StreamOptions(BaseModel):
    """Options of a streamed answer."""

    model_config = ConfigDict(extra="forbid")
    include_usage: bool = False


class Question(BaseModel):
    """The fields that both endpoints accept. `user` has no effect; every other field is refused."""

    model_config = ConfigDict(extra="forbid")
    model: str
    max_tokens: Annotated[int | None, Field(ge=1)] = None
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    stop: str | list[str] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=128)] = 1
    user: str | None = None

    def sampling(self, most: int) -> dict[str, Any]:
        """The sampling parameters; at most `most` tokens where the request gives no number."""
        given = {name: getattr(self, name) for name in _SAMPLING}
        given = {name: value for name, value in given.items() if value is not None}
        return {**given, "max_tokens": self.max_tokens or most}


class Completion(Question):
    """The body of /v1/completions."""

    prompt: str | Annotated[list[str], Field(min_length=1)]
    echo: bool = False


class Part(BaseModel):
    """A part of a message; only text is accepted."""

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(extra="forbid")
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part] | None
    name: str | None = None

    def turn(self) -> dict[str, str]:
        """The message as a dict, as the chat template expects it; no content is an empty one."""
        parts = self.content or ""
        text = parts if isinstance(parts, str) else "\n".join(part.text for part in parts)
        return {"role": self.role, "content": text}


class Chat(Question):
    """The body of /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int | None, Field(ge=1)] = None


def app(server: Server) -> FastAPI:
    """The web application for a running server; it does not start listening by itself.

    Example:
        uvicorn.run(openai.app(server), port=9000)
    """
    made = FastAPI(title="OpenAI's API for Triton", docs_url=None, redoc_url=None)
    made.add_exception_handler(WorkbookError, _error_response)
    made.add_exception_handler(RequestValidationError, _error_response)
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
        prompts = [question.prompt] if isinstance(question.prompt, str) else question.prompt
        answer = Answer(server, question, prompts, question.sampling(16))
        answer.echo = question.echo
        return await answer.respond(request)

    @made.post("/v1/chat/completions")
    async def chats(question: Chat, request: Request) -> Any:
        turns = [message.turn() for message in question.messages]
        await asyncio.to_thread(chat.check, server, question.model)
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


class Answer:
    """The answer to one request, as one JSON object or as a stream of events.

    It has `n` choices per prompt, those of the first prompt first. They are made one after the
    other. With a seed, each further choice of a prompt has the next one.

    Attributes:
        echo: whether each choice begins with its prompt (completions only).
    """

    def __init__(
        self,
        server: Server,
        question: Question,
        prompts: Sequence[str],
        sampling: Mapping[str, Any],
    ) -> None:
        self.echo = False
        self._server, self._question = server, question
        self._prompts, self._sampling = prompts, sampling
        self._choices = len(prompts) * question.n
        self._chats = isinstance(question, Chat)
        self._kind = "chat.completion" if self._chats else "text_completion"
        self._head = {
            "id": f"{'chatcmpl' if self._chats else 'cmpl'}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": question.model,
        }

    async def respond(self, request: Request) -> Any:
        """The response to send: JSON, or a stream of events.

        Raises:
            RequestError: the model refused the first prompt.
            WorkbookError: there is no such model.
        """
        pieces = self._pieces()
        if not self._question.stream:
            return await _unless_gone(request, self._whole(pieces))
        # Wait for the first piece here, so that an error gets its own HTTP status.
        nothing: tuple[int, dict[str, Any]] = (0, {})
        first = await anext(pieces, nothing)
        return StreamingResponse(self._events(first, pieces), media_type="text/event-stream")

    async def _pieces(self) -> AsyncGenerator[tuple[int, dict[str, Any]], None]:
        """The pieces of all choices, each with its choice's number."""
        for number in range(self._choices):
            prompt, turn = self._prompts[number // self._question.n], number % self._question.n
            sampling = dict(self._sampling)
            if "seed" in sampling:
                sampling["seed"] += turn
            if self.echo:
                yield number, {"text_output": prompt, "num_output_tokens": 0}
            stream = chat.astream(self._server, self._question.model, prompt, sampling)
            async for piece in stream:
                yield number, piece

    async def _whole(self, pieces: AsyncIterator[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
        texts, reasons, tokens = [""] * self._choices, ["stop"] * self._choices, 0
        async for number, piece in pieces:
            texts[number] += piece.get("text_output", "")
            reasons[number] = _reason(piece) or reasons[number]
            tokens += _tokens(piece)
        choices = [
            {**self._choice(number, reason), **self._content("message", text)}
            for number, (text, reason) in enumerate(zip(texts, reasons, strict=True))
        ]
        usage = await self._usage(tokens)
        return {**self._head, "object": self._kind, "choices": choices, "usage": usage}

    async def _usage(self, tokens: int) -> dict[str, int]:
        """The number of tokens in the prompts and in the answers."""
        found = await asyncio.to_thread(
            tokenizer.read, self._server.repository / self._question.model
        )
        prompts = sum(map(found.count, self._prompts)) if found is not None else 0
        return {
            "prompt_tokens": prompts,
            "completion_tokens": tokens,
            "total_tokens": prompts + tokens,
        }

    async def _events(
        self,
        first: tuple[int, dict[str, Any]],
        pieces: AsyncIterator[tuple[int, dict[str, Any]]],
    ) -> AsyncIterator[str]:
        """Server-sent events: one per piece, one per choice with the reason of its end, one with
        the number of tokens if the request asks for it, and `[DONE]`."""
        reasons: dict[int, str] = {}
        tokens, following = 0, first
        try:
            while True:
                number, piece = following
                text, begins = piece.get("text_output", ""), number not in reasons
                if begins and reasons:
                    yield self._end(number - 1, reasons)
                reasons[number] = _reason(piece) or reasons.get(number, "stop")
                tokens += _tokens(piece)
                yield self._chunk(number, self._content("delta", text, begins=begins))
                following = await anext(pieces)
        except StopAsyncIteration:
            yield self._end(max(reasons), reasons)
        except WorkbookError as error:
            message = error.message if isinstance(error, RequestError) else error.what
            yield _event({"error": _error(message)})
            return
        options = self._question.stream_options
        if options is not None and options.include_usage:
            usage = await self._usage(tokens)
            yield _event({**self._head, "object": self._part, "choices": [], "usage": usage})
        yield "data: [DONE]\n\n"

    @property
    def _part(self) -> str:
        return f"{self._kind}.chunk" if self._chats else self._kind

    def _chunk(self, number: int, content: dict[str, Any], reason: str | None = None) -> str:
        choices = [{**self._choice(number, reason), **content}]
        return _event({**self._head, "object": self._part, "choices": choices})

    def _end(self, number: int, reasons: Mapping[int, str]) -> str:
        content: dict[str, Any] = {"delta": {}} if self._chats else {"text": ""}
        return self._chunk(number, content, reasons[number])

    def _choice(self, number: int, reason: str | None) -> dict[str, Any]:
        return {"index": number, "finish_reason": reason, "logprobs": None}

    def _content(self, name: str, text: str, *, begins: bool = True) -> dict[str, Any]:
        """A choice's text, or a part of it; in a chat the first part names the role."""
        if not self._chats:
            return {"text": text}
        return {name: {**({"role": "assistant"} if begins else {}), "content": text}}


async def _unless_gone(request: Request, work: Coroutine[Any, Any, Any]) -> Any:
    """Wait for an answer; where the client leaves, cancel it."""
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.wait({task}, timeout=0.1)
        if not task.done() and await request.is_disconnected():
            task.cancel()
            return Response(status_code=_CLIENT_LEFT)
    return task.result()


def _model(name: str, began: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": began, "owned_by": "triton"}


def _reason(piece: dict[str, Any]) -> str | None:
    """Why the answer ended; None while it is not complete."""
    reason = piece.get("finish_reason")
    return str(reason) if reason not in (None, "", "None") else None


def _tokens(piece: dict[str, Any]) -> int:
    """The number of tokens in a piece; each model gives it in its own way."""
    if "num_output_tokens" in piece:
        return int(piece["num_output_tokens"])
    tokens = piece.get("token_ids", [])
    return len(tokens) if isinstance(tokens, list) else 1


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content)}\n\n"


def _error(
    message: str, code: str | None = None, kind: str = "invalid_request_error"
) -> dict[str, Any]:
    return {"message": message, "type": kind, "param": None, "code": code}


def _error_response(request: Request, error: Exception) -> JSONResponse:
    """An error in the form that OpenAI's clients read."""
    if isinstance(error, RequestError):
        return JSONResponse({"error": _error(error.message)}, 400)
    if isinstance(error, RequestValidationError):
        return JSONResponse({"error": _error("; ".join(map(_complaint, error.errors())))}, 400)
    if isinstance(error, ServerError):
        return JSONResponse({"error": _error(str(error), "unavailable", "server_error")}, 503)
    return JSONResponse({"error": _error(str(error), "model_not_found")}, 404)


def _complaint(error: Mapping[str, Any]) -> str:
    """One mistake in a request's body, as a sentence that begins with the field."""
    field = ".".join(map(str, error["loc"][1:]))
    if error["type"] == "extra_forbidden":
        return f"{field}: not supported here; leave it out"
    return f"{field}: {error['msg']}"
