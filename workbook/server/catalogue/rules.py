"""How an entry of the catalogue is written, and how a message is explained.

An entry is data. Each family of entries is a TOML file of this folder. To add an entry, write a
table into the file of its family. The entries are tried in the order of the file:

    [[name-differs]]
    message = "unexpected directory name '{folder}' for model '{model}', directory name must"
    what = 'The config calls the model "{model}", its folder is {folder}.'
    where = "@field name"
    todo = 'Write name: "{folder}", or take the line out: the folder names the model.'
    example = "unexpected directory name 'a' for model 'b', directory name must equal it"

- `message`: the server's message, or a list of messages. A part in braces varies:
  `{name}` is any text without quotes and line ends, `{name:int}` a whole number, `{name:id}` an
  identifier, `{name:word}` a name or a path, `{name:dims}` a shape, `{name:rest}` the rest of the
  line, `{name:text}` the same without quotes and full stops at its end.
- `what`, `where`, `todo`: what is wrong, where, and what to do. Each `{name}` is replaced by that
  part of the message, or by the attribute of the evidence (`{version}`). In a list of texts, the
  first text is taken that has only known parts (not empty), else the last text. The part
  `{name?}` must be known, too, but is not shown.
- `where` may name a helper: `@field PATHS`, `@tensor FIELD`, `@input FIELD`, `@parameter KEY`,
  `@frame`, `@position` (see evidence.py, PLACES).
- `look_up`: the name of a function in the family's module, for an entry that has to read the config
  or a file. The function gets the evidence and the parts of the message, and returns more parts.
  One message can have several causes. If the cause is another one, the function returns None, and
  the next entry is tried. It may also return the whole `Advice`.
- `example`: a message that this entry explains; `config`: the faulty config, for an example that
  needs one. tests/server/test_explain.py explains each example. Add the expected explanation as a
  line of tests/server/explanations.txt. If this line is missing, the test shows it.

An entry explains the server's message if the entry's `message` occurs in it; the first such entry
is taken. Entries with the same name are tried together, at the place of the first of them.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

Evidence = TypeVar("Evidence")
#: The parts of a message, by name.
Parts = dict[str, str]

_PART = re.compile(r"\{(\w+)(?::(\w+))?(\?)?\}")
_KINDS = {
    "": r"[^'\"\n]*?",
    "int": r"-?\d+",
    "word": r"[\w.:+/@-]+",
    "id": r"[A-Za-z_]\w*",
    "dims": r"[-\d, ]*",
    "rest": r"[^\n]*",
    "text": r"[^\n]*?(?=[\"';. ]*(?:\n|\Z))",
}


@dataclasses.dataclass(frozen=True)
class Advice:
    """An explanation: what is wrong, where, and what to do about it."""

    what: str
    where: str = ""
    todo: str = ""


@dataclasses.dataclass(frozen=True)
class Rule:
    """One entry: the fields of its table. `what`, `where` and `todo` are lists of texts."""

    id: str
    messages: list[str]
    what: list[str]
    where: list[str]
    todo: list[str]
    look_up: str
    example: str
    config: str


LookUp = Callable[[Evidence, Parts], Mapping[str, str] | Advice | None]
Place = Callable[..., str]


class Catalogue(Generic[Evidence]):
    """The entries of one family, in the order in which they are tried."""

    def __init__(self, family: str, places: Mapping[str, Place] | None = None) -> None:
        """Read a family's file.

        Args:
            family: the name of its TOML file.
            places: the helpers that `where` may name.
        """
        text = Path(__file__).with_name(f"{family}.toml").read_text("utf-8")
        tables = [(name, one) for name, group in tomllib.loads(text).items() for one in group]
        self.rules = [_rule(name, table) for name, table in tables]
        self._places = places or {}
        self._look_ups: dict[str, LookUp[Evidence]] = {}
        self._forms = [(pattern(m), rule) for rule in self.rules for m in rule.messages]

    def look_up(self, function: LookUp[Evidence]) -> LookUp[Evidence]:
        """Register a function, so that entries can name it as their `look_up`."""
        self._look_ups[function.__name__] = function
        return function

    def explain(self, evidence: Evidence, message: str) -> tuple[str, Advice] | None:
        """The name and the advice of the first entry that explains a message; else None.

        name, advice = CORE.explain(evidence, "unexpected platform type 'onnx' for m")
        """
        for expression, rule in self._forms:
            for match in expression.finditer(message):
                advice = self._advise(rule, evidence, match.groupdict(default=""))
                if advice is not None:
                    return rule.id, advice
        return None

    def _advise(self, rule: Rule, evidence: Evidence, parts: Parts) -> Advice | None:
        if rule.look_up:
            found = self._look_ups[rule.look_up](evidence, parts)
            if found is None or isinstance(found, Advice):
                return found
            parts = {**parts, **found}
        where = fill(rule.where, evidence, parts)
        if where.startswith("@") and rule.where[0] != "{where}":
            helper, *words = where[1:].split()
            where = self._places[helper](evidence, parts, *words)
        return Advice(fill(rule.what, evidence, parts), where, fill(rule.todo, evidence, parts))

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)


def _rule(name: str, table: dict[str, Any]) -> Rule:
    def texts(key: str) -> list[str]:
        value: str | list[str] = table.get(key, "")
        return [value] if isinstance(value, str) else value

    fields = (str(table.get(key, "")) for key in ("look_up", "example", "config"))
    look_up, example, config = fields
    return Rule(name, texts("message"), texts("what"), texts("where"), texts("todo"),
                look_up, example, config)  # fmt: skip


def pattern(words: str) -> re.Pattern[str]:
    """An entry's message as a regular expression with a named group for each `{…}`.

    pattern("version {n:int} is not found").search(message)["n"]
    """
    expression, last = "", 0
    for match in _PART.finditer(words):
        expression += re.escape(words[last : match.start()])
        expression += f"(?P<{match[1]}>{_KINDS[match[2] or '']})"
        last = match.end()
    return re.compile(expression + re.escape(words[last:]))


def fill(texts: Iterable[str], evidence: object, parts: Mapping[str, str]) -> str:
    """Fill in the first text that has only known parts, else the last one. Other braces are kept.

    fill(["There is no {name}: write { } or {name}s."], None, {"name": "input"})
    """
    filled = ""
    for text in texts:
        known = {}
        for name in (match[1] for match in _PART.finditer(text)):
            value = parts[name] if name in parts else getattr(evidence, name, "")
            known[name] = value if isinstance(value, str) else ""
        filled = _PART.sub(lambda m, known=known: "" if m[3] else known[m[1]], text)  # type: ignore[misc]
        if all(known.values()):
            break
    return filled


def near(word: str, candidates: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The candidate that was most likely meant; "" if none is similar. Upper case is ignored.

    near("nunpy", ["json", "numpy"])  # numpy
    """
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[found[0]] if found else ""


def near_or_only(word: str, candidates: list[str]) -> str:
    """The candidate that was most likely meant, or the only one there is; else ""."""
    return near(word, candidates) or (candidates[0] if len(candidates) == 1 else "")


def listed(words: Iterable[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    *head, tail = list(words) or ["none"]
    return f"{', '.join(head)} {last} {tail}" if head else tail
