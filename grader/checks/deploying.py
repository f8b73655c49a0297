"""`deploy` for the notebook of an assignment: an error names the mistake and the rule behind it.

Elsewhere in the course an error ends with what to write (`Write dims: [ 2 ].`). In an assignment
that is the task. Here such an error says the rule instead; the check's hints lead to the answer.
Errors that are about the form of a file only keep their advice.
"""

from __future__ import annotations

from pathlib import Path

from workbook import server
from workbook.common.errors import LoadError, WorkbookError
from workbook.server.deploy import Deployment

#: For entries of the catalogue of messages whose advice would solve a task: what is wrong, and the
#: rule from which the right value follows.
_RULES = {
    "fil-output-dims": (
        "The dims of output__0 do not fit what FIL answers with these parameters.",
        "dims describe the answer to one row. With predict_proba the answer holds a probability "
        "for each class; without it, one class.",
    ),
    "fil-shap-dims": (
        "The dims of treeshap_output do not fit what it holds.",
        "It holds a value for each number in a row, and one more.",
    ),
    "tensor-dims": (
        "The dims of a tensor do not fit the model.",
        "dims describe one row, without the batch: how many numbers are in it?",
    ),
    "missing-file": (
        "The server does not find the model's file.",
        "Each format has a file name of its own. Compare what the config says of the format with "
        "the name of the file that you saved.",
    ),
}


def deploy(folder: Path | str) -> Deployment:
    """Copy a model's folder into the server's repository, load it, and say what became of it.

    Example::

        forest = deploy("models/forest").name

    Args:
        folder: the model's folder, with config.pbtxt and version folders.

    Returns:
        What is ready now; `name` is the model's name.

    Raises:
        WorkbookError: there is no server, the folder is not one of a model, or the server refused
            the model. The message names the mistake and the place.
    """
    try:
        return server.deploy(folder)
    except LoadError as error:
        if error.rule not in _RULES:
            raise
        what, todo = _RULES[error.rule]
        raise WorkbookError(
            f"{error.model} did not load. {what}", where=error.where, todo=todo
        ) from None
