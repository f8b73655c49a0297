"""What an assignment's notebook calls: `check(...)` and `hint(...)`.

    from grader.vocabulary.notebook import check, deploy, hint

    forest = deploy("models/forest").name
    check("a2.forest", model=forest)
    hint("a2.forest")

`check` runs the public function of a check at once, shows the result, and stores the values that
were passed to it. It gives no marks. The marks come from the judge, which runs the check again
outside of the notebook.
"""

from __future__ import annotations

import contextlib
import filecmp
import io
import warnings
from pathlib import Path
from typing import Any

from workbook.common.errors import WorkbookError
from workbook.server import Server, connect

from . import reported, shown_errors
from .define import Check, backends, evaluate, load, without_hints
from .deploying import deploy
from .panel import Hint, Panel
from .probe import Probe
from .results import CheckResult, Status

__all__ = ["check", "deploy", "hint"]

shown_errors.explain()

#: The results of the checks that ran in this kernel, by id: other checks may need them.
_earned: dict[str, CheckResult] = {}
#: How many hints of each check were shown in this kernel.
_shown: dict[str, int] = {}
#: What to do where a value is missing, and the cell that ran before the check has failed.
_STOPPED = "The cell that ran before this one ended with an error: see above. Correct that first."


def check(id: str, /, **values: Any) -> Panel:
    """Run a check on your models and values, and show the result.

    Example::

        check("a2.probabilities", model=forest, library=library, served=served)

    Args:
        id: the check's name, such as `a2.probabilities`.
        values: the values that the task names: names of models, arrays, numbers, texts. If one is
            still `...` or None, the check counts as not attempted.

    Returns:
        The result as a panel. Jupyter shows it where the call is the last line of a cell.

    Raises:
        WorkbookError: there is no such check, or a value is of a type that no check takes.
    """
    found = _find(id)
    values = {n: None if value is ... else value for n, value in values.items()}
    with contextlib.suppress(RecursionError):  # a list that holds itself: `reported` refuses it
        values = {n: _detach(n, value) for n, value in values.items()}
    # nbgrader gives a cell that writes to stderr no points. A framework's warning must not do that.
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        result, note = _run(found, values)
    is_missing = any(value is None for value in values.values())
    if is_missing and result.status == "not attempted" and shown_errors.cell_before_failed():
        result = result.model_copy(update={"help": _STOPPED})
    _earned[id] = result
    reported.write(id, values, result, reported.folder(id.split(".", maxsplit=1)[0]))
    return Panel(result, hints=len(found.hints) - _shown.get(id, 0), note=note)


def hint(id: str, /) -> Hint:
    """Show the hints of a check: each call shows one more. The last is nearly the answer.

    After the last one it says where to read on. Tasks without a check have no hints: for them it
    says what to read.

    Example::

        hint("a2.probabilities")

    Raises:
        WorkbookError: there is no such check, and no such task.
    """
    if isinstance(id, str) and (read := without_hints(id.partition(".")[0]).get(id)):
        none = "Only tasks with a check have some. Read the task's text above the cell again."
        return Hint(id, (), 0, f"{none} {read}")
    found = _find(id)
    step = min(_shown.get(id, 0) + 1, len(found.hints))
    _shown[id] = step
    return Hint(id, found.hints[:step], len(found.hints), found.read)


def _detach(name: str, value: Any) -> Any:
    """A value with torch tensors as arrays, as the judge gets them: also those with a gradient.

    They may stand in lists, tuples and dicts, and in lists of these. What holds no tensor stays as
    it is.

    Args:
        name: the parameter's name, for the message.
        value: what the notebook hands over.

    Raises:
        WorkbookError: a tensor cannot become an array.
    """
    if reported.is_tensor(value):
        return reported.array_of(name, value)
    if isinstance(value, dict):
        table = {key: _detach(name, item) for key, item in value.items()}
        return table if any(table[key] is not value[key] for key in value) else value
    if isinstance(value, list | tuple):
        items = [_detach(name, item) for item in value]
        is_same = all(item is was for item, was in zip(items, value, strict=True))
        return value if is_same else items
    return value


def _find(id: str) -> Check:
    if not isinstance(id, str):
        raise WorkbookError(
            f"{id!r} is not the name of a check.", todo='Write one in quotes, such as "a2.forest".'
        )
    checks = load(id.split(".", maxsplit=1)[0])
    if id not in checks:
        raise WorkbookError(
            f"There is no check {id!r}.",
            todo=f"There are: {', '.join(checks)}. Written answers and bonus tasks have neither a "
            "check nor hints: read the task's text above the cell.",
        )
    return checks[id]


def _run(found: Check, values: dict[str, Any]) -> tuple[CheckResult, str]:
    """The result, and a note if the model's folder differs from the deployed copy.

    If no server answers, the result says only that: without a server, the cells above could not
    make the values. A check that does not ask the server needs none.
    """
    if not found.server:
        with Server() as nobody:
            return _evaluate(found, Probe(nobody), values), ""
    try:
        server = connect()
        server.metadata()  # the checkout's own server is found also where it does not answer
    except WorkbookError as error:
        return _no_credit(found, "no server", error.what, error.todo), ""
    if elsewhere := _not_in_models(values.get("model")):
        return _no_credit(found, "failed", *elsewhere), ""
    admitted = backends(found.id.partition(".")[0])
    with server, contextlib.closing(Probe(server, backends=admitted)) as probe:
        result = _evaluate(found, probe, values)
        notes = (_explain_edit(value, server.repository) for value in values.values())
        edited = next(filter(None, notes), "")
    if result.status == "waits" or not edited:
        return result, ""
    if result.credit == 0:
        return result, f"Note: {edited} Deploy the folder again."
    # The folder is handed in. So a deployed copy that differs from it must not look like success.
    return _no_credit(
        found,
        "failed",
        f"{edited} The copy that is deployed {'passes' if result.credit == 1 else 'earns a part'}; "
        "for the marks the folder counts.",
        "Deploy the folder again, then run this cell. A deploy that fails leaves the copy from "
        "before in its place.",
    ), ""


def _evaluate(found: Check, probe: Probe, values: dict[str, Any]) -> CheckResult:
    """The result of a check; where it waits for another one, with what to do."""
    result = evaluate(found, lambda: probe, values, _earned)
    if result.status != "waits":
        return result
    again = "Run that check's cell until it passes, then this one."
    return result.model_copy(update={"help": again})


def _no_credit(found: Check, status: Status, rationale: str, help: str) -> CheckResult:
    return CheckResult(
        id=found.id,
        sentence=found.sentence,
        status=status,
        credit=0,
        rationale=rationale,
        help=help,
    )


def _not_in_models(model: Any) -> tuple[str, str] | None:
    """What is wrong and what to do where a model is none of the folders that are handed in."""
    names = _models()
    if not isinstance(model, str) or not names or model in names:
        return None  # where it is no text, the check itself says what is wrong with it
    return (
        f"{model} is not in models/, so it would not be handed in. There are: {', '.join(names)}.",
        "Deploy a folder of models/, and hand over the name that deploy returns.",
    )


def _models() -> list[str]:
    """The names of the folders that are handed in."""
    folder = Path("models")
    return (
        sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    )


def _explain_edit(model: Any, repository: Path) -> str:
    """A sentence where a file of `models/<model>` is not what is deployed, else "".

    This happens when a file was changed or deleted after the deploy, and when the last deploy
    failed. In the second case the server still uses the copy of an earlier deploy.
    """
    if not isinstance(model, str) or model not in _models():
        return ""
    folder, deployed = Path("models", model), repository / model
    try:
        for path in _files(folder):
            copy = deployed / path.relative_to(folder)
            if copy.is_file() and not filecmp.cmp(path, copy, shallow=False):
                return f"`{path}` differs from what is deployed."
        since = deployed.stat().st_ctime
        for copy in _files(deployed):
            path = folder / copy.relative_to(deployed)
            # What the model itself has written is newer than the deploy.
            if not path.exists() and copy.stat().st_mtime <= since:
                return f"`{path}` is deployed, and is not in your folder any more."
    except (OSError, ValueError):  # it cannot be read, or the name is not that of a folder
        return ""
    return ""


def _files(folder: Path) -> list[Path]:
    """The files of a model's folder, without hidden ones and what Python compiled."""
    found = sorted(folder.rglob("[!.]*"))
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]
