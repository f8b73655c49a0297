"""`Evidence`: the folder, the config and the Python files of a model that the server refused.

An explanation names a place, such as `config.pbtxt, line 7, field input[0].dims`. `PLACES` has the
helpers that an entry's `where` may name:

    where = "@field instance_group.kind instance_group"
    # the line of the first of these fields that is in the config

    where = "@tensor dims"
    # the line of the field dims, in the input or output that the server's message names
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from .. import model_folder
from ..pbtxt import Document, Field, Message, Place, Scalar, parse
from .rules import Parts, near

CONFIG = "config.pbtxt"
_WORD = re.compile(r"[A-Za-z_]\w*")
_QUOTED = re.compile(r"'([^']+)'|\"([^\"]+)\"")
_FRAME = re.compile(r"^ *(?P<file>\S.*)\((?P<line>\d+)\): (?P<function>.*)$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Evidence:
    """A model that was refused.

    Attributes:
        model: its name.
        folder: its folder, on this machine; it need not exist.
        message: the server's message, with the reason from its log where the log has one.
    """

    model: str
    folder: Path
    message: str

    # -- the config -----------------------------------------------------------------------------

    @cached_property
    def config_bytes(self) -> bytes:
        """The config's bytes; empty if it cannot be read."""
        try:
            return (self.folder / CONFIG).read_bytes()
        except OSError:
            return b""

    @cached_property
    def config(self) -> Document:
        """The config with its positions."""
        return parse(self.config_bytes.decode("utf-8", errors="replace"))

    def at(self, *paths: str) -> str:
        """The place of the first of these fields that is in the config; else the file's name.

        evidence.at("backend", "platform")  # config.pbtxt, line 2, field platform
        """
        for path in paths:
            field = self.config.find(path)
            if field is not None:
                return show(field)
        return CONFIG

    def at_value(self, text: str, *names: str) -> str:
        """The place of the last field with this value, of those names; else the file's name."""
        for field in reversed(list(self.config.walk())):
            same = isinstance(field.value, Scalar) and field.value.text == text
            if same and (not names or field.name in names):
                return show(field)
        return CONFIG

    def at_position(self, parts: Parts) -> str:
        """The place for the `line` and `column` that the server's message names."""
        place = self.place(parts)
        field = self.config.at(place)
        found = show(field) if field else ""
        if found.startswith(f"{CONFIG}, line {place.line},"):
            return found
        return f"{CONFIG}, line {place.line}" + (f", after field {short(field)}" if field else "")

    def place(self, parts: Parts) -> Place:
        """The server's line and column as a `Place`."""
        return self.config.place_of(int(parts["line"]), int(parts["column"]))

    def value(self, path: str, default: str = "") -> str:
        """The text of a scalar field of the config."""
        field = self.config.find(path)
        scalar = field.value if field else None
        return scalar.text if isinstance(scalar, Scalar) else default

    def sections(self, name: str) -> list[tuple[Field, Message]]:
        """The config's sections of a name, e.g. each `input`."""
        fields = self.config.root.all(name)
        return [(field, field.value) for field in fields if isinstance(field.value, Message)]

    def tensor_names(self, kind: str) -> list[str]:
        """The names of the config's inputs or outputs."""
        return [section.text("name") for _, section in self.sections(kind)]

    def at_tensor(self, kind: str, name: str, field: str = "") -> str:
        """The place of an input or output; if it has the field `field`, the place of that field.

        A tensor may also be named elsewhere, e.g. as a control of the sequence batcher. Then the
        place of that name is returned.
        """
        for entry, section in self.sections(kind):
            if section.text("name") == name:
                return self.at(f"{entry.path}.{field}", entry.path)
        for other in self.config.walk():
            named = isinstance(other.value, Scalar) and other.value.text == name
            if named and other.name == "name":
                return show(other)
        return self.at(f"{kind}[0]")

    def at_named(self, words: str) -> str:
        """The place of the thing that a message names; "" if the model has no such thing.

        That can be a file of the model's folder, a parameter, a tensor, or a field of the config:

            evidence.at_named("model_warmup can not be specified for ensemble 'e'")
            # config.pbtxt, line 9, field model_warmup[0]
        """
        for path in re.findall(rf"/{re.escape(self.model)}/([\w./@+-]+)", words):
            if (self.folder / path.rstrip(".")).exists():
                return str(path.rstrip("."))
        single = _WORD.findall(words)
        # A message says "response cache" for the field response_cache.
        tokens = {*single, *(f"{a}_{b}".lower() for a, b in itertools.pairwise(single))}
        for entry, section in self.sections("parameters"):
            if section.text("key") in tokens:
                return show(entry)
        quoted = {name or other for name, other in _QUOTED.findall(words)} - {self.model}
        for kind in ("input", "output"):
            for name in self.tensor_names(kind):
                if name in quoted or (len(name) > 1 and name in tokens):
                    return self.at_tensor(kind, name)
        fields = list(self.config.walk())
        for field in fields:
            if isinstance(field.value, Scalar) and field.value.text in quoted:
                return show(field)
        plain = tokens - {"name", "input", "output", "value", "key", "kind", "backend", "platform"}
        named = [field for field in fields if field.name in plain]
        return show(max(named, key=lambda field: field.path.count("."))) if named else ""

    def at_parameter(self, key: str) -> str:
        """The place of a parameter; else the place of the first parameter, or the file's name."""
        for entry, section in self.sections("parameters"):
            if section.text("key") == key:
                return show(entry)
        return self.at("parameters")

    def parameter(self, key: str) -> str:
        """A parameter's value; "" where the config does not give it."""
        entries = [section for _, section in self.sections("parameters")]
        return next((string_value(s) for s in entries if s.text("key") == key), "")

    def parameter_like(self, key: str) -> str:
        """The key in the config that is most likely a misspelt `key`; "" if there is none.

        Backends ignore keys that they do not know. Their message says only that `key` is missing.
        """
        keys = [section.text("key") for _, section in self.sections("parameters")]
        return "" if key in keys else near(key, keys, cutoff=0.75)

    def dims(self, kind: str, name: str) -> list[str]:
        """The dims of an input or output, as written."""
        for _, section in self.sections(kind):
            if section.text("name") == name:
                values = [field.value for field in section.all("dims")]
                return [v.text for v in values if isinstance(v, Scalar)]
        return []

    # -- the folder -----------------------------------------------------------------------------

    def entries(self) -> list[str]:
        """The names in the model's folder; a folder's name ends in a slash."""
        return _listing(self.folder)

    def versions(self) -> list[int]:
        """The numbers of the version folders."""
        return model_folder.versions(self.folder)

    @property
    def version(self) -> str:
        """The version for explanations: the one in the server's message, else the highest."""
        named = re.search(r"version (\d+) is at UNAVAILABLE|' version (\d+): ", self.message)
        if named:
            return named[1] or named[2]
        return str(max(self.versions(), default=1))

    def files(self) -> list[str]:
        """The names in the folder of that version."""
        return _listing(self.folder / self.version)

    def neighbours(self) -> list[str]:
        """The other models of the repository."""
        folders = [p for p in _children(self.folder.parent) if p.is_dir()]
        return [p.name for p in folders if p.name != self.model and not p.name.startswith(".")]

    # -- Python ---------------------------------------------------------------------------------

    def frame(self) -> tuple[str, int, str] | None:
        """File, line and function of the last call in the model's own code; None without one.

        A traceback also has lines of Python and of libraries. The student can change only the
        model's own files, so this returns the innermost line that is in one of them. The server
        lists the lines below `At:`, the innermost first. Its paths may be those of another machine
        or container, so a file is recognized by the two folders above it: the model's name and the
        version.
        """
        own = re.compile(rf".*/{re.escape(self.model)}/(\d+/.+)")
        for match in _FRAME.finditer(self.message.partition("At:")[2]):
            inside = own.match(match["file"])
            if inside:
                return inside[1], int(match["line"]), match["function"]
        return None

    def at_frame(self) -> str:
        """`frame` as text: `1/model.py, line 7, in execute: …`; without one, the model's file."""
        frame = self.frame()
        if frame is None:
            return self.python_file
        file, line, function = frame
        inside = "" if function == "<module>" else f", in {function}"
        code = self.code(file, line)
        return f"{file}, line {line}{inside}" + (f": {code}" if code else "")

    def code(self, file: str, line: int) -> str:
        """A line of one of the model's files, without indentation; "" if there is no such line."""
        try:
            lines = (self.folder / file).read_text("utf-8", errors="replace").splitlines()
            return lines[line - 1].strip()
        except (OSError, IndexError):
            return ""

    @property
    def python_file(self) -> str:
        """The model's Python file, as a path inside its folder."""
        return f"{self.version}/{self.value('default_model_filename', 'model.py')}"


def show(field: Field) -> str:
    """`config.pbtxt, line 7, field input[0].dims`."""
    return f"{CONFIG}, line {field.place.line}, field {short(field)}"


def string_value(entry: Message) -> str:
    """The value of an entry of `parameters`."""
    inner = [field.value for field in entry.all("value")]
    return inner[0].text("string_value") if inner and isinstance(inner[0], Message) else ""


def short(field: Field) -> str:
    """A field's path, without the index of a number or name in a list."""
    return re.sub(r"\[\d+\]$", "", field.path) if isinstance(field.value, Scalar) else field.path


def _at_named(kind: str) -> Callable[..., str]:
    def at(evidence: Evidence, parts: Parts, field: str = "") -> str:
        return evidence.at_tensor(kind or parts["kind"], parts["name"], field)

    return at


#: The helpers for an entry's `where`, `@NAME WORDS`: NAME → a function that returns the place. Its
#: arguments are the evidence, the parts of the message, and the words.
PLACES: dict[str, Callable[..., str]] = {
    # the first of these fields that is in the config
    "field": lambda evidence, parts, *paths: evidence.at(*paths),
    # the last field whose value is this part of the message
    "value": lambda evidence, parts, part: evidence.at_value(parts[part]),
    # the tensor that the message names as {kind} and {name}, or a field of it
    "tensor": _at_named(""),
    "input": _at_named("input"),
    "parameter": lambda evidence, parts, key: evidence.at_parameter(key),
    # the innermost line of the traceback that is in the model's own code
    "frame": lambda evidence, parts: evidence.at_frame(),
    # the line and the column of the message
    "position": lambda evidence, parts: evidence.at_position(parts),
}


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _listing(folder: Path) -> list[str]:
    return [p.name + ("/" if p.is_dir() else "") for p in _children(folder) if p.name[0] != "."]
