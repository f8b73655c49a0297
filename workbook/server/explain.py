"""Turn the server's words into something to act on: what is wrong, where, what to write instead.

- `load_error`: a model that did not load;
- `explain`: a request that failed, for notebooks;
- `start_error`: a server that did not start, from its log;
- `hazard`: a model folder that would hang or kill the server, before it is asked to load it;
- `table`: the whole catalogue as a Markdown table, for the documentation.

The explanations themselves are in `catalogue/`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.errors import LoadError, RequestError, ServerError, WorkbookError
from .catalogue import LOADS, REQUESTS, STARTS, Evidence, Question
from .catalogue.evidence import CONFIG
from .diagnose import diagnose

if TYPE_CHECKING:
    from .connection import Server

_POLL_FAILED = "failed to poll from model repository"
#: A traceback's places in the stand-ins' own code, and the line `At:` where no others follow.
_STAND_IN = re.compile(
    r"^ +\S.*/(?:workbook/backends/.+|\.workbook/server/\w+/\w+/model)\.py\(\d+\): .*\n?",
    re.MULTILINE,
)
_NO_PLACES = re.compile(r"\s*^At:\s*(?=;|\Z)", re.MULTILINE)
_PARSER = re.compile(
    r"^\[libprotobuf ERROR [^\]]*\] (Error parsing text-format inference\.ModelConfig: .*)$"
)


def load_error(model: str, message: str, folder: Path, log: str = "") -> LoadError:
    """Explain why a model did not load.

    Args:
        model: its name.
        message: the server's answer.
        folder: the model's folder on this machine, to point into; it need not exist.
        log: what the server has logged since it was asked. A config that is refused leaves its
            reason there only; without a log the reason is looked for in the folder.
    """
    message = message.strip()
    reason = _reason(model, log)
    if reason and reason not in message:
        message = f"{message}\n{reason}"
    evidence = Evidence(model, folder, message)
    shown = _readable(message)
    words = message
    if not reason and (_POLL_FAILED in message or "failed to read text proto" in message):
        words = f"{message}\n{diagnose(evidence)}"
        evidence = Evidence(model, folder, words)
    for catalogue in LOADS:
        found = catalogue.explain(evidence, words)
        if found is not None:
            rule, advice = found
            return LoadError(
                f"{model} did not load. {advice.what}",
                model=model,
                message=shown,
                rule=rule,
                where=advice.where,
                todo=advice.todo,
            )
    return LoadError(
        f"{model} did not load.",
        model=model,
        message=shown,
        where=str(folder),
        todo="The server's own words below say why.",
    )


def explain(
    error: BaseException | str, server: Server | None = None, model: str | None = None
) -> WorkbookError:
    """Explain why a request failed.

        try:
            client.infer("square", inputs)
        except InferenceServerException as error:
            raise explain(error, server, "square") from None

    Args:
        error: what the client raised or a stream delivered, or the server's words.
        server: the server asked; with it, names are looked up and corrected.
        model: the model asked, where the words may not name it.

    Returns:
        The error to raise or print. A WorkbookError comes back as it is.
    """
    if isinstance(error, WorkbookError):
        return error
    message = _words(error)
    named = re.search(r"(?:model|for unknown model:|must be <= \d+ for) '([^']+)'", message)
    question = Question(message, model or (named[1] if named else ""), server)
    found = REQUESTS.explain(question, message)
    if found is None:
        return RequestError(
            "The request failed.", model=question.model, message=message, todo="See below."
        )
    rule, advice = found
    return RequestError(
        advice.what,
        model=question.model,
        message=message,
        rule=rule,
        where=advice.where,
        todo=advice.todo,
    )


def start_error(log: str) -> ServerError | None:
    """Explain why a server did not start, from its log; None where the log does not say."""
    found = STARTS.explain(log, f"\n{log}")
    if found is None:
        return None
    _, advice = found
    return ServerError(advice.what, where=advice.where, todo=advice.todo)


def hazard(model: str, folder: Path) -> LoadError | None:
    """What would hang or kill the server, seen before it is asked to load the model.

    Three mistakes are not refused by Triton 24.10 but end it or leave the load hanging for ever,
    and with it every later load of that model: a Python model without its file (issue 8766 of
    triton-inference-server/server, open in 2026), a folder in the place of config.pbtxt (the
    server aborts), and a warm-up with more rows than max_batch_size (it crashes two times out of
    three).

    Returns:
        The error to raise, or None where nothing of the kind is in sight.
    """
    evidence = Evidence(model, folder, "")
    if (folder / CONFIG).is_dir():
        return LoadError(
            f"{model} was not loaded: it would end the server. {CONFIG} is a folder.",
            model=model,
            message="(not asked)",
            rule="config-is-a-folder",
            where=CONFIG,
            todo=f"Put a file {CONFIG} in its place.",
        )
    return _no_python_file(evidence) or _warmup_over_max(evidence)


def table() -> str:
    """The catalogue as a Markdown table: each entry's name, the server's words, what to do."""
    lines = ["| entry | the server says | what to do |", "|---|---|---|"]
    catalogues: tuple[Any, ...] = (*LOADS, REQUESTS, STARTS)
    for catalogue in catalogues:
        for rule in catalogue:
            words = " ".join(re.sub(r"\{\w+(:\w+)?\}", "…", rule.words[0]).split())
            words = words.replace("`", "'").replace("|", "/")
            lines.append(f"| {rule.id} | `{words}` | {rule.summary} |")
    return "\n".join(lines) + "\n"


def _reason(model: str, log: str) -> str:
    """The reason that the log gives for the last refusal of a model's config, with its position.

    The log is shared by all models: the parser's lines that belong to this model stand directly
    before its own line.
    """
    failed = f"Poll failed for model directory '{model}': "
    lines = log.splitlines()
    last = max((i for i, line in enumerate(lines) if failed in line), default=-1)
    if last < 0:
        return ""
    reason = lines[last].partition(failed)[2].removesuffix('"')
    said = [reason.replace('\\"', '"').replace("\\n", "\n")]
    for line in reversed(lines[:last]):
        parsed = _PARSER.match(line)
        if parsed is None:
            break
        said.insert(0, parsed[1])
    return "\n".join(said)


def _readable(message: str) -> str:
    """A refusal without the places in the stand-ins' code, which no reader can mend."""
    return _NO_PLACES.sub("", _STAND_IN.sub("", message)).rstrip("; \n")


def _words(error: BaseException | str) -> str:
    """What an error says, without the client's `[400]` in front."""
    message = getattr(error, "message", None)
    text = message() if callable(message) else str(error)
    return str(text or type(error).__name__).strip()


def _no_python_file(evidence: Evidence) -> LoadError | None:
    if evidence.value("backend") != "python" or evidence.value("runtime"):
        return None
    name = evidence.value("default_model_filename", "model.py")
    for version in evidence.versions():
        path = evidence.folder / str(version) / name
        if not path.exists():
            words = f"Python model file not found in '{path}'"
            error = load_error(evidence.model, f"version {version} is at UNAVAILABLE: {words}",
                               evidence.folder)  # fmt: skip
            error.message = f"(not asked: Triton would wait for ever) {words}"
            return error
    return None


def _warmup_over_max(evidence: Evidence) -> LoadError | None:
    limit = evidence.value("max_batch_size", "0") or "0"
    for _, section in evidence.sections("model_warmup"):
        size = section.text("batch_size", "0")
        if size.isdigit() and limit.isdigit() and int(size) > max(1, int(limit)):
            words = (
                f"failed to run warmup sample '{section.text('name')}': batch size {size} for "
                f"'{evidence.model}', max allowed is {limit}"
            )
            error = load_error(evidence.model, words, evidence.folder)
            error.message = f"(not asked: Triton may crash) {words}"
            return error
    return None
