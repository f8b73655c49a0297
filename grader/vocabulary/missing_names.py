"""What a student reads where a check cell names something that is not there.

A cell that deploys a model and fails leaves its name unset. The check cell below it then raises a
NameError, whose traceback points at the check, although the mistake is in the cell above.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import IPython


def explain() -> None:
    """Have the notebook that this kernel runs show such an error as a sentence. Elsewhere: nothing.

    The cell still ends with the NameError; only what is shown is another text.
    """
    shell = IPython.get_ipython()
    if shell is not None:
        shell.set_custom_exc((NameError,), _show)


def _show(
    shell: Any,
    kind: type[NameError],
    error: NameError,
    trace: TracebackType,
    tb_offset: int | None = None,
) -> None:
    """Show an error (see `InteractiveShell.set_custom_exc`)."""
    cell = str(shell.user_ns.get("In", [""])[-1])
    in_the_cell = trace.tb_next is None or trace.tb_next.tb_next is None
    if not cell.lstrip().startswith("check(") or not in_the_cell:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
        return
    lines = [
        f"✗ `{error.name}` is not there yet, so the check has nothing to look at.",
        "  to do: Run the cell that makes it. If that cell ended with an error, correct it first.",
    ]
    shell._showtraceback(kind, error, lines)  # what showtraceback does with the lines of its own
