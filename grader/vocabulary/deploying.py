"""`deploy` for the notebook of an assignment: an error names the mistake and the rule behind it.

Elsewhere in the course an error ends with what to write (`Write dims: [ 2 ].`). In an assignment
that is the task. Here such an error says the rule instead; the check's hints lead to the answer.
An error that is only about the form of a file keeps its advice.
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
#: The same for a tensor whose name or data type differs.
_EITHER = (
    "Either may be wrong, the config or the file. Compare both with the names and the data types "
    "that the task gives. If it is the file, make it again."
)
#: How the server says which shape a tensor has, in the file and by the config.
_SHAPES = re.compile(
    r"the model expects (?:\d+ dimensions \()?(?:shape|dims) \[(.*?)\].*? specifies .*?\[(.*?)\]"
)
#: What Hugging Face's `from_pretrained` says where a path does not exist: it then takes the path
#: for a name on the hub.
_NO_FOLDER = re.compile(
    r"(?P<rule>Repo id must [^\n:]*): '(?P<path>[^'\n]*)'"
    r"|(?P<hub>We couldn't connect to '[^'\n]*' to load the files)"
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
        elif error.rule in ("tensor-name", "tensor-data-type"):
            what, todo = error.what.removeprefix(f"{error.model} did not load. "), _EITHER
        elif error.rule == "missing-file":
            what, todo = _no_file(error, Path(folder))
        elif error.rule == "python-exception" and (found := _NO_FOLDER.search(error.message)):
            what, todo = _no_checkpoint(error, Path(folder), found)
        else:
            raise
        raise WorkbookError(
            f"{error.model} did not load. {what}", where=error.where, todo=todo
        ) from None


def _dims(error: LoadError, folder: Path) -> tuple[str, str]:
    """What is wrong and the rule, where a tensor's dims are not the same in config and file."""
    found = _SHAPES.search(error.message)
    what = "A tensor's shape by the config is not that of the model's file."
    if found is not None:
        file, by_config = (", ".join(one.split(",")) for one in found.groups())
        what += f" With the batch, it is [{file}] in the file and [{by_config}] by the config. "
        what += "(-1 is any number.)"
    config = Evidence(error.model, folder, error.message)
    return what, _UNBATCHED if config.value("max_batch_size", "0") in ("0", "") else _BATCHED


def _no_file(error: LoadError, folder: Path) -> tuple[str, str]:
    """What is wrong and what to do, where a version's folder does not hold the model's file."""
    evidence = Evidence(error.model, folder, error.message)
    files = evidence.files()
    if not files:
        what = f"The folder {evidence.version} is empty: no model was saved there."
        return what, "Save the model there first."
    return (
        f"The server does not find the model's file. In the folder: {', '.join(files[:5])}.",
        "Each format has a file name of its own. Compare what the config says of the format with "
        "the name of the file that you saved.",
    )


def _no_checkpoint(error: LoadError, folder: Path, found: re.Match[str]) -> tuple[str, str]:
    """What is wrong and what to do, where model.py loads a checkpoint from no folder.

    Args:
        error: the server's refusal.
        folder: the folder that was deployed.
        found: what the library says, as `_NO_FOLDER` found it.
    """
    which = f"The folder {found['path']!r}" if found["path"] else "The folder"
    what = (
        f"{which} does not exist where model.py looks for it. So from_pretrained takes the path "
        f"for a name on Hugging Face's hub, and says: {found['rule'] or found['hub']}."
    )
    version = folder / Evidence(error.model, folder, error.message).version
    inside = sorted(version.glob("[!._]*")) if version.is_dir() else []
    folders = [path.name for path in inside if path.is_dir()]
    held = f"{version} holds no folder: the checkpoint must be put there first."
    if folders:
        held = f"{version} holds {', '.join(folders[:5])}: does the path end with this name?"
    return what, (
        f"{held} A relative path begins in the folder in which the server runs, and not beside "
        'model.py. Where model.py lies is said in args of initialize: args["model_repository"] is '
        "the model's folder in the server's repository, and args[\"model_version\"] is the name of "
        "the version's folder in it."
    )
