"""The one shape of every error that a reader of this course may see.

An error says what went wrong, where, and what to do about it. The command line prints it as
such, without a traceback; in a notebook `str(error)` is the same text.
"""

from __future__ import annotations


class WorkbookError(Exception):
    """Something a reader can mend.

    Args:
        what: one sentence: what went wrong.
        where: the file, line, field, port or address concerned; empty where there is none.
        todo: what to do about it, as an instruction; empty where nothing can be done.
    """

    def __init__(self, what: str, *, where: str = "", todo: str = "") -> None:
        self.what = what
        self.where = where
        self.todo = todo
        super().__init__(what)

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.todo:
            lines.append(f"  to do: {self.todo}")
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        """IPython's hook: in a notebook, show the error and not the path that led to it."""
        return [f"{type(self).__name__}: {self}"]


class ServerError(WorkbookError):
    """The server could not be found, assembled, started, reached or stopped."""


class RepositoryError(WorkbookError):
    """A model folder, a name or a path is not one that may enter the repository."""


class Refusal(WorkbookError):
    """The server said no, in words of its own.

    Attributes:
        model: the model's name; "" where none is concerned.
        message: the server's own words; of a traceback only the places outside the stand-ins.
        rule: the identifier of the catalogue's entry, or "" where none matched.
    """

    def __init__(
        self,
        what: str,
        *,
        model: str,
        message: str,
        rule: str = "",
        where: str = "",
        todo: str = "",
    ) -> None:
        super().__init__(what, where=where, todo=todo)
        self.model = model
        self.message = message
        self.rule = rule

    def __str__(self) -> str:
        return f"{super().__str__()}\n  server: {self.message}"


class LoadError(Refusal):
    """The server refused a model."""


class RequestError(Refusal):
    """The server, or the client library, refused a request, or it failed on the way."""
