"""How an entry of the catalogue is written.

An entry that always gives the same advice is added with `row`. It has the message that the server
sends, what is wrong, where, and what to do about it:

    CORE.row(
        "name-differs",
        "unexpected directory name '{folder}' for model '{model}', directory name must",
        what='The config calls the model "{model}", its folder is {folder}.',
        where=at_field("name"),
        todo='Write name: "{folder}", or take the line out: the folder names the model.',
    )

An entry that has to look something up is a function, added with `rule`. Its docstring says in one
line what to do; the catalogue's table shows this line. One message can have several causes. The
function checks whether its own cause applies. If so, it returns an `Advice`. If not, it returns
None, and the next entry is tried:

    @CORE.rule("no-backend", "must specify 'platform' or 'backend' for '{model}'")
    def no_backend(evidence: Evidence, said: Said) -> Advice | None:
        "Write `backend:` into config.pbtxt."
        return Advice(what=..., where=..., todo=...)

Parts of the server's message vary. The entry writes such a part as a name in braces:

- `{name}`: any text without quotes and line ends
- `{name:int}`: a whole number
- `{name:id}`: an identifier
- `{name:word}`: a name or a path
- `{name:dims}`: a shape
- `{name:rest}`: the rest of the line
- `{name:text}`: the rest of the line, without quotes and full stops at its end

A message is explained in these steps:

1. The entries are tried in the order in which they are written.
2. An entry fits if its message occurs in the server's message. What was found for each name in
   braces is kept as `said`, a dict by name.
3. For a function, `said` is its second argument.
4. For a row, each `{name}` in `what`, `where` and `todo` is replaced by `said[name]`. If `said` has
   no such name, the attribute of the evidence is taken: `{version}` is `Evidence.version`.

Several rows and functions may have the same name: they are one entry with several messages.

Every entry needs a test in tests/server/test_explain.py that causes the failure on a real server.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

Evidence = TypeVar("Evidence")
#: What was found for each name in braces of an entry's message, by name.
Said = dict[str, str]

_VARIES = re.compile(r"\{(\w+)(?::(\w+))?\}")
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


@dataclasses.dataclass
class Rule:
    """One entry of the catalogue, as its table shows it.

    Attributes:
        id: its name, in kebab case.
        words: the messages that it explains, with `{…}` for the parts that vary.
        summary: what to do, in one line.
    """

    id: str
    words: list[str]
    summary: str


Advise = Callable[[Evidence, Said], Advice | None]
Where = str | Callable[[Evidence, Said], str]


class Catalogue(Generic[Evidence]):
    """Entries in the order in which they are tried; the module's docstring shows how to add one."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self._forms: list[tuple[re.Pattern[str], str, Advise[Evidence]]] = []

    def row(
        self, name: str, *words: str, what: str, where: Where[Evidence] = "", todo: str
    ) -> None:
        """Add an entry that always gives the same advice.

        Args:
            name: the entry's name, in kebab case.
            words: the messages that it explains.
            what: one sentence that says what is wrong.
            where: the place: a text, or one of the `at_…` functions of evidence.py.
            todo: the instruction.
        """

        def advise(evidence: Evidence, said: Said) -> Advice:
            place = fill(where, evidence, said) if isinstance(where, str) else where(evidence, said)
            return Advice(fill(what, evidence, said), place, fill(todo, evidence, said))

        self._add(name, words, advise, todo)

    def rule(self, name: str, *words: str) -> Callable[[Advise[Evidence]], Advise[Evidence]]:
        """Add the function that follows as an entry.

            @CORE.rule("no-backend", "must specify 'platform' or 'backend' for '{model}'")
            def no_backend(evidence, said): ...

        Args:
            name: the entry's name, in kebab case.
            words: the messages that it explains.
        """

        def add(advise: Advise[Evidence]) -> Advise[Evidence]:
            self._add(name, words, advise, " ".join((advise.__doc__ or "").split()))
            return advise

        return add

    def _add(
        self, name: str, words: tuple[str, ...], advise: Advise[Evidence], summary: str
    ) -> None:
        known = next((rule for rule in self.rules if rule.id == name), None)
        if known is None:
            self.rules.append(Rule(name, list(words), summary))
        else:
            known.words += words
        self._forms += [(pattern(message), name, advise) for message in words]

    def explain(self, evidence: Evidence, message: str) -> tuple[str, Advice] | None:
        """The name and the advice of the first entry that explains a message; None without one.

        name, advice = CORE.explain(evidence, "unexpected platform type 'onnx' for m")
        """
        for expression, name, advise in self._forms:
            for match in expression.finditer(message):
                advice = advise(evidence, match.groupdict(default=""))
                if advice is not None:
                    return name, advice
        return None

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)


def pattern(words: str) -> re.Pattern[str]:
    """An entry's message as a regular expression with a named group for each `{…}`.

    pattern("version {n:int} is not found").search(message)["n"]
    """
    expression, last = "", 0
    for match in _VARIES.finditer(words):
        expression += re.escape(words[last : match.start()])
        expression += f"(?P<{match[1]}>{_KINDS[match[2] or '']})"
        last = match.end()
    return re.compile(expression + re.escape(words[last:]))


def fill(text: str, evidence: object, said: Said) -> str:
    """A row's text with each `{name}` replaced. Braces around other text are kept.

    fill("There is no {name}: write { } or {name}s.", None, {"name": "input"})
    """
    return _VARIES.sub(
        lambda match: said[match[1]] if match[1] in said else str(getattr(evidence, match[1])), text
    )


def near(word: str, candidates: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The candidate that was most likely meant; "" where none is similar. Upper case is ignored.

    near("nunpy", ["json", "numpy"])  # numpy
    """
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[found[0]] if found else ""


def listed(words: Iterable[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    *head, tail = list(words) or ["none"]
    return f"{', '.join(head)} {last} {tail}" if head else tail
