"""A language model's tokenizer, read from the model's folder: prompts, and counts of tokens.

    found = tokenizer.read(repository / "llama_stream")
    text = found.prompt([{"role": "user", "content": "What is a coroutine?"}])
    found.count(text)            # 14
    found.context                # 512 tokens, prompt and answer together

transformers does the same, but takes five seconds to import. So a `tokenizer.json` is read with the
package tokenizers, which transformers itself uses, and the chat template is rendered with Jinja, as
in transformers (`utils/chat_template_utils.py`). Other tokenizers are read by transformers.
"""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

#: One message of a conversation: `role` ("user", "assistant", "system") and `content`.
Turn = Mapping[str, str]


@dataclass(frozen=True)
class Tokenizer:
    """The parts of a tokenizer that a chat needs.

    Attributes:
        count: text → the number of its tokens, with those that begin or end every text.
        context: the largest number of tokens of prompt and answer together; None if the model's
            config.json does not name it.
    """

    count: Callable[[str], int]
    context: int | None
    _render: Callable[[Sequence[Turn]], str] | None

    def prompt(self, turns: Sequence[Turn]) -> str:
        """A conversation as the text that the model continues.

        Without a chat template: the contents alone, one per line.

        Raises:
            ValueError: the template refuses the conversation, e.g. two questions in a row.
        """
        if self._render is None:
            return plain(turns)
        return self._render(turns)


def plain(turns: Sequence[Turn]) -> str:
    """The contents of a conversation, one per line."""
    return "\n".join(turn["content"] for turn in turns)


@functools.cache
def read(folder: Path) -> Tokenizer | None:
    """The tokenizer in a model's folder, of the newest version; None without one."""
    versions = (path for path in folder.glob("[1-9]*") if path.name.isdecimal())
    for version in sorted(versions, key=lambda path: -int(path.name)):
        for file in sorted(version.glob("**/tokenizer_config.json")):
            fast = (file.parent / "tokenizer.json").is_file()
            return _fast(file.parent) if fast else _by_transformers(file.parent)
    return None


def _fast(home: Path) -> Tokenizer:
    import tokenizers

    settings: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (home / name).is_file():
            settings |= json.loads((home / name).read_text("utf-8"))
    tokens = tokenizers.Tokenizer.from_file(str(home / "tokenizer.json"))
    template = _template(home, settings)
    return Tokenizer(
        count=lambda text: len(tokens.encode(text).ids),
        context=_context(home),
        _render=None if template is None else _renderer(template, settings),
    )


def _by_transformers(home: Path) -> Tokenizer:
    from transformers import AutoTokenizer

    found = AutoTokenizer.from_pretrained(home)

    def render(turns: Sequence[Turn]) -> str:
        text = found.apply_chat_template(list(turns), tokenize=False, add_generation_prompt=True)
        return str(text)

    return Tokenizer(
        count=lambda text: len(found(text).input_ids),
        context=_context(home),
        _render=render if found.chat_template else None,
    )


def _context(home: Path) -> int | None:
    file = home / "config.json"
    if not file.is_file():
        return None
    most = json.loads(file.read_text("utf-8")).get("max_position_embeddings")
    return most if isinstance(most, int) else None


def _template(home: Path, settings: Mapping[str, Any]) -> str | None:
    """The chat template: a file of its own, a text in the settings, or one of several there."""
    file = home / "chat_template.jinja"
    if file.is_file():
        return file.read_text("utf-8")
    found = settings.get("chat_template")
    if isinstance(found, list):
        found = {entry["name"]: entry["template"] for entry in found}.get("default")
    return found


def _renderer(template: str, settings: Mapping[str, Any]) -> Callable[[Sequence[Turn]], str]:
    """A function that renders a template with the names that transformers gives to templates."""
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> NoReturn:
        raise ValueError(message)

    def as_json(value: Any, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=False, **options)

    rooms = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    rooms.filters["tojson"] = as_json
    rooms.globals["raise_exception"] = refuse
    rooms.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    compiled = rooms.from_string(template)
    special = {
        name: value["content"] if isinstance(value, dict) else value
        for name, value in settings.items()
        if name.endswith("_token") and value is not None
    }

    def render(turns: Sequence[Turn]) -> str:
        try:
            return compiled.render(messages=list(turns), add_generation_prompt=True, **special)
        except jinja2.TemplateError as error:
            raise ValueError(str(error)) from None

    return render
