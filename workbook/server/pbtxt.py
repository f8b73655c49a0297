"""Parse a config.pbtxt, with the line and column of every field.

An explanation needs the position of a field. Protobuf's own parser does not keep positions, and
stops at the first mistake. This parser reads the same format (the specification at protobuf.dev,
"Text Format Language"). It does not stop at a mistake: the result is the tree of the fields that
could be read, and a list of the problems. Which fields Triton knows is in
catalogue/config_schema.py.

    document = parse(text)
    document.find("input[0].dims")  # → Field, with line and column
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r\v\f]+)
    | (?P<newline>\n)
    | (?P<comment>\#[^\n]*)
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*\\?(?:"|(?=\n)|\Z)|'(?:[^'\\\n]|\\[^\n])*\\?(?:'|(?=\n)|\Z))
    | (?P<word>(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-][0-9]+[fF]?|[A-Za-z_0-9.+]+)
    | (?P<mark>[{}<>\[\]:,;-])
    | (?P<junk>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_CLOSED = re.compile(r"""(["'])(?:(?!\1)[^\\\n]|\\[^\n])*\1""")
_ESCAPE = re.compile(
    r"\\(?:x(?P<hex>[0-9A-Fa-f]{1,2})|u(?P<u4>[0-9A-Fa-f]{4})|U(?P<u8>[0-9A-Fa-f]{8})"
    r"|(?P<octal>[0-7]{1,3})|(?P<other>.))",
    re.DOTALL,
)
_ESCAPES = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11}
_CLOSES = {"{": "}", "<": ">", "[": "]"}
_DEEPEST = 50  # levels; protobuf's own limit is 100, and a model's config needs 6


@dataclasses.dataclass(frozen=True, order=True)
class Place:
    """A position in the file: line and column, both from 1, the column in characters."""

    line: int
    column: int


@dataclasses.dataclass(frozen=True)
class Problem:
    """Something that the text format does not allow, and its place.

    Attributes:
        kind: `unclosed` (a bracket, a brace or a string), `stray` (a character or bracket that is
            not allowed there), `no-value` (a name without a value), `no-colon` (none between a name
            and its value) or `deep` (nested too deeply to read on).
        text: the text that is wrong.
        place: where it begins.
        found: for an unclosed bracket, the place of the first text that cannot be inside it.
    """

    kind: str
    text: str
    place: Place
    found: Place | None = None


@dataclasses.dataclass(frozen=True)
class Scalar:
    """A value that is not a section.

    Attributes:
        raw: as written, e.g. `"python"` with its quotes or `TYPE_FP32`.
        text: what it means: a string without quotes, escapes and line breaks; else as `raw`.
        quoted: whether it is a string.
        place: where it begins.
    """

    raw: str
    text: str
    quoted: bool
    place: Place


@dataclasses.dataclass
class Message:
    """A section: `{…}` or `<…>`, or the whole file.

    Attributes:
        fields: its fields in the file's order; an element of a list is a field of its own.
        place: where it opens.
    """

    fields: list[Field]
    place: Place

    def all(self, name: str) -> list[Field]:
        """Every field of that name, in order."""
        return [field for field in self.fields if field.name == name]

    def text(self, name: str, default: str = "") -> str:
        """The text of a scalar field, or `default` where there is none."""
        for field in self.all(name):
            if isinstance(field.value, Scalar):
                return field.value.text
        return default


@dataclasses.dataclass
class Field:
    """A name with a value, or one element of its list.

    Attributes:
        name: the field's name.
        value: its value; None where the file gives none.
        place: where it begins: its name, or for an element of a list the element itself.
        path: from the top of the file, e.g. `input[0].name`: a field that is written in a list,
            or more than once, has an index.
        listed: whether it is an element of a list.
        start: equal to `place`, but for the first element of a list the place of the list's name.
    """

    name: str
    value: Scalar | Message | None
    place: Place
    path: str = ""
    listed: bool = False
    start: Place = Place(1, 1)

    def __post_init__(self) -> None:
        if not self.listed:
            self.start = self.place


@dataclasses.dataclass(frozen=True)
class Document:
    """A config.pbtxt, read.

    Attributes:
        root: its fields.
        problems: what the format does not allow, in the file's order; empty for a well-formed file.
        lines: the file's lines, without their ends.
    """

    root: Message
    problems: list[Problem]
    lines: list[str]

    def walk(self) -> Iterator[Field]:
        """Every field, each before the fields inside it, in the file's order."""
        stack = list(reversed(self.root.fields))
        while stack:
            field = stack.pop()
            yield field
            if isinstance(field.value, Message):
                stack.extend(reversed(field.value.fields))

    def find(self, path: str) -> Field | None:
        """The field at a path; an index that is left out means the first.

        document.find("input[1].name")
        """
        wanted = _steps(path)
        for field in self.walk():
            if _steps(field.path) == wanted:
                return field
        return None

    def at(self, place: Place) -> Field | None:
        """The innermost field that begins at or before a place."""
        best = None
        for field in self.walk():
            if field.start <= place:
                best = field
        return best

    def before(self, place: Place, name: str, raw: str | None = None) -> Field | None:
        """The last field of that name (and value as written) that begins at or before a place.

        For some mistakes the server names the position after the mistake, which can be on the next
        line. So this method looks for the field before that position.
        """
        best = None
        for field in self.walk():
            fits = raw is None or (isinstance(field.value, Scalar) and field.value.raw == raw)
            if field.name == name and field.start <= place and fits:
                best = field
        return best

    def place_of(self, line: int, column: int) -> Place:
        """The `Place` for a line and a column that a message of protobuf's C++ parser names.

        That parser counts a column in bytes, and a tab advances to the next multiple of 8
        (tokenizer.cc). A `Place` counts characters.
        """
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        count = 0
        for i, character in enumerate(text):
            if count >= column - 1:
                return Place(line, i + 1)
            count += 8 - count % 8 if character == "\t" else len(character.encode())
        return Place(line, len(text) + 1)


def parse(text: str) -> Document:
    """Parse protobuf text format. It raises no error: mistakes are listed in `problems`.

    parse('input { name: "x" ').problems  # [Problem(kind="unclosed", text="{", …)]
    """
    return _Parser(text).document()


@dataclasses.dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    place: Place


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.problems: list[Problem] = []
        self.tokens, self.end = self._tokens(text)
        self.i = 0

    def document(self) -> Document:
        root = Message([], Place(1, 1))
        self._message(root, [])
        _name_paths(root)
        self.problems.sort(key=lambda problem: problem.place)
        return Document(root, self.problems, self.text.split("\n"))

    def _tokens(self, text: str) -> tuple[list[_Token], Place]:
        tokens = []
        line, start = 1, 0
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup or "junk"
            place = Place(line, match.start() - start + 1)
            if kind == "newline":
                line, start = line + 1, match.end()
            elif kind not in ("space", "comment"):
                tokens.append(_Token(kind, match[0], place))
        return tokens, Place(line, len(text) - start + 1)

    # -- the next token -------------------------------------------------------------------------

    def _peek(self, *texts: str) -> bool:
        return self.i < len(self.tokens) and self.tokens[self.i].text in texts

    def _kind(self) -> str:
        return self.tokens[self.i].kind if self.i < len(self.tokens) else ""

    def _place(self) -> Place:
        return self.tokens[self.i].place if self.i < len(self.tokens) else self.end

    def _problem(self, kind: str, text: str, place: Place, found: Place | None = None) -> None:
        self.problems.append(Problem(kind, text, place, found))

    def _stray(self) -> None:
        token = self.tokens[self.i]
        self._problem("stray", token.text, token.place)
        self.i += 1

    # -- the grammar ----------------------------------------------------------------------------

    def _message(self, message: Message, closers: list[str]) -> None:
        """Read fields up to the bracket that closes this section or one around it."""
        while self.i < len(self.tokens) and not self._peek(*closers):
            if self._peek(",", ";"):
                self.i += 1
            elif self._kind() == "word":
                self._field(message, closers)
            elif self._peek("[") and self._is_extension():
                self.i += 1
            else:
                self._stray()

    def _is_extension(self) -> bool:
        """`[package.name]: …` names an extension; the brackets are skipped, the name is read."""
        rest = self.tokens[self.i : self.i + 4]
        return len(rest) == 4 and rest[1].kind == "word" and rest[2].text == "]"

    def _field(self, message: Message, closers: list[str]) -> None:
        name = self.tokens[self.i]
        self.i += 1
        if self._peek("]") and "]" not in closers:  # it ends an extension's name
            self.i += 1
        colon = self._peek(":")
        if self._peek(":", "="):
            self.i += 1
        bare = self._kind() == "string" or (self._kind() == "word" and self._here_digit())
        if not colon and (self.tokens[self.i - 1].text == "=" or bare):
            self._problem("no-colon", name.text, self.tokens[self.i - 1].place)
            colon = True
        if self._peek("["):
            self._list(message, name, closers)
        elif self._peek("{", "<"):
            message.fields.append(Field(name.text, self._section(closers), name.place))
        else:
            value = self._scalar() if colon else None
            if value is None:
                self._problem("no-value", name.text, name.place)
            message.fields.append(Field(name.text, value, name.place))

    def _here_digit(self) -> bool:
        return self.tokens[self.i].text[:1].isdigit()

    def _section(self, closers: list[str]) -> Message:
        token = self.tokens[self.i]
        self.i += 1
        section = Message([], token.place)
        closer = _CLOSES[token.text]
        if len(closers) >= _DEEPEST:
            self._problem("deep", token.text, token.place)
            return section
        self._message(section, [*closers, closer])
        self._close(token, closer)
        return section

    def _list(self, message: Message, name: _Token, closers: list[str]) -> None:
        token = self.tokens[self.i]
        self.i += 1
        start = name.place
        while self.i < len(self.tokens) and not self._peek("]", *closers):
            if self._peek(",", ";"):
                self.i += 1
                continue
            value: Scalar | Message | None
            if self._peek("{", "<"):
                value = self._section([*closers, "]"])
            elif self._name_follows():  # the list is not closed, and the next field begins
                break
            else:
                value = self._scalar()
            if value is None:
                self._stray()
                continue
            element = Field(name.text, value, value.place, listed=True, start=start)
            message.fields.append(element)
            start = self._place()
        self._close(token, "]")

    def _name_follows(self) -> bool:
        following = self.tokens[self.i + 1 : self.i + 2]
        return self._kind() == "word" and bool(following) and following[0].text in ":{<["

    def _close(self, opener: _Token, closer: str) -> None:
        if self._peek(closer):
            self.i += 1
        else:
            self._problem("unclosed", opener.text, opener.place, self._place())

    def _scalar(self) -> Scalar | None:
        """The value at this token: a string (its pieces joined), a number or a name; else None."""
        place = self._place()
        if self._kind() == "string":
            pieces = []
            while self._kind() == "string":
                pieces.append(self.tokens[self.i])
                self.i += 1
            for piece in pieces:
                if not _CLOSED.fullmatch(piece.text):
                    self._problem("unclosed", piece.text, piece.place)
            return Scalar(
                " ".join(piece.text for piece in pieces),
                _decode([piece.text for piece in pieces]),
                True,
                place,
            )
        if self._peek("-") and [t.kind for t in self.tokens[self.i + 1 : self.i + 2]] == ["word"]:
            self.i += 2
            raw = "-" + self.tokens[self.i - 1].text
            return Scalar(raw, raw, False, place)
        if self._kind() == "word":
            self.i += 1
            raw = self.tokens[self.i - 1].text
            return Scalar(raw, raw, False, place)
        return None


def _decode(pieces: list[str]) -> str:
    """The text of quoted pieces, decoded: escapes are bytes, and all bytes together are UTF-8."""
    content = bytearray()
    for piece in pieces:
        inner = piece[1:-1] if _CLOSED.fullmatch(piece) else piece[1:]
        last = 0
        for match in _ESCAPE.finditer(inner):
            content += inner[last : match.start()].encode("utf-8", "surrogatepass")
            content += _escaped(match)
            last = match.end()
        content += inner[last:].encode("utf-8", "surrogatepass")
    return content.decode("utf-8", errors="replace")


def _escaped(match: re.Match[str]) -> bytes:
    if match["hex"]:
        return bytes([int(match["hex"], 16)])
    if match["octal"]:
        return bytes([int(match["octal"], 8) & 0xFF])
    if match["u4"] or match["u8"]:
        code = int(match["u4"] or match["u8"], 16)
        return chr(code).encode("utf-8", "surrogatepass") if code < 0x110000 else b"?"
    other = match["other"]
    return bytes([_ESCAPES[other]]) if other in _ESCAPES else other.encode("utf-8", "surrogatepass")


def _name_paths(root: Message) -> None:
    """Set every field's path. A field that is written once and outside of a list has no index."""
    stack = [(root, "")]
    while stack:
        message, prefix = stack.pop()
        counts: dict[str, int] = {}
        for field in message.fields:
            counts[field.name] = counts.get(field.name, 0) + 1
        seen: dict[str, int] = {}
        for field in message.fields:
            index = seen.get(field.name, 0)
            seen[field.name] = index + 1
            many = field.listed or counts[field.name] > 1
            field.path = f"{prefix}{field.name}[{index}]" if many else f"{prefix}{field.name}"
            if isinstance(field.value, Message):
                stack.append((field.value, f"{field.path}."))


def _steps(path: str) -> list[tuple[str, int]]:
    steps = []
    for part in path.split("."):
        name, _, index = part.partition("[")
        digits = index.rstrip("]")
        steps.append((name, int(digits) if digits.isascii() and digits.isdigit() else 0))
    return steps
