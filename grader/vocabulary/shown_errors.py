"""What a student reads in place of two tracebacks, whose lines lie in code that is not theirs.

A cell that deploys a model and fails leaves its name unset. The check cell below it then raises a
NameError, whose traceback points at the check, although the mistake is in the cell above. And where
a server refuses a request, tritonclient's traceback and that of the model's libraries stand around
the few words that matter.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import IPython
from tritonclient.utils import InferenceServerException

from workbook.server.explain import explain as explain_request


def explain() -> None:
    """Have the notebook that this kernel runs show such errors as sentences. Elsewhere: nothing.

    The cell still ends with the same error; only what is shown is another text.
    """
    shell = IPython.get_ipython()
    if shell is not None:
        shell.set_custom_exc((NameError, InferenceServerException), _show)


def cell_before_failed() -> bool:
    """Whether the cell that ran before this one ended with an error; False outside of a kernel."""
    shell = IPython.get_ipython()
    before = shell and shell.last_execution_result  # of the last cell that has ended
    return bool(before and not before.success)


def _show(
    shell: Any,
    kind: type[Exception],
    error: Exception,
    trace: TracebackType,
    tb_offset: int | None = None,
) -> None:
    """Show an error (see `InteractiveShell.set_custom_exc`)."""
    cell = str(shell.user_ns.get("In", [""])[-1])
    in_the_cell = trace.tb_next is None or trace.tb_next.tb_next is None
    if isinstance(error, InferenceServerException):
        # Below "At:" stand the lines of libraries; `where` names the line that is the student's.
        text = str(explain_request(error)).partition("\n\nAt:\n")[0]
        lines = f"✗ {text}".splitlines()
    elif cell.lstrip().startswith("check(") and in_the_cell and isinstance(error, NameError):
        lines = [
            f"✗ `{error.name}` is not there yet, so the check has nothing to look at.",
            "  to do: Run the cell that makes it. If that cell ended with an error, correct it "
            "first.",
        ]
    else:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
        return
    shell._showtraceback(kind, error, lines)  # what showtraceback does with the lines of its own
