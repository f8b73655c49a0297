"""The answer to one request: its choices, made at the same time, as JSON or as events."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping, Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from ...common.errors import WorkbookError
from ...server import Server
from .. import chat, tokenizer
from . import error_responses, logprobs
from .fields import Chat, Question

#: The status of an answer if the client has left (nginx invented this number).
_CLIENT_LEFT = 499
#: How many choices are made at the same time; others wait.
AT_ONCE = 16
#: A piece of an answer with its choice's number; None ends the choice.
_Piece = tuple[int, dict[str, Any] | None]


class Answer:
    """The answer to one request, as one JSON object or as a stream of events.

    It has `n` choices per prompt, those of the first prompt first. Up to AT_ONCE of them are made
    at the same time, so that the model can batch them. With a seed, each further choice of a prompt
    uses the next seed.

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
        self._counted: dict[str, int] = {}  # the tokens of a prompt, as the model counts them
        self._tokens = 0  # the tokens of the answers, as the model counts them
        self._uncounted = [""] * self._choices  # the answers where it does not
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
        first = await anext(pieces, None)
        return StreamingResponse(self._events(first, pieces), media_type="text/event-stream")

    async def _pieces(self) -> AsyncGenerator[_Piece, None]:
        """The pieces of all choices as they come, each with its choice's number; None ends one."""
        queue: asyncio.Queue[_Piece | Exception] = asyncio.Queue()
        places = asyncio.Semaphore(AT_ONCE)

        async def make(number: int) -> None:
            try:
                async with places:
                    async for piece in self._choice_pieces(number):
                        queue.put_nowait((number, piece))
                queue.put_nowait((number, None))
            except Exception as error:
                queue.put_nowait(error)

        tasks = [asyncio.create_task(make(number)) for number in range(self._choices)]
        try:
            left = len(tasks)
            while left:
                found = await queue.get()
                if isinstance(found, Exception):
                    raise found
                left -= found[1] is None
                yield found
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _choice_pieces(self, number: int) -> AsyncIterator[dict[str, Any]]:
        prompt, turn = self._prompts[number // self._question.n], number % self._question.n
        sampling = dict(self._sampling)
        if "seed" in sampling:
            sampling["seed"] += turn
        if self.echo:
            yield {"text_output": prompt}
        async for piece in chat.astream(self._server, self._question.model, prompt, sampling):
            self._count(prompt, number, piece)
            yield piece

    def _count(self, prompt: str, number: int, piece: Mapping[str, Any]) -> None:
        """Count a piece's tokens, whether the answer is streamed or not."""
        if "num_input_tokens" in piece:
            self._counted[prompt] = int(piece["num_input_tokens"])
        if "num_output_tokens" in piece:
            self._tokens += int(piece["num_output_tokens"])
        elif "token_ids" in piece:
            ids = piece["token_ids"]  # Triton gives a list of one as a number
            self._tokens += len(ids) if isinstance(ids, list) else 1
        else:
            self._uncounted[number] += str(piece.get("text_output", ""))

    async def _whole(self, pieces: AsyncIterator[_Piece]) -> dict[str, Any]:
        texts, reasons = [""] * self._choices, ["stop"] * self._choices
        chances: list[list[logprobs.Token]] = [[] for _ in texts]
        async for number, piece in pieces:
            if piece is not None:
                texts[number] += piece.get("text_output", "")
                reasons[number] = _reason(piece) or reasons[number]
                chances[number] += logprobs.read(piece)
        choices = [
            {**self._choice(number, reason, found), **self._content("message", text)}
            for number, (text, reason, found) in enumerate(
                zip(texts, reasons, chances, strict=True)
            )
        ]
        usage = await self._usage()
        return {**self._head, "object": self._kind, "choices": choices, "usage": usage}

    async def _usage(self) -> dict[str, int]:
        """The number of tokens in the prompts and in the answers.

        If the model counts them itself, its numbers are used; otherwise its tokenizer counts.
        """
        counts, tokens = self._counted, self._tokens
        if not counts.keys() >= set(self._prompts) or any(self._uncounted):
            found = await asyncio.to_thread(
                tokenizer.read, self._server.repository / self._question.model
            )
            count = found.count if found is not None else lambda text: 0
            counts = {text: count(text) for text in self._prompts} | counts
            every = count("")  # what begins and ends every text
            tokens += sum(count(text) - every for text in self._uncounted if text)
        prompts = sum(counts[text] for text in self._prompts)
        return {
            "prompt_tokens": prompts,
            "completion_tokens": tokens,
            "total_tokens": prompts + tokens,
        }

    async def _events(
        self, first: _Piece | None, pieces: AsyncIterator[_Piece]
    ) -> AsyncIterator[str]:
        """Server-sent events: one per piece, one per choice with the reason of its end, one with
        the number of tokens if the request asks for it, and `[DONE]`."""
        reasons: dict[int, str] = {}
        lengths: dict[int, int] = {}
        following = first
        try:
            while following is not None:
                number, piece = following
                if piece is None:
                    yield self._end(number, reasons.get(number, "stop"))
                else:
                    text, begins = piece.get("text_output", ""), number not in reasons
                    reasons[number] = _reason(piece) or reasons.get(number, "stop")
                    found, at = logprobs.read(piece), lengths.get(number, 0)
                    lengths[number] = at + sum(len(token.text) for token in found)
                    content = self._content("delta", text, begins=begins)
                    yield self._chunk({**self._choice(number, None, found, at), **content})
                following = await anext(pieces, None)
        except WorkbookError as error:
            yield _event({"error": error_responses.of(error)})
            return
        options = self._question.stream_options
        if options is not None and options.include_usage:
            usage = await self._usage()
            yield _event({**self._head, "object": self._part, "choices": [], "usage": usage})
        yield "data: [DONE]\n\n"

    @property
    def _part(self) -> str:
        return f"{self._kind}.chunk" if self._chats else self._kind

    def _chunk(self, choice: dict[str, Any]) -> str:
        return _event({**self._head, "object": self._part, "choices": [choice]})

    def _end(self, number: int, reason: str) -> str:
        content: dict[str, Any] = {"delta": {}} if self._chats else {"text": ""}
        return self._chunk({**self._choice(number, reason), **content})

    def _choice(
        self,
        number: int,
        reason: str | None,
        chances: Sequence[logprobs.Token] = (),
        offset: int = 0,
    ) -> dict[str, Any]:
        """A choice without its content.

        Args:
            chances: the log probabilities of its tokens, or of some of them.
            offset: the number of characters of the tokens before these.
        """
        found: dict[str, Any] | None = None
        if self._question.top() is not None and (chances or reason is None):
            found = logprobs.of_chat(chances, self._question.top() or 0)
            if not self._chats:
                found = logprobs.of_completion(chances, offset)
        return {"index": number, "finish_reason": reason, "logprobs": found}

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


def _reason(piece: dict[str, Any]) -> str | None:
    """Why the answer ended; None while it is not complete."""
    reason = piece.get("finish_reason")
    return str(reason) if reason not in (None, "", "None") else None


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content)}\n\n"
