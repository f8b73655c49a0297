"""The bodies of the requests that both endpoints accept, checked field by field.

Every field that is not named here is refused. A field whose value is null counts as left out.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

#: Fields that are sampling parameters of the same name. The last five are vLLM's; a model that
#: does not know one of them refuses it.
_SAMPLING = (
    "temperature", "top_p", "seed", "stop",
    "presence_penalty", "frequency_penalty", "repetition_penalty", "top_k", "min_p",
)  # fmt: skip


#: Fields that clients send and that have no effect here: nothing is stored, there is one tier of
#: service, and there are no tools.
_WITHOUT_EFFECT = (
    *("user", "store", "metadata", "service_tier", "parallel_tool_calls"),
    *("safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
)


class StreamOptions(BaseModel):
    """Options of a streamed answer. `include_obfuscation` has no effect."""

    model_config = ConfigDict(extra="forbid")
    include_usage: bool = False
    include_obfuscation: bool = False


class Question(BaseModel):
    """The fields that both endpoints accept. Some have no effect; every other field is refused."""

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

    @model_validator(mode="before")
    @classmethod
    def _those_with_an_effect(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        return {k: v for k, v in body.items() if v is not None and k not in _WITHOUT_EFFECT}

    def sampling(self, most: int) -> dict[str, Any]:
        """The sampling parameters; at most `most` tokens where the request gives no number."""
        given = {name: getattr(self, name) for name in _SAMPLING}
        given |= {"logprobs": self.top(), "structured_outputs": self.structure()}
        given = {name: value for name, value in given.items() if value is not None}
        return {**given, "max_tokens": self.max_tokens or most}

    def top(self) -> int | None:
        """How many of the likeliest tokens come with each token; None: no log probabilities."""
        return None

    def structure(self) -> str | None:
        """What the answer must look like, as JSON for vLLM's backend; None: anything."""
        return None


class Completion(Question):
    """The body of /v1/completions."""

    prompt: str | Annotated[list[str], Field(min_length=1)]
    echo: bool = False
    logprobs: Annotated[int | None, Field(ge=0, le=5)] = None

    def top(self) -> int | None:
        return self.logprobs

    @model_validator(mode="after")
    def _no_logprobs_of_prompts(self) -> Self:
        if self.echo and self.logprobs is not None:
            raise ValueError("echo and logprobs together are not supported here")
        return self


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
        """The message as a dict for the chat template; missing content becomes an empty text."""
        parts = self.content or ""
        text = parts if isinstance(parts, str) else "\n".join(part.text for part in parts)
        return {"role": self.role, "content": text}


class JsonSchema(BaseModel):
    """The schema that an answer shall keep to. It always does, so `strict` has no effect."""

    model_config = ConfigDict(extra="forbid")
    name: str
    description: str | None = None
    definition: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool | None = None


class ResponseFormat(BaseModel):
    """What an answer shall look like: any text, any JSON object, or JSON of a schema."""

    model_config = ConfigDict(extra="forbid")
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    @model_validator(mode="after")
    def _a_schema_where_one_is_used(self) -> Self:
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise ValueError("json_schema belongs to the type json_schema, and only there")
        return self


class Chat(Question):
    """The body of /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int | None, Field(ge=1)] = None
    logprobs: bool = False
    top_logprobs: Annotated[int | None, Field(ge=0, le=20)] = None
    response_format: ResponseFormat | None = None

    def top(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None

    def structure(self) -> str | None:
        format = self.response_format
        if format is None or format.type == "text":
            return None
        wanted: dict[str, Any] = {"json_object": True}
        if format.json_schema is not None:
            wanted = {"json": format.json_schema.definition}
        return json.dumps(wanted)

    @model_validator(mode="after")
    def _top_logprobs_need_logprobs(self) -> Self:
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs: true")
        return self
