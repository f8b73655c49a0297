"""Convert log probabilities of tokens from the form of vLLM's backend to OpenAI's two forms.

vLLM's backend (`return_logprobs`) gives a list with one entry per token. An entry has, by token id,
`logprob`, `rank` and `decoded_token`: first of the token that was drawn, then of the likeliest
ones.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

#: The lowest log probability in an answer, as in OpenAI's API. An impossible token has minus
#: infinity, which JSON cannot hold.
_LEAST = -9999.0


@dataclasses.dataclass(frozen=True)
class Token:
    """A token with its log probability (natural logarithm).

    Attributes:
        text: as the tokenizer decodes it alone; half of a letter gives "\ufffd".
        likeliest: the likeliest tokens in its place, the likeliest first. It may be among them.
    """

    text: str
    logprob: float
    likeliest: tuple[Token, ...] = ()


def read(piece: dict[str, Any]) -> list[Token]:
    """The tokens in a piece of an answer; none where it has no log probabilities."""
    entries = json.loads(piece.get("logprobs") or "null") or []
    return [_token(list(entry.values())) for entry in entries]


def of_chat(tokens: Sequence[Token], top: int) -> dict[str, Any]:
    """As /v1/chat/completions gives them, with `top` of the likeliest tokens each."""
    return {
        "content": [
            {**_described(token), "top_logprobs": [_described(t) for t in token.likeliest[:top]]}
            for token in tokens
        ],
        "refusal": None,
    }


def of_completion(tokens: Sequence[Token], offset: int = 0) -> dict[str, Any]:
    """As /v1/completions gives them.

    Args:
        offset: where the first token begins in the choice's text, in characters.
    """
    offsets = []
    for token in tokens:
        offsets.append(offset)
        offset += len(token.text)
    return {
        "tokens": [token.text for token in tokens],
        "token_logprobs": [token.logprob for token in tokens],
        "top_logprobs": [
            {t.text: t.logprob for t in (*token.likeliest, token)} for token in tokens
        ],
        "text_offset": offsets,
    }


def _token(entries: list[dict[str, Any]]) -> Token:
    ranked = sorted(entries, key=lambda entry: entry["rank"])
    drawn, *likeliest = (
        Token(entry["decoded_token"] or "", max(entry["logprob"], _LEAST))
        for entry in (entries[0], *ranked)
    )
    return dataclasses.replace(drawn, likeliest=tuple(likeliest))


def _described(token: Token) -> dict[str, Any]:
    whole = "\ufffd" not in token.text
    return {
        "token": token.text,
        "logprob": token.logprob,
        "bytes": list(token.text.encode()) if whole else None,
    }
