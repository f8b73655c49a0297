"""An OpenAI-compatible API for the language models of a running server.

    workbook openai --port 9000
    openai.OpenAI(base_url="http://localhost:9000/v1", api_key="none")

It does what NVIDIA's own front end in the container does: it turns a chat into a prompt with the
model's chat template, sends it to Triton, and converts the answer to the JSON that OpenAI's clients
expect.
"""

from __future__ import annotations

import itertools
import json
import time
import uuid
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field

from ..common.errors import RequestError, WorkbookError
from ..server import Server
from . import chat

#: Fields of OpenAI's API that are sampling parameters of the same name.
_SAMPLING = ("temperature", "top_p", "seed", "stop")


class StreamOptions(BaseModel):
    """Options of a streamed answer."""

    include_usage: bool = False


class Question(BaseModel):
    """The fields that both endpoints accept; OpenAI's other fields are ignored."""

    model: str
    max_tokens: Annotated[int | None, Field(ge=1)] = None
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: Literal[1] = 1

    def sampling(self, most: int) -> dict[str, Any]:
        """The sampling parameters; at most `most` tokens where the request gives no number."""
        given = {name: getattr(self, name) for name in _SAMPLING}
        given = {name: value for name, value in given.items() if value is not None}
        return {**given, "max_tokens": self.max_tokens or most}


class Completion(Question):
    """The body of /v1/completions."""

    prompt: str


class Part(BaseModel):
    """A part of a message; only text is accepted."""

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part]

    def turn(self) -> dict[str, str]:
        """The message as a dict, as the chat template expects it."""
        parts = self.content
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
    def completions(question: Completion) -> Any:
        sampling = question.sampling(16)
        return Answer(server, question, question.prompt, sampling, "text_completion").respond()

    @made.post("/v1/chat/completions")
    def chats(question: Chat) -> Any:
        chat.check(server, question.model)
        turns = [message.turn() for message in question.messages]
        text = chat.prompt(server, question.model, turns)
        sampling = question.sampling(question.max_completion_tokens or chat.MAX_TOKENS)
        return Answer(server, question, text, sampling, "chat.completion").respond()

    return made


class Answer:
    """One answer of a language model, as one JSON object or as a stream of events."""

    def __init__(
        self, server: Server, question: Question, prompt: str, sampling: dict[str, Any], kind: str
    ) -> None:
        self.question, self.kind = question, kind
        self.head = {
            "id": f"{'chatcmpl' if kind == 'chat.completion' else 'cmpl'}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": question.model,
        }
        pieces = chat.stream(server, question.model, prompt, sampling)
        # Wait for the first piece here, so that an error gets its own HTTP status.
        self.pieces = itertools.chain([next(pieces, {})], pieces)
        tokenizer = chat.tokenizer(server.repository / question.model)
        self.prompt_tokens = len(tokenizer(prompt).input_ids) if tokenizer is not None else 0

    def respond(self) -> Any:
        """The response to send: JSON, or a stream of events."""
        if self.question.stream:
            return StreamingResponse(self.events(), media_type="text/event-stream")
        text, reason, tokens = "", None, 0
        for piece in self.pieces:
            text += piece.get("text_output", "")
            reason = _reason(piece) or reason
            tokens += _tokens(piece)
        return {
            **self.head,
            "object": self.kind,
            "choices": [self.choice(text, reason or "stop", whole=True)],
            "usage": self.usage(tokens),
        }

    def usage(self, tokens: int) -> dict[str, int]:
        """The number of tokens in the prompt and in the answer."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": tokens,
            "total_tokens": self.prompt_tokens + tokens,
        }

    def events(self) -> Iterator[str]:
        """Server-sent events: one per piece, one with the reason of the end, one with the number
        of tokens if the request asks for it, and `[DONE]`."""
        kind = f"{self.kind}.chunk" if self.kind == "chat.completion" else self.kind
        reason, tokens = "stop", 0
        try:
            for piece in self.pieces:
                reason = _reason(piece) or reason
                tokens += _tokens(piece)
                choice = self.choice(piece.get("text_output", ""), None, whole=False)
                yield _event({**self.head, "object": kind, "choices": [choice]})
        except RequestError as error:
            yield _event({"error": _error(error.message)})
            return
        last = self.choice("", reason, whole=False)
        yield _event({**self.head, "object": kind, "choices": [last]})
        if self.question.stream_options is not None and self.question.stream_options.include_usage:
            end = {"object": kind, "choices": [], "usage": self.usage(tokens)}
            yield _event({**self.head, **end})
        yield "data: [DONE]\n\n"

    def choice(self, text: str, reason: str | None, *, whole: bool) -> dict[str, Any]:
        """The single choice of an answer, or of one piece of it."""
        common = {"index": 0, "finish_reason": reason, "logprobs": None}
        if self.kind == "text_completion":
            return {**common, "text": text}
        return {**common, "message" if whole else "delta": {"role": "assistant", "content": text}}


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


def _error(message: str, code: str | None = None) -> dict[str, Any]:
    return {"message": message, "type": "invalid_request_error", "param": None, "code": code}


def _error_response(request: Request, error: Exception) -> JSONResponse:
    """An error in the form that OpenAI's clients read."""
    if isinstance(error, RequestError):
        return JSONResponse({"error": _error(error.message)}, 400)
    if isinstance(error, RequestValidationError):
        found = [f"{'.'.join(map(str, e['loc'][1:]))}: {e['msg']}" for e in error.errors()]
        return JSONResponse({"error": _error("; ".join(found))}, 400)
    return JSONResponse({"error": _error(str(error), "model_not_found")}, 404)
