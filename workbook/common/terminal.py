"""What both command lines share: run a command, and print an error."""

from __future__ import annotations

import contextlib
import errno
import sys
from collections.abc import Mapping

import typer
from rich.console import Console
from rich.markup import escape

from .errors import Refusal, WorkbookError
from .interrupts import INTERRUPTED


def run(app: typer.Typer, err: Console, *, stopped: Mapping[str, str]) -> None:
    """Run a command line and exit; errors are printed without a traceback.

    Exit status: 0, or the one of the command's `typer.Exit`; 1: a WorkbookError, or a file that the
    system refuses, printed on `err`; 2: an unknown command or option; 130: stopped by Ctrl-C.

    Args:
        app: the commands.
        err: where errors are printed.
        stopped: the message after Ctrl-C, by the command's name; "" for all other commands.
    """
    command = next((text for text in sys.argv[1:] if not text.startswith("-")), "")
    kept = f"Stopped. {stopped.get(command, stopped.get('', ''))}".rstrip()
    try:
        code = app(standalone_mode=False)  # the status of a command's typer.Exit, else None
        if code == INTERRUPTED:  # typer turns the KeyboardInterrupt into it
            err.print(kept)
        sys.exit(code)
    except WorkbookError as error:
        complain(err, error)
        sys.exit(1)
    except (KeyboardInterrupt, typer.Abort):
        err.print(kept)
        sys.exit(INTERRUPTED)
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        complain(err, refused_file(error))
        sys.exit(1)
    except Exception as error:
        if hasattr(error, "show"):  # an unknown option or a missing argument
            error.show()
            sys.exit(2)
        raise


#: The advice if the system refuses a file, by the error's number.
_REFUSED = {
    errno.EACCES: "Run this as the user who owns the folder, or make that user yourself: "
    "`sudo chown -R $USER FOLDER`. The grader's own folder can be elsewhere: GRADER_WORK=FOLDER.",
    errno.EROFS: "The disk is mounted read-only. Use a copy of the course on another one.",
    errno.ENOSPC: "The disk is full: `df -h` shows it. Make room, then run this again.",
    errno.EDQUOT: "Your share of the disk is used up: `quota -s` shows it. Make room, then go on.",
}
_REFUSED[errno.EPERM] = _REFUSED[errno.EACCES]


def refused_file(error: OSError) -> WorkbookError:
    """The error message for a file or folder that the system refuses to open or to write.

    Args:
        error: an error about a permission, a read-only disk, or a full disk.
    """
    return WorkbookError(
        f"The system refuses a file: {error.strerror}.",
        where=str(error.filename or ""),
        todo=_REFUSED[error.errno or errno.EACCES],
    )


def complain(err: Console, error: WorkbookError) -> None:
    """Print an error: what, where, what to do, and for a refused model the server's message."""
    err.print(f"[bold red]✗[/] {escape(error.what)}")
    if error.where:
        err.print(f"  [dim]where:[/] {escape(error.where)}", soft_wrap=True)
    if error.todo:
        err.print(f"  [dim]to do:[/] {escape(error.todo)}")
    if isinstance(error, Refusal):
        with contextlib.suppress(IndexError):
            err.print(f"  [dim]server:[/] {escape(error.message.strip())}")
