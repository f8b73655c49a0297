"""What the course's command lines share: how a command begins, and how an error looks."""

from __future__ import annotations

import contextlib
import sys

import typer
from rich.console import Console
from rich.markup import escape

from .errors import LoadError, WorkbookError


def enter(app: typer.Typer, err: Console, *, stopped: str) -> None:
    """Run a command line: errors are sentences, Ctrl-C is quiet.

    Exit status: 0 or what the command's `typer.Exit` holds; 1 an error, said on `err`; 2 the
    command is not one; 130 stopped by Ctrl-C.

    Args:
        stopped: what to say when Ctrl-C ended the command.
    """
    try:
        code = app(standalone_mode=False)  # what a command's typer.Exit holds, else None
        sys.exit(code)
    except WorkbookError as error:
        complain(err, error)
        sys.exit(1)
    except (KeyboardInterrupt, typer.Abort):
        err.print(stopped)
        sys.exit(130)
    except Exception as error:
        if hasattr(error, "show"):  # an unknown option or a missing argument
            error.show()
            sys.exit(2)
        raise


def complain(err: Console, error: WorkbookError) -> None:
    """Print an error: what, where, what to do, and for a refused model the server's words."""
    err.print(f"[bold red]✗[/] {escape(error.what)}")
    if error.where:
        err.print(f"  [dim]where:[/] {escape(error.where)}", soft_wrap=True)
    if error.todo:
        err.print(f"  [dim]to do:[/] {escape(error.todo)}")
    if isinstance(error, LoadError):
        with contextlib.suppress(IndexError):
            err.print(f"  [dim]server:[/] {escape(error.message.strip())}")
