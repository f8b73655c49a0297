"""Requests that failed, and look-ups for their messages. failed_requests.toml has the messages."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path
from typing import Any, Protocol

from ...common.errors import WorkbookError
from .evidence import Evidence
from .python_models import missing_file, missing_module, missing_name, not_written, raised
from .repositories import how_to_add
from .rules import Advice, Catalogue, Parts, listed, near, near_or_only
from .unbuilt_models import unbuilt

_NUMPY = {
    "FP32": "np.float32",
    "FP64": "np.float64",
    "FP16": "np.float16",
    "BOOL": "np.bool_",
    "BYTES": "np.object_",
    **{f"{sign}INT{bits}": f"np.{sign.lower()}int{bits}" for sign in ("", "U") for bits in
       (8, 16, 32, 64)},
}  # fmt: skip


_FAILED = re.compile(
    r"Failed to process the request\(s\) for model (?:instance )?'([^']+)', message: "
)
_CALLED = re.compile(r"Model (\S+) - Error when running inference: ")
#: What an ensemble puts before the error of a step.
_OF_STEP = re.compile(r"in ensemble '[^']+', $")


class ServerView(Protocol):
    """The part of `Server` that an explanation needs, to look up names and states.

    The server is the one that refused the request.
    """

    url: str
    grpc_url: str
    repository: Path

    def config(self, model: str) -> dict[str, Any]:
        """A loaded model's configuration."""

    def index(self) -> list[dict[str, Any]]:
        """The repository index."""

    def metadata(self) -> dict[str, Any]:
        """The server's name, version and extensions."""

    def log_text(self) -> str:
        """The server's log; empty if it cannot be read."""


@dataclasses.dataclass(frozen=True)
class Question:
    """A request that failed.

    Attributes:
        message: the message of the server or of the client library.
        model: the name of the model that the request was for; "" where it is not known.
        server: the server that the request was sent to, to look up names; None where it is not
            known.
        caller: the Python model that sent the request, by BLS; "" where a client did.
    """

    message: str
    model: str = ""
    server: ServerView | None = None
    caller: str = ""

    @classmethod
    def innermost(cls, message: str, model: str, server: ServerView | None) -> Question:
        """The question about the request that failed first.

        A Python model that calls another model passes the other model's error on. So the message
        for the client's request contains the message for another request, and perhaps a third one:

            Failed to process the request(s) for model 'chat_0', message: TritonModelException:
            Model step - Error when running inference: unexpected inference input 'X' for …
        """
        failed = list(_FAILED.finditer(message))
        names = [_model_of(match[1], server, message) for match in failed]
        if names and _OF_STEP.search(message[: failed[0].start()]):
            model = names[0]  # the request was for an ensemble, and this step failed
        if model and names:
            names[0] = model  # the name in the request
        called = list(_CALLED.finditer(message))
        if called and (not failed or called[-1].start() > failed[-1].start()):
            caller = names[-1] if names else model
            return cls(message, called[-1][1], server, caller)
        if len(failed) > 1:
            return cls(message[failed[-1].start() :], names[-1], server, names[-2])
        return cls(message, model or (names[0] if names else ""), server)

    def place(self, client: str) -> str:
        """Where the request is made: in the calling model's code, or as a client writes it."""
        if not self.caller:
            return client
        place = f'model.py of {self.caller}, InferenceRequest(model_name="{self.model}")'
        if self.server is None:
            return place
        evidence = Evidence(self.caller, self.server.repository / self.caller, self.message)
        calls = _calls(evidence)
        lines = [line for line, name in calls if name == self.model]
        lines = lines or [line for line, name in calls if not name]
        if len(lines) != 1:
            return place
        file = f"{self.caller}/{evidence.python_file}"
        return f"{file}, line {lines[0]}: {evidence.code(evidence.python_file, lines[0])}"

    @property
    def subject(self) -> str:
        """The model's name, as the subject of a sentence; "the model" where it is not known."""
        return self.model or "the model"

    @property
    def address(self) -> str:
        """The server's addresses; "" where they are not known."""
        return f"{self.server.url}, gRPC {self.server.grpc_url}" if self.server else ""

    def config(self) -> dict[str, Any]:
        """The model's configuration; empty if the server does not give it."""
        if self.server is None or not self.model:
            return {}
        try:
            return self.server.config(self.model)
        except WorkbookError:
            return {}

    def names(self, kind: str) -> list[str]:
        """The names of the model's inputs or outputs."""
        return [entry["name"] for entry in self.config().get(kind, [])]

    def index(self) -> list[dict[str, Any]]:
        """The server's repository index; empty if the server does not give it."""
        if self.server is None:
            return []
        try:
            return self.server.index()
        except WorkbookError:
            return []

    def reason(self) -> str:
        """Why a model of the index is not available; "" where the server does not say."""
        for entry in self.index():
            if entry["name"] == self.model and entry.get("reason"):
                return str(entry["reason"])
        return ""

    def how_to_add(self) -> str:
        """The advice for a model that the server's repository does not have."""
        if self.server is None:
            return "Put its folder into the server's model repository, and load it first."
        return how_to_add(self.server.repository)

    def unbuilt(self, model: str) -> Advice | None:
        """The advice for a model of the course without its weights; None for any other model."""
        return unbuilt(self.server.repository / model) if self.server else None

    def evidence(self) -> Evidence | None:
        """The `Evidence` of the model's folder; None if the server or the model is not known."""
        if self.server is None or not self.model:
            return None
        return Evidence(self.model, self.server.repository / self.model, self.message)


def _model_of(instance: str, server: ServerView | None, message: str = "") -> str:
    """The model of an instance: `chat` for chat_0; also for chat_0_1, one of several instances.

    Without a server, the folder in the message's traceback decides between the two.
    """
    one = re.sub(r"_\d+$", "", instance)
    several = re.sub(r"_\d+$", "", one)
    if server is None:
        return one if f"/{one}/" in message else several
    if (server.repository / several).is_dir() > (server.repository / one).is_dir():
        return several
    return one


def _calls(evidence: Evidence) -> list[tuple[int, str]]:
    """The lines of model.py that make requests for other models.

    Each has the other model's name; "" if the code does not show it.
    """
    try:
        tree = ast.parse((evidence.folder / evidence.python_file).read_text("utf-8"))
    except (OSError, ValueError, SyntaxError):
        return []
    constants = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
        if called == "InferenceRequest":
            named = next((k.value for k in node.keywords if k.arg == "model_name"), None)
            name = constants.get(named.id, "") if isinstance(named, ast.Name) else named
            name = name.value if isinstance(name, ast.Constant) else name
            found.append((node.lineno, name if isinstance(name, str) else ""))
    return found


REQUESTS: Catalogue[Question] = Catalogue(
    "failed_requests",
    # where the request is made: in the calling model's code, or as a client writes it
    {"call": lambda question, parts, *words: question.place(" ".join(words))},
)


@REQUESTS.look_up
def unchecked_response(question: Question, parts: Parts) -> Parts:
    """What the error inside the response means."""
    words = parts["words"]
    inner = REQUESTS.explain(dataclasses.replace(question, message=words), words)
    if inner is None:
        return {"what": ""}
    cause = inner[1]
    todo = f"{cause.todo} {parts['todo']}"
    return {"what": cause.what, "where": cause.where, "todo": todo}


@REQUESTS.look_up
def unknown_tensor(question: Question, parts: Parts) -> Parts:
    """The model's own names."""
    kind = "output" if "inference output" in question.message else "input"
    names = question.names(kind)
    meant = near_or_only(parts["name"], names)
    return {"names": listed(names) if names else "", "meant": meant}


@REQUESTS.look_up
def missing_input(question: Question, parts: Parts) -> Parts:
    """The inputs that are missing, and those that the model does not have."""
    names = question.names("input")
    got = re.findall(r"'([^']*)'", parts.get("got", ""))
    others = [name for name in got if names and name not in names]
    found = {"names": listed(names) if names else ""}
    if int(parts["m"]) > int(parts["n"]):
        takes = f"{parts['n']} input{'' if parts['n'] == '1' else 's'}"
        extra = listed(others) if others else ""
        return {**found, "many": "yes", "takes": takes, "extra": extra, "wrong": ""}
    lacks = re.findall(r"'([^']*)'", parts.get("missing", ""))
    lacks = lacks or [name for name in names if name not in got]
    wrong = others[0] if others and lacks else ""
    meant = near_or_only(wrong, lacks) if wrong else ""
    left = [name for name in lacks if name != meant]
    return {
        **found,
        "wrong": wrong,
        "meant": meant,
        "others": listed(left) if meant and left else "",
        "lacks": listed(lacks),
        "several": "yes" if len(lacks) > 1 else "",
        "first": lacks[0] if lacks else "",
    }


@REQUESTS.look_up
def input_shape(question: Question, parts: Parts) -> Parts:
    """Whether the batch is missing or too many, else the dimension that differs."""
    wanted = [d.strip() for d in parts["wanted"].split(",")]
    given = [d.strip() for d in parts["given"].split(",")] if parts["given"] else []
    limit = question.config().get("max_batch_size", 1 if wanted[0] == "-1" else 0)
    batches, sent = int(limit) > 0, ", ".join(given)
    if batches and _fits(given, wanted[1:]):
        varies = "yes" if "-1" in wanted[1:] else ""
        return {"row": ", ".join(wanted[1:]), "sent": sent, "varies": varies}
    if not batches and len(given) == len(wanted) + 1 and _fits(given[1:], wanted):
        return {"many": "yes", "rest": ", ".join(given[1:]), "sent": sent}
    found = {"shape": ", ".join(wanted), "sent": sent, "batches": "yes" if batches else ""}
    if len(given) != len(wanted):
        return {**found, "count": str(len(wanted)), "number": str(len(given))}
    wrong = [i for i, (a, b) in enumerate(zip(given, wanted, strict=True)) if b not in ("-1", a)]
    if not wrong:
        return found
    i = wrong[0]
    return {**found, "index": str(i), "is": given[i], "size": wanted[i]}


def _fits(given: list[str], wanted: list[str]) -> bool:
    same = len(given) == len(wanted)
    return same and all(b in ("-1", a) for a, b in zip(given, wanted, strict=True))


@REQUESTS.look_up
def numpy_type(question: Question, parts: Parts) -> Parts:
    """The type of numpy for the type that is wanted."""
    wanted = parts["wanted"].rstrip(".")
    return {
        "wanted": wanted,
        "numpy": _NUMPY.get(wanted, "np.float32"),
        "text": "yes" if wanted == "BYTES" else "",
        "bf16": "yes" if wanted == "BF16" else "",
        "unknown": "yes" if parts["given"] in ("None", "<invalid>") and wanted != "BF16" else "",
    }


@REQUESTS.look_up
def input_size(question: Question, parts: Parts) -> Parts:
    """Whether the input is empty."""
    return {"empty": "yes" if parts["given"] == "0" else ""}


@REQUESTS.look_up
def one_row(question: Question, parts: Parts) -> Parts:
    """An input whose rows may be the bytes of a file."""
    inputs = question.config().get("input", [])
    long = [each["name"] for each in inputs if [str(d) for d in each["dims"]] == ["-1"]]
    return {"long": long[0] if long else ""}


@REQUESTS.look_up
def unknown_model(question: Question, parts: Parts) -> Parts | Advice:
    """The models that the server has, and the one that is meant."""
    name = parts["model"]
    if (advice := question.unbuilt(name)) is not None:
        return advice
    entries = question.index()
    ready = sorted({e["name"] for e in entries if e.get("state") == "READY"})
    here = {e["name"] for e in entries}
    return {
        "here": "yes" if name in here else "",
        "meant": near(name, ready) or near(name, here),
        "ready": (listed(ready) if ready else "no model") if entries else "",
        "how_to_add": question.how_to_add(),
    }


@REQUESTS.look_up
def unknown_version(question: Question, parts: Parts) -> Parts:
    """The versions that are served."""
    ready = [e for e in question.index() if e.get("state") == "READY"]
    served = [str(e["version"]) for e in ready if e["name"] == parts["model"]]
    are = "is" if len(served) == 1 else "are"
    return {"served": f"{listed(served)} {are}" if served else ""}


@REQUESTS.look_up
def not_ready(question: Question, parts: Parts) -> Parts | Advice:
    """Why the model did not load."""
    why = " ".join(question.reason().partition("\n\nAt:")[0].split())
    return question.unbuilt(parts["model"]) or {"why": why}


@REQUESTS.look_up
def file_of_path(question: Question, parts: Parts) -> Parts:
    """The name of the file."""
    return {"file": parts["path"].rpartition("/")[2]}


@REQUESTS.look_up
def tensor_is_none(question: Question, parts: Parts) -> Parts:
    """The call that gave None, and what there is."""
    evidence = question.evidence()
    kind, name = _asked_for(evidence) if evidence is not None else ("", "")
    names = question.names("input")
    return {
        "name": name,
        "output": "yes" if kind == "output" else "",
        "input": "yes" if kind == "input" else "",
        "look": _LOOK,
        "names": listed(names) if names else "",
        "place": evidence.at_frame() if evidence is not None else "model.py, execute",
    }


_LOOK = (
    "write `if response.has_error(): raise pb_utils.TritonModelException("
    "response.error().message())` before it, and ask again."
)


def _asked_for(evidence: Evidence) -> tuple[str, str]:
    """The tensor that the traceback's line uses: `input` or `output`, and its name.

    Each is "" if the code does not show it.
    """
    frame = evidence.frame()
    if frame is None:
        return "", ""
    file, number, _ = frame
    code = evidence.code(file, number)
    asks = r"get_(input|output)_tensor_by_name\(\s*[\w.]+\s*,\s*(?:[\"']([^\"']*)[\"'])?"
    if found := re.search(asks, code):
        return found[1], found[2] or ""
    for variable in re.findall(r"(\w+)\.as_numpy\(", code):
        for line in range(number - 1, 0, -1):
            if found := re.search(rf"\b{variable}\s*=.*?{asks}", evidence.code(file, line)):
                return found[1], found[2] or ""
    return "", ""


@REQUESTS.look_up
def member_not_ready(question: Question, parts: Parts) -> Parts | Advice:
    """Whether the model that is called is there and loaded, and which one is meant."""
    member, words = parts["member"], parts["words"]
    if (advice := question.unbuilt(member)) is not None:
        return advice
    found = {"by": question.caller or question.subject}
    if "is not ready" not in words:
        return {**found, "answer": words}
    entries = question.index()
    ready = {e["name"] for e in entries if e.get("state") == "READY"}
    here = {e["name"] for e in entries}
    if member in ready:
        served = listed(str(e.get("version", "")) for e in entries if e["name"] == member)
        return {**found, "served": served}
    if not entries or member in here:
        return found
    meant = near(member, ready, cutoff=0.75) or near(member, here, cutoff=0.75)
    return {**found, "meant": meant, "here": listed(sorted(here))}


@REQUESTS.look_up
def model_exception(question: Question, parts: Parts) -> Advice:
    """The line of the model's own code, and what its exception usually means."""
    model = question.model or _model_of(parts["instance"], question.server)
    callee = dataclasses.replace(question, model=model)
    error, words, evidence = parts["error"], parts["words"], callee.evidence()
    frames = re.findall(rf"/{re.escape(model)}/(\d+/.+\.py)\((\d+)\): (\S+)", question.message)
    if evidence is not None and evidence.frame() is not None:
        where, code = evidence.at_frame(), evidence.code(*evidence.frame()[:2])  # type: ignore[index]
    else:
        code = ""
        where = "{}, line {}, in {}".format(*frames[0]) if frames else "model.py, execute"
    if question.caller:
        where = f"{model}/{where}"
    who = f"{model}, which {question.caller} calls," if question.caller else model
    if evidence is not None and (advice := _missing_name(error, words, who, evidence)) is not None:
        return dataclasses.replace(advice, where=where)
    if error == "TritonModelException" and (refused := _FRAMEWORK.match(words)):
        return _framework_error(callee, evidence, refused[0], where)
    if error == "TypeError" and words.startswith("__init__(): incompatible constructor arguments"):
        taken = _TAKES.search(question.message)
        if taken:
            return Advice(
                f"{who} gives pb_utils.{taken[1]} something that it does not take.",
                where,
                _CONSTRUCTORS.get(taken[1], "Give it what the message names."),
            )
    if words.startswith("NumPy dtype is not supported"):
        made = re.search(r"""Tensor\(\s*["'](\w+)["']""", code)
        return Advice(
            f"{who} gives {f'the tensor {made[1]}' if made else 'a tensor'} an array whose dtype "
            "Triton does not have.",
            where,
            "An array of str has such a dtype. A tensor of texts takes an object array: "
            "np.array([text.encode() for text in texts], object).",
        )
    todo = next((todo for form, todo in _BLS if re.search(form, f"{error}: {words}")), "")
    if error == "IndexError" and "output_tensors()" in code:
        todo = "A response with an error has no output_tensors(): " + _LOOK
    if not todo:
        todo = f"Correct it there and load {model} again."
        if error not in _NEVER:
            todo += (
                " To refuse one request and answer the others, return "
                "InferenceResponse(error=pb_utils.TritonError(…)) for it."
            )
    return Advice(f"{who} {raised(error, words)}", where, todo)


#: Exceptions that always mean a mistake in the code, for every request.
_NEVER = ("NameError", "UnboundLocalError", "AttributeError", "ImportError", "NotImplementedError")
#: The messages of frameworks about an input that they cannot compute: the entry framework-refused.
_FRAMEWORK = re.compile(
    r"(?:onnx runtime error|PyTorch execute failure|openvino error in|Runtime error)\b.*"
)
_TAKES = re.compile(r"1\. c_python_backend_utils\.(\w+)\(")
_CONSTRUCTORS = {
    "Tensor": "Write pb_utils.Tensor(name, array): a text and a numpy array, in this order. "
    "np.array(…, dtype=…) makes an array of a list or a number.",
    "InferenceResponse": "Write pb_utils.InferenceResponse([pb_utils.Tensor(name, array)]): a list "
    "of tensors, not of arrays.",
    "InferenceRequest": 'Write InferenceRequest(model_name="…", requested_output_names=["…"], '
    "inputs=[pb_utils.Tensor(name, array)]): a list of names and a list of tensors.",
    "TritonError": "Write pb_utils.TritonError(message): a text. Of an exception, give str(error).",
}
#: Python's message if code uses a coroutine or a future as if it were the result.
NOT_AWAITED = (
    r"(?:'_asyncio\.Future'|'coroutine'|non-iterable (?:_asyncio\.Future|coroutine)) object"
)
#: Python's message for a wrong call of another model → what to do.
_BLS = (
    (
        NOT_AWAITED,
        "async_exec() and coroutines give their result to await alone: write `await` before it, "
        "e.g. response = await request.async_exec().",
    ),
    (
        "no running event loop",
        "async_exec() works in a coroutine alone. Write `async def execute` and response = await "
        "request.async_exec(); or call request.exec(), without await.",
    ),
    (
        r"InferenceResponse can't be used in 'await' expression",
        "exec() waits by itself. Write await request.async_exec(), or take await out.",
    ),
    (
        r"ResponseIterator' object (?:has no attribute|is not subscriptable)",
        "With decoupled=True there may be several responses: write for response in "
        "request.exec(decoupled=True): … For a model that is not decoupled, take decoupled=True "
        "out.",
    ),
    (
        r"c_python_backend_utils\.InferenceResponse' object has no attribute 'as_numpy'",
        "A response holds several tensors: write pb_utils.get_output_tensor_by_name(response, "
        "NAME).as_numpy().",
    ),
    (
        r"c_python_backend_utils\.InferenceRequest' object has no attribute",
        "A request for another model is sent by exec(): write response = request.exec(), and use "
        "the response.",
    ),
)


def _missing_name(error: str, words: str, who: str, evidence: Evidence) -> Advice | None:
    """The advice if a module, a name or a part of the code is missing; None for other errors."""
    missing = re.match(r"No module named '([^']+)'", words)
    if missing:
        return missing_file(missing[1], evidence) or Advice(
            f"{who} {raised(error, words)}", "", missing_module(missing[1], evidence)
        )
    missing = re.match(r"cannot import name '([^']+)' from '([^']+)'", words)
    if missing:
        return missing_name(missing[1], missing[2], evidence)
    return not_written(evidence.model, error, words, evidence)


def _framework_error(
    question: Question, evidence: Evidence | None, words: str, where: str
) -> Advice:
    """The advice for the error of a framework that a Python model has passed on."""
    called = {name for _, name in _calls(evidence)} if evidence is not None else set()
    member = called.pop() if len(called) == 1 else ""
    callee = dataclasses.replace(question, model=member, caller=question.subject)
    return Advice(
        f"{member}, which {question.subject} calls, could not compute its input: {words}"
        if member
        else f"A model that {question.subject} calls could not compute its input: {words}",
        callee.place(where) if member else where,
        "Look at the arrays that model.py sends to it. Usual reasons: a size that the model does "
        "not take, an index out of range.",
    )


@REQUESTS.look_up
def calls_itself(question: Question, parts: Parts) -> Parts:
    """The line where a model calls itself."""
    evidence = question.evidence()
    lines = [line for line, name in _calls(evidence) if name == question.model] if evidence else []
    if evidence is None or not lines:
        return {"line": ""}
    file = evidence.python_file
    return {"line": f"{file}, line {lines[0]}: {evidence.code(file, lines[0])}"}


#: The type of JSON value that the server expects → what to write.
_JSON = {
    "double": "Write numbers, without quotes; there is no null.",
    "string": 'Write text, in quotes: "…".',
    "boolean": "Write true or false.",
    "unsigned-integer": "Write whole numbers from 0 up, without quotes.",
    "array": "Write a list in square brackets.",
}


@REQUESTS.look_up
def bad_json(question: Question, parts: Parts) -> Parts:
    """Which part of the request cannot be read, and what belongs there."""
    words, field = parts["words"], parts.get("field", "")
    lacks = re.findall(r"'([^']*)'", words) if "non-existing object member" in words else []
    found = {"field": field, "place": field, "lacks": listed(lacks) if lacks else ""}
    found["size"] = "yes" if "does not match true shape" in words else ""
    if wrong := re.search(r"attempt to access JSON non-([\w-]+) as", words):
        found["wrong"] = _JSON.get(wrong[1].replace("number", "double"), f"Write {wrong[1]} there.")
        found["place"] = field or "data"
        found["shape"] = "yes" if field == "shape" else ""
    return found


@REQUESTS.look_up
def generate_parameter(question: Question, parts: Parts) -> Parts:
    """The input that is meant."""
    names = question.names("input")
    return {"meant": near(parts["name"], names), "names": listed(names) if names else ""}


#: The usual sampling parameters, to find the one that a misspelt name means.
_SAMPLING = (
    "max_tokens", "min_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "stop",
    "stop_token_ids", "ignore_eos", "n", "logprobs", "presence_penalty", "frequency_penalty",
    "repetition_penalty", "skip_special_tokens", "structured_outputs",
)  # fmt: skip


@REQUESTS.look_up
def sampling_parameter(question: Question, parts: Parts) -> Parts:
    """The sampling parameter that is meant."""
    return {"meant": near(parts["name"], _SAMPLING)}
