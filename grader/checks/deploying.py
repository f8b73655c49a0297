"""`deploy` for the notebook of an assignment: an error names the mistake and the rule behind it.

Elsewhere in the course an error ends with what to write (`Write dims: [ 2 ].`). In an assignment
that is the task. Here such an error says the rule instead; the check's hints lead to the answer.
Errors that are about the form of a file only keep their advice.
"""

from __future__ import annotations

import re
from pathlib import Path

from workbook import server
from workbook.common.errors import LoadError, WorkbookError
from workbook.server.catalogue.evidence import Evidence
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
}
#: The same for a tensor whose dims differ between config and file: either may be the wrong one.
_BATCHED = (
    "dims describe one row: with a max_batch_size above 0 the batch stands in front of them. "
    "Compare both with the task: it may be the file that is not as it should be."
)
_UNBATCHED = (
    "max_batch_size is 0, so dims describe the whole tensor, the batch included. Look first "
    "whether the task wants batches."
)
#: How the server says how many dimensions a tensor has, in the file and by the config.
_COUNTS = re.compile(
    r"the model expects (\d+) dimensions \(shape \[.*?\]\) but the model configuration "
    r"specifies (\d+) dimensions"
)


def deploy(folder: Path | str) -> Deployment:
    """Copy a model's folder into the server's repository, load it, and print what became of it.

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
        deployed = server.deploy(folder)
        print(deployed)
        return deployed
    except LoadError as error:
        if error.rule in _RULES:
            what, todo = _RULES[error.rule]
        elif error.rule == "tensor-dims":
            what, todo = _dims(error, Path(folder))
        elif error.rule == "missing-file":
            what, todo = _no_file(error, Path(folder))
        else:
            raise
        raise WorkbookError(
            f"{error.model} did not load. {what}", where=error.where, todo=todo
        ) from None


def _dims(error: LoadError, folder: Path) -> tuple[str, str]:
    """What is wrong and the rule, where a tensor's dims are not the same in config and file."""
    found = _COUNTS.search(error.message)
    what = "A tensor's dims in the config do not fit the model's file."
    if found is not None:
        what += f" The file's tensor has {found[1]} dimensions, the batch included; by the config "
        what += f"it has {found[2]}."
    config = Evidence(error.model, folder, error.message)
    return what, _UNBATCHED if config.value("max_batch_size", "0") in ("0", "") else _BATCHED


def _no_file(error: LoadError, folder: Path) -> tuple[str, str]:
    """What is wrong and what to do, where a version's folder does not hold the model's file."""
    version = folder / error.where.strip("/")
    files = sorted(path.name for path in version.glob("[!.]*")) if version.is_dir() else []
    if not files:
        which = f"The folder {version.name}" if error.where else "The version's folder"
        return f"{which} is empty: no model was saved there.", "Save the model there first."
    return (
        f"The server does not find the model's file. In the folder: {', '.join(files[:5])}.",
        "Each format has a file name of its own. Compare what the config says of the format with "
        "the name of the file that you saved.",
    )
