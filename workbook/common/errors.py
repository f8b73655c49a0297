"""The errors that users of this course see: what went wrong, where, and what to do about it.

The command line and notebooks show such an error without a traceback.

    raise WorkbookError(
        "The plan is empty.", where="measure.send", todo="Give at least one request: every(5, 1)."
    )
"""

from __future__ import annotations


class WorkbookError(Exception):
    """An error that the user can correct.

    Args:
        what: one sentence that says what went wrong.
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
        """IPython calls this: a notebook shows the error without a traceback."""
        return [f"{type(self).__name__}: {self}"]


class ServerError(WorkbookError):
    """The server could not be found, assembled, started, reached or stopped."""


class StillLoading(ServerError):
    """A model was not ready in time. The server goes on loading it."""


class RepositoryError(WorkbookError):
    """A model folder, a name or a path is not allowed in the repository."""


class Refusal(WorkbookError):
    """The server refused something, with a message.

    Attributes:
        model: the model's name; "" where no model is concerned.
        message: the server's message; of a traceback only the lines outside the stand-ins.
        rule: the identifier of the matching entry in the catalogue of messages, or "".
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
    """The server or the client library refused a request, or the connection failed.

    Attributes:
        status: the HTTP status of the server's answer, where it is known.
    """

    status: int | None = None
