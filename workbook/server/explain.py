"""Explain the server's messages: what is wrong, where, and what to do about it.

- `load_error`: a model that did not load;
- `explain`: a request that failed, for notebooks;
- `start_error`: a server that did not start, from its log;
- `dangerous_folder`: a model folder that would make the server hang or crash, before the server is
  asked to load it;
- `table`: the whole catalogue as a Markdown table, for the documentation.

The explanations themselves are in `catalogue/`; catalogue/rules.py says how to add one.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..common.errors import LoadError, RequestError, ServerError, WorkbookError
from . import model_warnings
from .catalogue import LOADS, REQUESTS, STARTS, Evidence, Question, ServerView
from .catalogue.evidence import CONFIG, show
from .catalogue.rules import Advice, listed
from .config_without_log import diagnose
from .pbtxt import Field, Scalar

_POLL_FAILED = "failed to poll from model repository"
#: The lines of a traceback that lie in the code of the stand-ins, or in the code that checks the
#: answers of Python models (backends/python/answer_checks.py).
_STAND_IN = re.compile(
    r"^ +\S.*/(?:workbook/backends/.+|\.workbook/server/[\w/]+/model|triton_workbook_checks)"
    r"\.py\(\d+\): .*\n?",
    re.MULTILINE,
)
#: Entries of the catalogue about the value that `execute` returned, each with a part of the warning
#: that the log then has. The warning names the line of the model's file.
_WITH_LINE = {
    "number-of-responses": "execute got ",
    "not-a-response": " in place of a response.",
    "not-a-list": ", not a list.",
}
#: The fields of a config that name a file → the subfolder of the model's folder with that file.
_FILES = {"label_filename": "", "data_file": "initial_state", "input_data_file": "warmup"}
_NO_PLACES = re.compile(r"\s*^At:\s*(?=;|\Z)", re.MULTILINE)
_PARSER = re.compile(
    r"^\[libprotobuf ERROR [^\]]*\] (Error parsing text-format inference\.ModelConfig: .*)$"
)


def load_error(model: str, message: str, folder: Path, log: str = "") -> LoadError:
    """Explain why a model did not load.

        error = load_error("digits", answer, Path("model_repository/digits"), log)
        print(error)  # what, where, to do, and the server's message

    Args:
        model: its name.
        message: the server's answer.
        folder: the model's folder on this machine, to point into; it need not exist.
        log: what the server has logged since the load was requested. Only the log says why a config
            is refused. Without a log, the model's folder is read (config_without_log.py).

    Returns:
        The error to raise, whether the catalogue explains the message or not.
    """
    message = message.strip()
    reason = _reason(model, log)
    if reason and reason not in message:
        message = f"{message}\n{reason}"
    shown = _readable(message)
    message, others = _first_version(message)
    evidence = Evidence(model, folder, message)
    if not reason and (_POLL_FAILED in message or "failed to read text proto" in message):
        message = f"{message}\n{diagnose(evidence)}"
        evidence = Evidence(model, folder, message)
    for catalogue in LOADS:
        found = catalogue.explain(evidence, message)
        if found is not None:
            rule, advice = found
            return LoadError(
                f"{model} did not load. {advice.what}{others}",
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
        where=evidence.at_named(message) or str(folder),
        todo="The server's own message below says why.",
    )


def explain(
    error: BaseException | str, server: ServerView | None = None, model: str | None = None
) -> WorkbookError:
    """Explain why a request failed.

        try:
            client.infer("square", inputs)
        except InferenceServerException as error:
            raise explain(error, server, "square") from None

    Args:
        error: what the client raised or a stream delivered, or the server's message as text.
        server: the server that got the request; with it, names are looked up and corrected.
        model: the model that the request was for; needed if the message may not name it.

    Returns:
        The error to raise or print. A WorkbookError comes back as it is.
    """
    if isinstance(error, WorkbookError):
        return error
    message = _text(error)
    named = re.search(r"(?:model|for unknown model:|must be <= \d+ for) '([^']+)'", message)
    failed = "Failed to process the request(s)" in message  # it names an instance
    model = model or (named[1] if named and not failed else "")
    question = Question.innermost(message, model, server)
    model = model or question.caller or question.model
    found = REQUESTS.explain(question, question.message)
    message = _readable(message)
    if found is None:
        first = message.partition("\n")[0].rstrip(". ")
        return RequestError(
            f"The request failed: {first}.",
            model=model,
            message=message,
            todo="These are the server's own words. Look for what they name in the request, then "
            "in the model's config.pbtxt.",
        )
    rule, advice = found
    if rule in _WITH_LINE:
        advice = _with_line(advice, question, _WITH_LINE[rule])
    return RequestError(
        advice.what,
        model=model,
        message=message,
        rule=rule,
        where=advice.where,
        todo=advice.todo,
    )


def _with_line(advice: Advice, question: Question, words: str) -> Advice:
    """An advice, with the place and the remedy from the warning in the log, if there is one."""
    if question.server is None:
        return advice
    for warning in model_warnings.of_log(question.server.log_text()):
        if warning.model == question.model and words in warning.what:
            return Advice(advice.what, warning.where, warning.todo)
    return advice


def start_error(log: str) -> ServerError | None:
    """Explain why a server did not start, from its log; None if the log does not say it.

    raise start_error(log) or ServerError("The server did not start.")
    """
    found = STARTS.explain(log, f"\n{log}")
    if found is None:
        return None
    _, advice = found
    return ServerError(advice.what, where=advice.where, todo=advice.todo)


def dangerous_folder(model: str, folder: Path) -> LoadError | None:
    """Find mistakes in a model's folder that would hang or end the server during the load.

    Triton 24.10 does not refuse these mistakes:

    - a Python model without its file: the load, and every later load of that model, hangs for ever
      (issue 8766 of triton-inference-server/server, open in 2026);
    - a folder in the place of config.pbtxt: the server aborts;
    - a folder that the config names as a file of labels, of a state or of a warm-up: the same;
    - a key of metric_tags that is not the name of a Prometheus label: the same;
    - a batch_output without a target_name: the server crashes;
    - a warm-up with more rows than max_batch_size: the server crashes two times out of three.

        if (danger := dangerous_folder("digits", Path("model_repository/digits"))):
            raise danger

    Returns:
        The error to raise; None if the folder has none of these mistakes.
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
    return _no_python_file(evidence) or _warmup_over_max(evidence) or _ends_the_server(evidence)


def is_metric_tag(key: str) -> bool:
    """Whether a config's metric_tags may have this key.

    Triton names the label `_` and the key. A label's name has letters, digits and `_`, and does not
    begin with `__`. Any other name raises an exception that Triton 24.10 does not catch.
    """
    return re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9_]*)?", key) is not None


def table() -> str:
    """The catalogue as a Markdown table: each entry's name, the server's message, what to do.

    Path("catalogue.md").write_text(table())
    """
    lines = ["| entry | the server says | what to do |", "|---|---|---|"]
    catalogues: tuple[Any, ...] = (*LOADS, REQUESTS, STARTS)
    seen = set()  # some entries explain a message of a load and of a request
    for catalogue in catalogues:
        for rule in catalogue:
            if rule.id in seen:
                continue
            seen.add(rule.id)
            says, todo = (
                " ".join(re.sub(r"\{\w+(:\w+)?\??\}", "…", text).replace("|", "/").split())
                for text in (rule.messages[0], rule.todo[-1])
            )
            lines.append(f"| {rule.id} | `{says.replace('`', chr(39))}` | {todo} |")
    return "\n".join(lines) + "\n"


def _reason(model: str, log: str) -> str:
    """The reason in the log why the model's config was refused last; "" if the log has none.

    All models write into one log. The parser's lines, which give line and column, stand directly
    before the line that names the model.
    """
    failed = f"Poll failed for model directory '{model}': "
    lines = log.splitlines()
    last = max((i for i, line in enumerate(lines) if failed in line), default=-1)
    if last < 0:
        return ""
    reason = lines[last].partition(failed)[2].removesuffix('"')
    parts = [reason.replace('\\"', '"').replace("\\n", "\n")]
    for line in reversed(lines[:last]):
        parsed = _PARSER.match(line)
        if parsed is None:
            break
        parts.insert(0, parsed[1])
    return "\n".join(parts)


def _first_version(message: str) -> tuple[str, str]:
    """The message with the reason of the lowest version only, and a sentence on the others.

    If several versions fail, the server gives all reasons in one message, in any order. An
    explanation must not mix them: it would name the file of one and the mistake of another.
    """
    head, *parts = re.split(r"version (\d+) is at UNAVAILABLE state: ", message)
    failed = sorted(zip(map(int, parts[::2]), (p.strip(" ;\n") for p in parts[1::2]), strict=True))
    if len(failed) < 2:
        return message, ""
    (version, why), *others = failed
    first = f"{head}version {version} is at UNAVAILABLE state: {why}"
    # A reason may name the version's own folder.
    same = why.replace(f"/{version}/", "/N/")
    different = [
        str(other) for other, reason in others if reason.replace(f"/{other}/", "/N/") != same
    ]
    if not different:
        return first, ""
    return first, (
        f" This is about version {version}; version {listed(different)} failed for another "
        "reason, see the server's message."
    )


def _readable(message: str) -> str:
    """A message without the places in the laptop server's own code, which no reader can change."""
    return _NO_PLACES.sub("", _STAND_IN.sub("", message)).rstrip("; \n")


def _text(error: BaseException | str) -> str:
    """What an error says, without the client's `[400]` in front."""
    message = getattr(error, "message", None)
    text = message() if callable(message) else str(error)
    return str(text or type(error).__name__).strip()


def _no_python_file(evidence: Evidence) -> LoadError | None:
    ensemble = evidence.value("platform") == "ensemble"  # refused before its files are looked at
    if evidence.value("backend") != "python" or evidence.value("runtime") or ensemble:
        return None
    name = evidence.value("default_model_filename", "model.py")
    for version in evidence.versions():
        path = evidence.folder / str(version) / name
        if not path.exists():
            missing = f"Python model file not found in '{path}'"
            answer = f"version {version} is at UNAVAILABLE: {missing}"
            error = load_error(evidence.model, answer, evidence.folder)
            error.message = f"(not asked: Triton would wait for ever) {missing}"
            return error
    return None


def _warmup_over_max(evidence: Evidence) -> LoadError | None:
    limit = evidence.value("max_batch_size", "0") or "0"
    for _, section in evidence.sections("model_warmup"):
        size = section.text("batch_size", "0")
        if size.isdigit() and limit.isdigit() and int(size) > max(1, int(limit)):
            answer = (
                f"failed to run warmup sample '{section.text('name')}': batch size {size} for "
                f"'{evidence.model}', max allowed is {limit}"
            )
            error = load_error(evidence.model, answer, evidence.folder)
            error.message = f"(not asked: Triton may crash) {answer}"
            return error
    return None


def _ends_the_server(evidence: Evidence) -> LoadError | None:
    def error(rule: str, field: Field, what: str, todo: str) -> LoadError:
        return LoadError(
            f"{evidence.model} was not loaded: it would end the server. {what}",
            model=evidence.model,
            message="(not asked)",
            rule=rule,
            where=show(field),
            todo=todo,
        )

    for field in evidence.config.walk():
        if field.name in _FILES and isinstance(field.value, Scalar):
            name = field.value.text
            if name and (evidence.folder / _FILES[field.name] / name).is_dir():
                what = f"{name!r} is a folder."
                return error("file-is-a-folder", field, what, "Name the file in it.")
    for field, section in evidence.sections("metric_tags"):
        if not is_metric_tag(section.text("key")):
            what = f"The key {section.text('key')!r} of metric_tags is no name of a metric's label."
            todo = "Use letters A-Z a-z, digits and '_', and do not begin with '_'."
            return error("metric-tag", field, what, todo)
    for field, section in evidence.sections("batch_output"):
        if not section.all("target_name"):
            what = "A batch_output has no target_name."
            return error("batch-output", field, what, "Write target_name: [ the output's name ].")
    return None
