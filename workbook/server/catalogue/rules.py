"""How an entry of the catalogue is written: the server's words, and a function that explains them.

    @TEXT.rule("field-twice", 'Non-repeated field "{field}" is specified multiple times')
    def field_twice(evidence, said):
        "Keep one of the two."
        return Advice(...)

In the words, `{name}` stands for what varies: text without quotes and line ends; `{name:int}` for
a whole number, `{name:id}` for an identifier, `{name:word}` for a name or a path, `{name:dims}` for
a shape, `{name:rest}` for the rest of the line. The docstring is what the catalogue's table says
to do.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

Evidence = TypeVar("Evidence")
Said = dict[str, str]

_VARIES = re.compile(r"\{(\w+)(?::(\w+))?\}")
_KINDS = {
    "": r"[^'\"\n]*?",
    "int": r"-?\d+",
    "word": r"[\w.:+/@-]+",
    "id": r"[A-Za-z_]\w*",
    "dims": r"[-\d, ]*",
    "rest": r"[^\n]*",
}


@dataclasses.dataclass(frozen=True)
class Advice:
    """What a rule has found out: what is wrong, where, and what to write instead."""

    what: str
    where: str = ""
    todo: str = ""


@dataclasses.dataclass(frozen=True)
class Rule(Generic[Evidence]):
    """One entry of the catalogue.

    Attributes:
        id: its name, in kebab case.
        words: the server's words, with `{…}` for what varies; any of them will do.
        advise: explains them; None where they turn out to mean something else.
    """

    id: str
    words: tuple[str, ...]
    advise: Callable[[Evidence, Said], Advice | None]

    @property
    def summary(self) -> str:
        """What to do, in a line."""
        return " ".join((self.advise.__doc__ or "").split())


Advise = Callable[[Evidence, Said], Advice | None]


class Catalogue(Generic[Evidence]):
    """Rules in the order in which they are tried."""

    def __init__(self) -> None:
        self.rules: list[Rule[Evidence]] = []
        self._patterns: list[tuple[re.Pattern[str], Rule[Evidence]]] = []

    def rule(self, name: str, *words: str) -> Callable[[Advise[Evidence]], Advise[Evidence]]:
        """Enter the function that follows under a name."""

        def enter(advise: Advise[Evidence]) -> Advise[Evidence]:
            entry = Rule(name, words, advise)
            self.rules.append(entry)
            self._patterns += [(pattern(template), entry) for template in words]
            return advise

        return enter

    def explain(self, evidence: Evidence, message: str) -> tuple[str, Advice] | None:
        """The first rule that has an explanation, by its name, and the explanation."""
        for expression, entry in self._patterns:
            for match in expression.finditer(message):
                advice = entry.advise(evidence, match.groupdict(default=""))
                if advice is not None:
                    return entry.id, advice
        return None

    def __iter__(self) -> Iterator[Rule[Evidence]]:
        return iter(self.rules)


def pattern(words: str) -> re.Pattern[str]:
    """A rule's words as a regular expression with a named group for each `{…}`."""
    expression, last = "", 0
    for match in _VARIES.finditer(words):
        expression += re.escape(words[last : match.start()])
        expression += f"(?P<{match[1]}>{_KINDS[match[2] or '']})"
        last = match.end()
    return re.compile(expression + re.escape(words[last:]))


def near(word: str, candidates: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The candidate that was most likely meant, whatever its case; "" where none is near."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[found[0]] if found else ""


def listed(words: Iterable[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    *head, tail = list(words) or ["none"]
    return f"{', '.join(head)} {last} {tail}" if head else tail
