"""What there is to look at when a model is refused: its folder, its config, its Python files.

The `at_…` functions at the end give a row of the catalogue its place:

    where=at_field("instance_group.kind", "instance_group")  # the first that the config has
    where=at_tensor("dims")  # the field dims of the tensor {kind} "{name}" of the message
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from .. import model_folder
from ..pbtxt import Document, Field, Message, Place, Scalar, parse
from .rules import Said, near

CONFIG = "config.pbtxt"
_FRAME = re.compile(r"^ *(?P<file>\S.*)\((?P<line>\d+)\): (?P<function>.*)$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Evidence:
    """A model that was refused.

    Attributes:
        model: its name.
        folder: its folder, on this machine; it need not exist.
        message: what the server said, with the reason from its log where it gave one there.
    """

    model: str
    folder: Path
    message: str

    # -- the config -----------------------------------------------------------------------------

    @cached_property
    def config_bytes(self) -> bytes:
        """The config's bytes; empty where it cannot be read."""
        try:
            return (self.folder / CONFIG).read_bytes()
        except OSError:
            return b""

    @cached_property
    def config(self) -> Document:
        """The config with its positions."""
        return parse(self.config_bytes.decode("utf-8", errors="replace"))

    def at(self, *paths: str) -> str:
        """Where the first of these fields that the config has stands; else the file."""
        for path in paths:
            field = self.config.find(path)
            if field is not None:
                return show(field)
        return CONFIG

    def at_position(self, said: dict[str, str]) -> str:
        """Where the `line` and `column` of the server's message lie."""
        place = self.place(said)
        field = self.config.at(place)
        found = show(field) if field else ""
        if found.startswith(f"{CONFIG}, line {place.line},"):
            return found
        return f"{CONFIG}, line {place.line}" + (f", after field {short(field)}" if field else "")

    def place(self, said: dict[str, str]) -> Place:
        """The place that the server names by line and column."""
        return self.config.place_of(int(said["line"]), int(said["column"]))

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
        """Where an input or output stands, or one of its fields where it has it.

        A tensor may also be named elsewhere, as a control of the sequence batcher.
        """
        for entry, section in self.sections(kind):
            if section.text("name") == name:
                return self.at(f"{entry.path}.{field}", entry.path)
        for other in self.config.walk():
            named = isinstance(other.value, Scalar) and other.value.text == name
            if named and other.name == "name":
                return show(other)
        return self.at(f"{kind}[0]")

    def at_parameter(self, key: str) -> str:
        """Where a parameter stands."""
        for entry, section in self.sections("parameters"):
            if section.text("key") == key:
                return show(entry)
        return self.at("parameters")

    def parameter_like(self, key: str) -> str:
        """The key of a parameter that was most likely meant to be `key`, and is not; "" for none.

        Backends ignore keys that they do not know, and say only that they lack the right one.
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
        """What lies in the model's folder; folders end in a slash."""
        return _listing(self.folder)

    def versions(self) -> list[int]:
        """The version folders."""
        return model_folder.versions(self.folder)

    @property
    def version(self) -> str:
        """The version to point at: the one that the server names, else the highest."""
        named = re.search(r"version (\d+) is at UNAVAILABLE|' version (\d+): ", self.message)
        if named:
            return named[1] or named[2]
        return str(max(self.versions(), default=1))

    def files(self) -> list[str]:
        """What lies in that version's folder."""
        return _listing(self.folder / self.version)

    def neighbours(self) -> list[str]:
        """The other models of the repository."""
        folders = [p for p in _children(self.folder.parent) if p.is_dir()]
        return [p.name for p in folders if p.name != self.model and not p.name.startswith(".")]

    # -- Python ---------------------------------------------------------------------------------

    def frame(self) -> tuple[str, int, str] | None:
        """The innermost place of a traceback that is the student's own: file, line, function.

        The server lists places innermost first, below `At:`. Its paths may be those of another
        machine or container, so a file is known by the model's and the version's folder in it.
        """
        own = re.compile(rf".*/{re.escape(self.model)}/(\d+/.+)")
        for match in _FRAME.finditer(self.message.partition("At:")[2]):
            inside = own.match(match["file"])
            if inside:
                return inside[1], int(match["line"]), match["function"]
        return None

    def at_frame(self) -> str:
        """`1/model.py, line 7, in execute: …` for that place; the model's file without one."""
        frame = self.frame()
        if frame is None:
            return self.python_file
        file, line, function = frame
        inside = "" if function == "<module>" else f", in {function}"
        code = self.code(file, line)
        return f"{file}, line {line}{inside}" + (f": {code}" if code else "")

    def code(self, file: str, line: int) -> str:
        """A line of one of the model's files, without indentation; "" where it is not there."""
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


def short(field: Field) -> str:
    """A field's path, without the index of a number or name in a list."""
    return re.sub(r"\[\d+\]$", "", field.path) if isinstance(field.value, Scalar) else field.path


def at_field(*paths: str) -> Callable[[Evidence, Said], str]:
    """Where the first of these fields stands that the config has."""
    return lambda evidence, said: evidence.at(*paths)


def at_tensor(field: str = "") -> Callable[[Evidence, Said], str]:
    """Where the tensor of the message (its `kind` and `name`) stands, or one of its fields."""
    return lambda evidence, said: evidence.at_tensor(said["kind"], said["name"], field)


def at_input(field: str = "") -> Callable[[Evidence, Said], str]:
    """Where the input of the message (its `name`) stands, or one of its fields."""
    return lambda evidence, said: evidence.at_tensor("input", said["name"], field)


def at_parameter(key: str) -> Callable[[Evidence, Said], str]:
    """Where a parameter of the config stands."""
    return lambda evidence, said: evidence.at_parameter(key)


def at_frame(evidence: Evidence, said: Said) -> str:
    """Where the traceback in the message enters the model's own code."""
    return evidence.at_frame()


def at_position(evidence: Evidence, said: Said) -> str:
    """Where the line and the column of the message lie."""
    return evidence.at_position(said)


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _listing(folder: Path) -> list[str]:
    return [p.name + ("/" if p.is_dir() else "") for p in _children(folder) if p.name[0] != "."]
