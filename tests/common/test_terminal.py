"""If the system refuses a file, a command ends with a message, without a traceback."""

from __future__ import annotations

import errno
import io
import os

import pytest
import typer
from rich.console import Console

from workbook.common import terminal


def failing(error: Exception) -> typer.Typer:
    """A command line whose only command raises an error."""
    app = typer.Typer()

    @app.command()
    def fail() -> None:
        raise error

    return app


def ended(error: Exception, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """The exit status and the message of a command that raises an error."""
    stream = io.StringIO()
    monkeypatch.setattr("sys.argv", ["fail"])
    with pytest.raises(SystemExit) as exit:
        terminal.run(failing(error), Console(file=stream, width=300), stopped={})
    return int(exit.value.code or 0), stream.getvalue()


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EACCES, "GRADER_WORK=FOLDER"),
        (errno.EPERM, "GRADER_WORK=FOLDER"),
        (errno.EROFS, "read-only"),
        (errno.ENOSPC, "df -h"),
    ],
)
def test_a_refused_file_is_named_with_what_to_do(
    number: int, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, text = ended(OSError(number, os.strerror(number), "/srv/course/x"), monkeypatch)
    assert status == 1
    for part in ("/srv/course/x", os.strerror(number), advice):
        assert part in text


def test_any_other_error_of_the_system_is_a_fault_and_keeps_its_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["fail"])
    error = OSError(errno.EBADF, "Bad file")
    with pytest.raises(OSError, match="Bad file"):
        terminal.run(failing(error), Console(file=io.StringIO()), stopped={})
