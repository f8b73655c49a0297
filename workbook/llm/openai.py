"""An OpenAI-compatible door to the language models of a running server.

    workbook openai --port 9000
    openai.OpenAI(base_url="http://localhost:9000/v1", api_key="none")

It does what NVIDIA's own front end in the container does: it turns chats into prompts by the
model's chat template, asks Triton, and gives the answers the shape that the `openai` client wants.
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

#: Fields that Triton's language models take under the same name.
_SAMPLING = ("temperature", "top_p", "seed", "stop")


class StreamOptions(BaseModel):
    """What else a stream tells."""

    include_usage: bool = False


class Asked(BaseModel):
    """What both endpoints take; other fields of OpenAI's are ignored."""

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
        """Sampling parameters, with `most` tokens where the request does not say how many."""
        given = {name: getattr(self, name) for name in _SAMPLING}
        given = {name: value for name, value in given.items() if value is not None}
        return {**given, "max_tokens": self.max_tokens or most}


class Completion(Asked):
    """The body of /v1/completions."""

    prompt: str


class Part(BaseModel):
    """A part of a turn; these models read text alone."""

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """One turn of a conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part]

    def turn(self) -> dict[str, str]:
        """What the chat template takes."""
        parts = self.content
        text = parts if isinstance(parts, str) else "\n".join(part.text for part in parts)
        return {"role": self.role, "content": text}


class Chat(Asked):
    """The body of /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int | None, Field(ge=1)] = None


def app(server: Server) -> FastAPI:
    """The application in front of a server."""
    made = FastAPI(title="Triton, spoken to as OpenAI", docs_url=None, redoc_url=None)
    made.add_exception_handler(WorkbookError, _complain)
    made.add_exception_handler(RequestValidationError, _complain)
    began = int(time.time())

    @made.get("/v1/models")
    def models() -> dict[str, Any]:
        return {"object": "list", "data": [_model(name, began) for name in chat.languages(server)]}

    @made.get("/v1/models/{name}")
    def model(name: str) -> dict[str, Any]:
        chat.check(server, name)
        return _model(name, began)

    @made.post("/v1/completions")
    def completions(asked: Completion) -> Any:
        answer = Answer(server, asked, asked.prompt, asked.sampling(16), "text_completion")
        return answer.respond()

    @made.post("/v1/chat/completions")
    def chats(asked: Chat) -> Any:
        chat.check(server, asked.model)
        turns = [message.turn() for message in asked.messages]
        text = chat.prompt(server, asked.model, turns)
        most = asked.max_completion_tokens or chat.MOST
        return Answer(server, asked, text, asked.sampling(most), "chat.completion").respond()

    return made


class Answer:
    """One answer, whole or as a stream of events."""

    def __init__(
        self, server: Server, asked: Asked, prompt: str, sampling: dict[str, Any], kind: str
    ) -> None:
        self.asked, self.kind = asked, kind
        self.head = {
            "id": f"{'chatcmpl' if kind == 'chat.completion' else 'cmpl'}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": asked.model,
        }
        pieces = chat.stream(server, asked.model, prompt, sampling)
        # The first piece is waited for here, so that an error is an answer of its own.
        self.pieces = itertools.chain([next(pieces, {})], pieces)
        words = chat.tokenizer(server.repository / asked.model)
        self.prompt_tokens = len(words(prompt).input_ids) if words is not None else 0

    def respond(self) -> Any:
        """The response to the request."""
        if self.asked.stream:
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
        """How many tokens were read and made."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": tokens,
            "total_tokens": self.prompt_tokens + tokens,
        }

    def events(self) -> Iterator[str]:
        """Server-sent events: one a piece, one with the reason of the end, one with the
        tokens' number where it is asked for, and `[DONE]`."""
        kind = f"{self.kind}.chunk" if self.kind == "chat.completion" else self.kind
        reason, tokens = "stop", 0
        try:
            for piece in self.pieces:
                reason = _reason(piece) or reason
                tokens += _tokens(piece)
                choice = self.choice(piece.get("text_output", ""), None, whole=False)
                yield _event({**self.head, "object": kind, "choices": [choice]})
        except RequestError as error:
            yield _event({"error": _shape(error.message)})
            return
        last = self.choice("", reason, whole=False)
        yield _event({**self.head, "object": kind, "choices": [last]})
        if self.asked.stream_options is not None and self.asked.stream_options.include_usage:
            end = {"object": kind, "choices": [], "usage": self.usage(tokens)}
            yield _event({**self.head, **end})
        yield "data: [DONE]\n\n"

    def choice(self, text: str, reason: str | None, *, whole: bool) -> dict[str, Any]:
        """The one choice of an answer, or of a piece of it."""
        common = {"index": 0, "finish_reason": reason, "logprobs": None}
        if self.kind == "text_completion":
            return {**common, "text": text}
        return {**common, "message" if whole else "delta": {"role": "assistant", "content": text}}


def _model(name: str, began: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": began, "owned_by": "triton"}


def _reason(piece: dict[str, Any]) -> str | None:
    """Why the answer ended; None while it goes on."""
    reason = piece.get("finish_reason")
    return str(reason) if reason not in (None, "", "None") else None


def _tokens(piece: dict[str, Any]) -> int:
    """How many tokens a piece holds, as its model says in its own way."""
    if "num_output_tokens" in piece:
        return int(piece["num_output_tokens"])
    tokens = piece.get("token_ids", [])
    return len(tokens) if isinstance(tokens, list) else 1


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content)}\n\n"


def _shape(message: str, code: str | None = None) -> dict[str, Any]:
    return {"message": message, "type": "invalid_request_error", "param": None, "code": code}


def _complain(request: Request, error: Exception) -> JSONResponse:
    """Errors in the shape that the `openai` client reads."""
    if isinstance(error, RequestError):
        return JSONResponse({"error": _shape(error.message)}, 400)
    if isinstance(error, RequestValidationError):
        said = [f"{'.'.join(map(str, e['loc'][1:]))}: {e['msg']}" for e in error.errors()]
        return JSONResponse({"error": _shape("; ".join(said))}, 400)
    return JSONResponse({"error": _shape(str(error), "model_not_found")}, 404)
