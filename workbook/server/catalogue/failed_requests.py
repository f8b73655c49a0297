"""The messages of the server and of tritonclient when a request fails.

The docstring of each rule is the advice of its entry.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path
from typing import Any, Protocol

from ...common.errors import WorkbookError
from . import formats
from .evidence import Evidence
from .python_models import (
    missing_file,
    missing_module,
    missing_name,
    not_written,
    raised,
)
from .repositories import how_to_add
from .rules import Advice, Catalogue, Said, listed, near
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


class AskedServer(Protocol):
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
        """The server's log; empty where it cannot be read."""


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
    server: AskedServer | None = None
    caller: str = ""

    @classmethod
    def innermost(cls, message: str, model: str, server: AskedServer | None) -> Question:
        """The question about the request that failed first.

        A Python model that asks another model passes its error on, so that the message of the
        request that a client sent holds that of another request, and perhaps of a third one:

            Failed to process the request(s) for model 'chat_0', message: TritonModelException:
            Model step - Error when running inference: unexpected inference input 'X' for …
        """
        failed = list(_FAILED.finditer(message))
        names = [_model_of(match[1], server) for match in failed]
        if model and names:
            names[0] = model  # as the request named it
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
    def asked(self) -> str:
        """The model's name, as the subject of a sentence; "the model" where it is not known."""
        return self.model or "the model"

    @property
    def address(self) -> str:
        """The server's addresses; "" where they are not known."""
        return f"{self.server.url}, gRPC {self.server.grpc_url}" if self.server else ""

    def config(self) -> dict[str, Any]:
        """The model's configuration; empty where the server does not give it."""
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
        """The server's repository index; empty where the server does not give it."""
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
        """What to do about a model that the server's repository does not have."""
        if self.server is None:
            return "Put its folder into the server's model repository, and load it first."
        return how_to_add(self.server.repository)

    def unbuilt(self, model: str) -> Advice | None:
        """What to do if this is a model of the course whose weights are not built; else None."""
        return unbuilt(self.server.repository / model) if self.server else None

    def evidence(self) -> Evidence | None:
        """The `Evidence` of the model's folder; None where the server or the model is not known."""
        if self.server is None or not self.model:
            return None
        return Evidence(self.model, self.server.repository / self.model, self.message)


def _model_of(instance: str, server: AskedServer | None) -> str:
    """The model of an instance: `chat` for chat_0, or for chat_0_1 where it has several."""
    one = re.sub(r"_\d+$", "", instance)
    several = re.sub(r"_\d+$", "", one)
    if (
        server is None
        or (server.repository / several).is_dir() > (server.repository / one).is_dir()
    ):
        return several
    return one


def _calls(evidence: Evidence) -> list[tuple[int, str]]:
    """The lines of model.py that make requests of another model, and its name where it is there."""
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


REQUESTS: Catalogue[Question] = Catalogue()


@REQUESTS.rule(
    "unchecked-response",  # from backends/python/answer_checks.py
    "answered with an error that this code does not look at: {words:rest}\nwhere: {where:rest}\n"
    "to do: {todo:rest}",
)
def unchecked_response(question: Question, said: Said) -> Advice:
    """Look at has_error() of a response before its tensors; mend what the error says."""
    words = said["words"]
    inner = REQUESTS.explain(dataclasses.replace(question, message=words), words)
    if inner is None:
        return Advice(f"A model that this one calls failed: {words}", said["where"], said["todo"])
    cause = inner[1]
    return Advice(
        f"{cause.what} The response holds this error alone, and the code does not look at it.",
        cause.where,
        f"{cause.todo} {said['todo']}",
    )


@REQUESTS.rule("unknown-input", "unexpected inference input '{name}' for model")
def unknown_input(question: Question, said: Said) -> Advice:
    """Use the model's own input names."""
    return _unknown_tensor(
        question,
        "input",
        said["name"],
        question.place(f'InferInput("{said["name"]}", …)'),
        "server.metadata(MODEL) lists the inputs.",
    )


@REQUESTS.rule("unknown-output", "unexpected inference output '{name}' for model")
def unknown_output(question: Question, said: Said) -> Advice:
    """Use the model's own output names, or leave `outputs` out to get them all."""
    return _unknown_tensor(
        question,
        "output",
        said["name"],
        question.place(f'InferRequestedOutput("{said["name"]}")'),
        "Name outputs that it has in requested_output_names."
        if question.caller
        else "Leave outputs out to get them all.",
    )


def _unknown_tensor(question: Question, kind: str, name: str, where: str, other: str) -> Advice:
    names = question.names(kind)
    meant = near(name, names) or (names[0] if len(names) == 1 else "")
    return Advice(
        f'{question.asked} has no {kind} "{name}"'
        + (f"; it has {listed(names)}." if names else "."),
        where,
        f'Write "{meant}".' if meant else other,
    )


@REQUESTS.rule(
    "missing-input",
    "expected {n:int} inputs but got {m:int} inputs for model '{model}'. Got input(s) "
    "[{got:rest}], but missing required input(s) {missing:rest}. Please",
    "expected {n:int} inputs but got {m:int} inputs for model",
    "expected number of inputs between {least:int} and {n:int} but got {m:int} inputs for model "
    "'{model}'. Got input(s) [{got:rest}], but missing required input(s) {missing:rest}. Please",
)
def missing_input(question: Question, said: Said) -> Advice:
    """Send every input of the model, and no other."""
    names = question.names("input")
    got = re.findall(r"'([^']*)'", said.get("got", ""))
    if int(said["m"]) > int(said["n"]):
        extra = [name for name in got if names and name not in names]
        return Advice(
            f"{question.asked} has {_inputs(said['n'])}, and the request has {said['m']}"
            + (f": {listed(extra)} is none of them." if extra else "."),
            question.place("inputs"),
            f"Send {listed(names)} alone." if names else "Send the model's own inputs alone.",
        )
    missing = re.findall(r"'([^']*)'", said.get("missing", ""))
    missing = missing or [name for name in names if name not in got]
    wrong = [name for name in got if names and name not in names]
    if wrong and missing:
        meant = near(wrong[0], missing) or (missing[0] if len(missing) == 1 else "")
        others = [name for name in missing if name != meant]
        return Advice(
            f'{question.asked} has no input "{wrong[0]}"; its inputs are {listed(names)}.',
            question.place(f'InferInput("{wrong[0]}", …)'),
            f'Write "{meant}" in place of "{wrong[0]}".'
            + (f" The request lacks {listed(others)} as well." if others else "")
            if meant
            else f"Send {listed(names)}.",
        )
    several = "s" if len(missing) > 1 else ""
    return Advice(
        f"The request lacks the input{several} {listed(missing)} of {question.asked}.",
        question.place("inputs"),
        f'Add {"pb_utils.Tensor" if question.caller else "InferInput"}("{missing[0]}", …).'
        if missing
        else "Send every input of the model.",
    )


def _inputs(number: str) -> str:
    return f"{number} input{'' if number == '1' else 's'}"


@REQUESTS.rule(
    "input-shape",
    "unexpected shape for input '{input}' for model '{model}'. Expected [{wanted:dims}], got "
    "[{given:dims}]",
)
def input_shape(question: Question, said: Said) -> Advice:
    """Send the shape that the model expects; its first dimension is the batch."""
    name = said["input"]
    wanted = [d.strip() for d in said["wanted"].split(",")]
    given = [d.strip() for d in said["given"].split(",")] if said["given"] else []
    batches = int(question.config().get("max_batch_size", 1 if wanted[0] == "-1" else 0)) > 0
    where = question.place(f'InferInput("{name}", [{", ".join(given)}], …)')
    if batches and _fits(given, wanted[1:]):
        return Advice(
            f'The batch dimension of "{name}" is missing: {question.asked} takes a batch of '
            f"[{', '.join(wanted[1:])}].",
            where,
            f"Send [1, {', '.join(given)}]: array[np.newaxis] puts the batch in front."
            + (
                " If one of these sizes is the batch, take it out of dims in config.pbtxt."
                if "-1" in wanted[1:]
                else ""
            ),
        )
    if not batches and len(given) == len(wanted) + 1 and _fits(given[1:], wanted):
        return Advice(
            f'"{name}" has a batch dimension too many: {question.asked} does not batch '
            "(max_batch_size: 0).",
            where,
            f"Send [{', '.join(given[1:])}], one request for each. Or, if the model can take a "
            "batch, write a max_batch_size above 0 into config.pbtxt.",
        )
    return Advice(
        f'"{name}" of {question.asked} has shape [{", ".join(wanted)}] (-1: any size'
        f"{', the batch in front' if batches else ''}), and the request sends "
        f"[{', '.join(given)}].",
        where,
        _reshape(given, wanted),
    )


def _fits(given: list[str], wanted: list[str]) -> bool:
    return len(given) == len(wanted) and all(
        b in ("-1", a) for a, b in zip(given, wanted, strict=True)
    )


def _reshape(given: list[str], wanted: list[str]) -> str:
    if len(given) != len(wanted):
        return f"Send {len(wanted)} dimensions, not {len(given)}: array.reshape(…)."
    wrong = [i for i, (a, b) in enumerate(zip(given, wanted, strict=True)) if b not in ("-1", a)]
    if not wrong:
        return "Send the shape that the model expects."
    return f"Dimension {wrong[0]} (the first is 0) is {given[wrong[0]]}; send {wanted[wrong[0]]}."


@REQUESTS.rule(
    "input-data-type",
    "inference input '{input}' data-type is '{given}', but model '{model}' expects '{wanted}'",
)
def input_data_type(question: Question, said: Said) -> Advice:
    """Convert the array to the type that the model expects."""
    wanted, given = said["wanted"], said["given"]
    numpy = _NUMPY.get(wanted, "np.float32")
    text = " (text: np.array([b'…'], dtype=np.object_))" if wanted == "BYTES" else ""
    return Advice(
        f'"{said["input"]}" of {question.asked} is {wanted}, and the request sends '
        f"{'a type that Triton does not know' if given == '<invalid>' else given}.",
        question.place(f'InferInput("{said["input"]}", …, "{given}")'),
        f'Write pb_utils.Tensor("{said["input"]}", array.astype({numpy})){text}.'
        if question.caller
        else f'Send array.astype({numpy}) with InferInput("{said["input"]}", array.shape, '
        f'"{wanted}"){text}.',
    )


@REQUESTS.rule(
    "client-data-type",
    "got unexpected datatype {given:word} from numpy array, expected {wanted:word}",
)
def client_data_type(question: Question, said: Said) -> Advice:
    """Let the type of InferInput and of the array agree."""
    wanted = said["wanted"].rstrip(".")
    if wanted == "BF16":
        return Advice(
            f"InferInput says BF16, and the array is {said['given']}.",
            "set_data_from_numpy(…)",
            "numpy alone has no BF16: send array.astype(ml_dtypes.bfloat16) (package ml_dtypes).",
        )
    if said["given"] == "None":
        return Advice(
            f"InferInput says {wanted}, and the array has a type that Triton does not know.",
            "set_data_from_numpy(…)",
            f"Send array.astype({_NUMPY.get(wanted, 'np.float32')})"
            + (": text as an array of objects." if wanted == "BYTES" else "."),
        )
    return Advice(
        f"InferInput says {wanted}, and the array is {said['given']}.",
        "set_data_from_numpy(…)",
        f'Write "{said["given"]}" in InferInput, or send array.astype('
        f"{_NUMPY.get(wanted, 'np.float32')}). The model's type decides.",
    )


REQUESTS.row(
    "client-shape",
    "got unexpected numpy array shape [{given:dims}], expected [{wanted:dims}]",
    what="InferInput says [{wanted}], and the array has shape [{given}].",
    where="set_data_from_numpy(…)",
    todo="Write InferInput(name, array.shape, type).",
)


REQUESTS.row(
    "not-an-array",
    "input_tensor must be a numpy array",
    what="set_data_from_numpy was given something that is not a numpy array.",
    where="set_data_from_numpy(…)",
    todo="Write np.array(…, dtype=np.float32) around it, with the type of InferInput.",
)
_HEADER = (
    "tritonclient does all this. By hand, with bytes after the JSON: the header "
    "Inference-Header-Content-Length has the length of the JSON in bytes, and each input's "
    "parameters its binary_data_size. With JSON alone, leave the header out."
)
REQUESTS.row(
    "binary-request",
    "input byte size mismatch for input 'raw_input' for model '{model}'. Expected {wanted:int}, "
    "got {given:int}",
    what="The body of the request was taken for the bytes of one input, without JSON.",
    where="the request's headers",
    todo=_HEADER,
)
REQUESTS.row(
    "binary-request",
    "inference header size should be in range (0, {body:int}), got: {given:word}",
    "Unable to parse Inference-Header-Content-Length, got: {given:word}",
    what="Inference-Header-Content-Length is {given}: not the length of the JSON in this body.",
    where="header Inference-Header-Content-Length",
    todo=_HEADER,
)
REQUESTS.row(
    "binary-request",
    "unexpected additional input data for model '{model}'",
    "unexpected size for input '{input}', expecting {more:int} additional bytes for model",
    "must specify valid 'Infer-Header-Content-Length' in request header",
    what="The bytes after the JSON are not those that the inputs' binary_data_size announce.",
    where="the request's body",
    todo=_HEADER,
)
REQUESTS.row(
    "no-data",
    "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', "
    "'shared_memory_region' in 'parameters'. But {words:rest}",
    what="An input of the request needs its data from one place: {words}.",
    where="inputs",
    todo='Give each input "data": […], or call set_data_from_numpy(array) before infer(…).',
)
REQUESTS.row(
    "input-twice",
    "input '{name}' already exists in request",
    what='The request has the input "{name}" twice.',
    where=lambda question, said: question.place(f'InferInput("{said["name"]}", …)'),
    todo="Send each input once; several rows are one array with the batch in front.",
)
REQUESTS.row(
    "no-shape",
    "input '{name}' has no shape but model requires batch dimension for '{model}'",
    what='The input "{name}" is sent as a scalar, and {model} takes batches.',
    where=lambda question, said: question.place(f'InferInput("{said["name"]}", [], …)'),
    todo="Send a batch of one: array.reshape(1, …), with the dims of config.pbtxt after the batch.",
)
REQUESTS.row(
    "string-elements",
    "incomplete string length indicator for inference input '{name}'",
    "unexpected number of string elements {given:int} for inference input '{name}'",
    "expected {wanted:int} string elements for inference input '{name}'",
    what='The bytes of "{name}" are not the strings that its shape announces.',
    where=lambda question, said: question.place(f'InferInput("{said["name"]}", …)'),
    todo="Send np.array([b'…'], dtype=np.object_) with set_data_from_numpy, which writes the "
    "length of each string (4 bytes) in front; as many strings as the shape has.",
)
REQUESTS.row(
    "not-in-json",
    "receiving {type:id} data via JSON is not supported. Please use the binary data format for "
    "input {name:word}",
    what='"{name}" is {type}, and JSON cannot carry {type}.',
    where='"data"',
    todo="Send it as bytes: tritonclient does so (set_data_from_numpy, or gRPC).",
)
REQUESTS.row(
    "not-in-json",
    "sending {type:id} data via JSON is not supported. Please use the binary data format for "
    "output",
    what="{asked} answers in {type}, and JSON cannot carry {type}.",
    where='"outputs"',
    todo='Ask for bytes: tritonclient does so, or write "parameters": '
    '{"binary_data_output": true} into the request.',
)


@REQUESTS.rule(
    "input-size",
    "input byte size mismatch for input '{input}' for model '{model}'. Expected {wanted:int}, got "
    "{given:int}",
    "unexpected total byte size {given:int} for input '{input}', expecting {wanted:int}",
)
def input_size(question: Question, said: Said) -> Advice:
    """Send as many bytes as shape and type make."""
    empty = said["given"] == "0"
    return Advice(
        f'The request sends no data for "{said["input"]}".'
        if empty
        else f'"{said["input"]}" has {said["given"]} bytes; its shape and type make '
        f"{said['wanted']}.",
        question.place(f'InferInput("{said["input"]}", …)'),
        "Send at least one row."
        if empty and question.caller
        else "Send at least one row, with set_data_from_numpy(array)."
        if empty
        else "Use set_data_from_numpy(array) and the array's own shape and type.",
    )


REQUESTS.row(
    "invalid-data-type",
    "invalid datatype for input {input:word}",
    what='The data type of "{input}" is not one that a request may name.',
    where='"datatype"',
    todo="Write FP32, INT64, BYTES, …: without TYPE_, which belongs into config.pbtxt.",
)
REQUESTS.row(
    "huge-input",
    "input '{input:word}' has the shape [{given:dims}], which is larger than this machine's memory",
    what='The data of "{input}" in the shape [{given}] would not fit in the memory.',
    where='"shape"',
    todo="Send the shape that your data have.",
)
REQUESTS.row(
    "dali-string",
    "{input:word} is TYPE_STRING, of which DALI reads one byte per string only",
    what='The config declares "{input}" as TYPE_STRING, and DALI takes bytes.',
    where="config.pbtxt, input.data_type",
    todo="Write data_type: TYPE_UINT8 and dims: [ -1 ], and send np.frombuffer(file, np.uint8), "
    "with a batch dimension.",
)


@REQUESTS.rule(
    "rows-differ", "input '{input}' batch size does not match other inputs for '{model}'"
)
def rows_differ(question: Question, said: Said) -> Advice:
    """Give all inputs of a request the same number of rows."""
    return Advice(
        f"The inputs of one request of {question.asked} have different numbers of rows: "
        f'"{said["input"]}" does not fit the others.',
        question.place("inputs"),
        "The first dimension of every input is the batch. Send the same number of rows in all of "
        "them; repeat a row that is meant for all (np.repeat), and print each array's shape first.",
    )


@REQUESTS.rule(
    "batch-too-large", "inference request batch-size must be <= {limit:int} for '{model}'"
)
def batch_too_large(question: Question, said: Said) -> Advice:
    """Send fewer rows, or raise max_batch_size; one file needs a batch dimension in front."""
    limit = said["limit"]
    inputs = question.config().get("input", [])
    long = [each["name"] for each in inputs if [str(d) for d in each["dims"]] == ["-1"]]
    missing = (
        f'If "{long[0]}" is one row, e.g. the bytes of one file, its batch dimension is missing: '
        "send array[None]. If not, send "
        if long
        else "Send "
    )
    return Advice(
        f"{question.asked} takes at most {limit} rows in a request, and the first dimension of "
        "each input counts them.",
        question.place("inputs"),
        f"{missing}{limit} rows or fewer at a time, or raise max_batch_size in config.pbtxt.",
    )


@REQUESTS.rule(
    "unknown-model",
    "Request for unknown model: '{model}' is not found",
    "requested model '{model}' is not available",
)
def unknown_model(question: Question, said: Said) -> Advice:
    """Load the model, or correct its name."""
    name = said["model"]
    if (advice := question.unbuilt(name)) is not None:
        return advice
    entries = question.index()
    ready = sorted({e["name"] for e in entries if e.get("state") == "READY"})
    here = {e["name"] for e in entries}
    if name in here:
        return Advice(
            f"The model {name} is in the repository and is not loaded.",
            name,
            f'Load it: server.load("{name}"). If it was refused, that says why.',
        )
    meant = near(name, ready) or near(name, here)
    if meant:
        todo = f"Ask {meant}."
    elif entries:
        todo = f"It serves {listed(ready) if ready else 'no model'}. {question.how_to_add()}"
    else:
        todo = f"{question.how_to_add()} server.index() lists what there is."
    return Advice(f"The server has no model {name}.", name, todo)


@REQUESTS.rule(
    "unknown-version", "Request for unknown model: '{model}' version {version:int} is not found"
)
def unknown_version(question: Question, said: Said) -> Advice:
    """Leave the version out, or ask for one that is served."""
    served = [
        str(e["version"])
        for e in question.index()
        if e["name"] == said["model"] and e.get("state") == "READY"
    ]
    are = f"; {listed(served)} {'is' if len(served) == 1 else 'are'}" if served else ""
    return Advice(
        f"Version {said['version']} of {said['model']} is not served{are}.",
        f"model_version={said['version']!r}",
        "Leave model_version out for the latest; version_policy in config.pbtxt decides which "
        "versions are served.",
    )


@REQUESTS.rule("model-not-ready", "Request for unknown model: '{model}' has no available versions")
def model_not_ready(question: Question, said: Said) -> Advice:
    """Correct the model and load it again."""
    name = said["model"]
    if (advice := question.unbuilt(name)) is not None:
        return advice
    why = " ".join(question.reason().partition("\n\nAt:")[0].split())
    return Advice(
        f"The model {name} is not ready" + (f": {why}" if why else "."),
        name,
        f'Load it again to see what is wrong: server.load("{name}").',
    )


REQUESTS.row(
    "bad-version",
    "failed to get model version from specified version string '{version}'",
    "failed to get version from specified version string '{version}'",
    what='"{version}" is not a version.',
    where='model_version="{version}"',
    todo='Write a whole number in quotes, e.g. "1", or leave it out.',
)
REQUESTS.row(
    "decoupled-call",
    "The current BLS request call doesn't support models using the decoupled transaction policy",
    what="{asked} is decoupled: it may answer more than once, and this call takes one answer.",
    where=lambda question, said: question.place("exec()"),
    todo="Write exec(decoupled=True), or await async_exec(decoupled=True). Both give the responses "
    "one by one: for response in … The last one may have no tensors.",
)
REQUESTS.row(
    "decoupled-model",
    "doesn't support models with decoupled transaction policy",
    "generate expects model to produce exactly 1 response",
    what="{asked} is decoupled: it may answer more than once, and this call takes one answer.",
    where="infer(…)",
    todo="Use gRPC's start_stream(callback) and async_stream_infer(…), or POST …/generate_stream.",
)


_DECOUPLED = (
    "Write model_transaction_policy { decoupled: true } into config.pbtxt and call it by stream; "
    "else send one answer."
)
REQUESTS.row(
    "several-responses",
    "expected a single response, got {n:int}",
    what="{asked} sent {n} answers to one request.",
    where="model.py, execute",
    todo=_DECOUPLED,
)
REQUESTS.row(
    "several-responses",
    "an exception occurred in the client while decoding the response",
    what="The answer of {asked} cannot be decoded: most likely it sent several.",
    where="model.py, execute",
    todo=_DECOUPLED,
)
REQUESTS.row(
    "no-correlation-id",
    "inference request to model '{model}' must specify a non-zero or non-empty correlation ID",
    what="{model} keeps a state for each sequence, and the request names none.",
    where="infer(…)",
    todo="Write infer(…, sequence_id=1, sequence_start=True) for the first request of a sequence, "
    "sequence_end=True for its last.",
)
REQUESTS.row(
    "sequence-batch",
    "inference request to model '{model}' must specify batch-size 1 due to requirements of "
    "sequence batcher",
    what="{model} keeps a state for each sequence, and a request of a sequence has one row.",
    where="inputs",
    todo="Send one row in each request, [1, …]. Several sequences are several requests with a "
    "sequence_id of their own: the server puts them together.",
)
REQUESTS.row(
    "sequence-id-too-long",
    "string correlation ID cannot be longer than {most:int} characters",
    what="The name of the sequence is longer than {most} characters.",
    where="sequence_id",
    todo="Write a shorter sequence_id, or a whole number above 0.",
)
REQUESTS.row(
    "reserved-parameter",
    "parameter keys starting with 'triton_' are reserved",
    what="A parameter of the request has a name that begins with triton_, which Triton keeps for "
    "itself.",
    where="parameters",
    todo="Give it another name.",
)
REQUESTS.row(
    "sequence-not-started",
    "inference request for sequence {id:word} to model '{model}' must specify the START flag",
    what="Sequence {id} of {model} was never begun, or has ended or timed out.",
    where="sequence_id={id}",
    todo="Write sequence_start=True in its first request. Idle sequences end after "
    "max_sequence_idle_microseconds (1 s unless the config says more).",
)
REQUESTS.row(
    "restricted",
    "This API is restricted, expecting header '{header}'",
    "This protocol is restricted, expecting header '{header}'",
    what="The server gives this only to those who send its secret.",
    where="header {header}",
    todo='Write headers={"{header}": "…"} in the call, with the value from the server\'s '
    "--http-restricted-api or --grpc-restricted-protocol.",
)


# -- failures inside the model ---------------------------------------------------------------------


@REQUESTS.rule("no-execute", "Python model {path:word} does not implement `execute` method")
def no_execute(question: Question, said: Said) -> Advice:
    """Write execute(self, requests) into the class."""
    return Advice(
        f"The class TritonPythonModel of {question.asked} has no method execute.",
        said["path"].rpartition("/")[2],
        "Write def execute(self, requests): it returns one InferenceResponse for each request.",
    )


REQUESTS.row(
    "number-of-responses",
    "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
    "InferenceRequest(s) size is:{requests:int}, and InferenceResponse(s) size is:{responses:int}",
    what="execute got {requests} request(s) and returned {responses} response(s).",
    where="model.py, execute",
    todo="Return one InferenceResponse for each request, in their order: the batcher may hand over "
    "several at once.",
)
REQUESTS.row(
    "not-a-response",
    "Expected an 'InferenceResponse' object in the execute function return list, found type "
    "'<class '{type}'>'",
    what="execute returned {type} in place of a response.",
    where="model.py, execute",
    todo="Return [pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor(name, array)]), …].",
)
REQUESTS.row(
    "not-a-list",
    "Expected a list in the execute return, found type '<class '{type}'>'",
    what="execute returned {type}, not a list.",
    where="model.py, execute",
    todo="Return a list: one pb_utils.InferenceResponse for each request, in their order.",
)
REQUESTS.row(
    "decoupled-returns",
    "is using the decoupled mode and the execute function must return None",
    what="The model is decoupled, and its execute returned something.",
    where="model.py, execute",
    todo="Send each response with request.get_response_sender().send(response) and return nothing; "
    "or take decoupled out of config.pbtxt.",
)
REQUESTS.row(
    "model-mistake",  # from backends/python/answer_checks.py
    "ModelMistake: {what:rest}\nwhere: {where:rest}\nto do: {todo:rest}",
    what="{what}",
    where="{where}",
    todo="{todo}",
)


@REQUESTS.rule(
    "tensor-is-none",
    "AttributeError: 'NoneType' object has no attribute 'as_numpy'",
)
def tensor_is_none(question: Question, said: Said) -> Advice:
    """Ask for tensors by the names in the config; look at has_error() of a response first."""
    evidence = question.evidence()
    where = evidence.at_frame() if evidence is not None else "model.py, execute"
    kind, name = _asked_for(evidence) if evidence is not None else ("", "")
    named = f' "{name}"' if name else ""
    if kind == "output":
        return Advice(
            f"get_output_tensor_by_name found no output{named} in a response, and gave None.",
            where,
            f"Either the request failed: {_LOOK} Or its answer has no output{named}: the name must "
            "be one of the model that was asked, and in requested_output_names.",
        )
    names = question.names("input")
    return Advice(
        f"The model asked for {f'an input{named}' if kind else 'a tensor'} that is not there, and "
        "got None.",
        where,
        "get_input_tensor_by_name and get_output_tensor_by_name return None for a name that is not "
        + (f"there. The inputs of {question.asked} are {listed(names)}" if names else "there")
        + ". An optional input is None where the request leaves it out.",
    )


_LOOK = (
    "write `if response.has_error(): raise pb_utils.TritonModelException("
    "response.error().message())` before it, and ask again."
)


def _asked_for(evidence: Evidence) -> tuple[str, str]:
    """Whether the tensor that the traceback's line uses is an input or an output, and its name.

    Each is "" where the code does not show it.
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


@REQUESTS.rule(
    "member-not-ready",
    "Model {member:word} - Error when running inference: {words:rest}",
)
def member_not_ready(question: Question, said: Said) -> Advice:
    """Load the model that model.py calls, or correct its name there."""
    member, words = said["member"], said["words"]
    if (advice := question.unbuilt(member)) is not None:
        return advice
    caller = question.caller or question.asked
    where = question.place(f'model.py, InferenceRequest(model_name="{member}")')
    if "is not ready" not in words:
        return Advice(
            f"{caller} calls {member}, which answered: {words}",
            where,
            "Mend what these words say: they are about the request that model.py makes.",
        )
    entries = question.index()
    ready = {e["name"] for e in entries if e.get("state") == "READY"}
    if member in ready:
        served = listed(str(e.get("version", "")) for e in entries if e["name"] == member)
        return Advice(
            f"{caller} calls {member}, of which the version asked for is not ready.",
            where,
            f"{member} is loaded with version {served}. Take model_version out of "
            "InferenceRequest, or write one that is loaded. If it names no model_version, "
            f"{member} has become ready in the meantime: try again.",
        )
    here = {e["name"] for e in entries}
    meant = (
        ""
        if member in here
        else next(filter(None, (near(member, names, cutoff=0.75) for names in (ready, here))), "")
    )
    if meant or (entries and member not in here):
        return Advice(
            f"{caller} calls {member}, which is not in the repository.",
            where,
            f'Write model_name="{meant}".'
            if meant
            else f"Correct the name, or put {member} there and load it. It holds "
            f"{listed(sorted(here))}.",
        )
    return Advice(
        f"{caller} calls {member}, which is not ready.", where, f"Load {member}, then try again."
    )


REQUESTS.row(
    "stub-died",
    "Stub process '{name}' is not healthy",
    what="The process of {asked} ended while it worked on a request.",
    where="model.py, execute",
    todo="The end of the server's log may say why; usual reasons: too little memory, a crash in a "
    "native library, os._exit. The laptop server loads the model again by itself; on another one, "
    "load it.",
)
REQUESTS.row(
    "stub-ended",
    "the process of model '{name}' has ended, and the server is loading the model again",
    "The process of model '{name}' has ended: {how}",
    what="The process of {name} has ended, and the server loads the model again.",
    where="the server's log: look for the lines with `has ended`",
    todo="Ask again in some seconds. Usual reasons: too little memory, a crash in a native "
    "library, os._exit. A model that ends four times in a minute is unloaded.",
)
REQUESTS.row(
    "stub-ended-for-good",
    "the process of model '{name}' has ended",
    what="The process of {name} has ended, and with model control mode none the server cannot load "
    "it again.",
    where="the server's log: look for the line with `has ended`",
    todo="Start the server again. Usual reasons: too little memory, a crash in a native library, "
    "os._exit.",
)
REQUESTS.row(
    "empty-outputs",
    "output tensor shape does not match size of output",
    "unexpected size of output",
    what="The outputs of {asked} arrived empty: its Python has numpy 2, which this server cannot "
    "read.",
    where="the model's environment",
    todo="Install numpy<2 there (in .venv: `.venv/bin/pip install 'numpy<2'`; a packed environment "
    "is packed again), and load the model again.",
)


@REQUESTS.rule(
    "model-exception",
    "Failed to process the request(s) for model '{instance}', message: {error:id}: {words:rest}",
    "Failed to process the request(s) for model instance '{instance}', message: {error:id}: "
    "{words:rest}",
)
def model_exception(question: Question, said: Said) -> Advice:
    """Correct the line of model.py that it names."""
    model = question.model or _model_of(said["instance"], question.server)
    asked = dataclasses.replace(question, model=model)
    error, words, evidence = said["error"], said["words"], asked.evidence()
    frames = re.findall(rf"/{re.escape(model)}/(\d+/.+\.py)\((\d+)\): (\S+)", question.message)
    if evidence is not None and evidence.frame() is not None:
        where, code = evidence.at_frame(), evidence.code(*evidence.frame()[:2])  # type: ignore[index]
    else:
        code = ""
        where = "{}, line {}, in {}".format(*frames[0]) if frames else "model.py, execute"
    if question.caller:
        where = f"{model}/{where}"
    who = f"{model}, which {question.caller} calls," if question.caller else model
    if evidence is not None and (advice := _of_a_part(error, words, who, evidence)) is not None:
        return dataclasses.replace(advice, where=where)
    if error == "TritonModelException" and (refused := _FRAMEWORK.match(words)):
        return _passed_on(asked, evidence, refused[0], where)
    if error == "TypeError" and words.startswith("__init__(): incompatible constructor arguments"):
        taken = _TAKES.search(question.message)
        if taken:
            return Advice(
                f"{who} gives pb_utils.{taken[1]} something that it does not take.",
                where,
                _CONSTRUCTORS.get(taken[1], "Give it what the message names."),
            )
    todo = next((todo for form, todo in _BLS if re.search(form, f"{error}: {words}")), "")
    if error == "IndexError" and "output_tensors()" in code:
        todo = "A response with an error has no output_tensors(): " + _LOOK
    if not todo:
        todo = f"Mend it there and load {model} again."
        if error not in _NEVER:
            todo += (
                " To refuse one request and answer the others, return "
                "InferenceResponse(error=pb_utils.TritonError(…)) for it."
            )
    return Advice(f"{who} {raised(error, words)}", where, todo)


#: Exceptions that are a mistake in the code, whatever the request.
_NEVER = ("NameError", "UnboundLocalError", "AttributeError", "ImportError", "NotImplementedError")
#: What frameworks say of an input: see the entry framework-refused.
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
#: What Python says of a coroutine or a future that is taken for its result.
NOT_AWAITED = (
    r"(?:'_asyncio\.Future'|'coroutine'|non-iterable (?:_asyncio\.Future|coroutine)) object"
)
#: What Python says of a wrong call of another model → what to do.
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


def _of_a_part(error: str, words: str, who: str, evidence: Evidence) -> Advice | None:
    """What to do about a module, a name or a part of the code that is missing; None for others."""
    missing = re.match(r"No module named '([^']+)'", words)
    if missing:
        return missing_file(missing[1], evidence) or Advice(
            f"{who} {raised(error, words)}", "", missing_module(missing[1], evidence)
        )
    missing = re.match(r"cannot import name '([^']+)' from '([^']+)'", words)
    if missing:
        return missing_name(missing[1], missing[2], evidence)
    return not_written(evidence.model, error, words, evidence)


def _passed_on(question: Question, evidence: Evidence | None, words: str, where: str) -> Advice:
    """What to do about the error of a framework that a Python model has passed on."""
    called = {name for _, name in _calls(evidence)} if evidence is not None else set()
    member = called.pop() if len(called) == 1 else ""
    asked = dataclasses.replace(question, model=member, caller=question.asked)
    return Advice(
        f"{member}, which {question.asked} calls, could not compute its input: {words}"
        if member
        else f"A model that {question.asked} calls could not compute its input: {words}",
        asked.place(where) if member else where,
        "Look at the arrays that model.py sends to it. Usual reasons: a size that the model does "
        "not take, an index out of range.",
    )


REQUESTS.row(
    "rows-do-not-match",
    "failed to split the output tensor '{output}' in responses: expected batch size of at least "
    "{wanted:int} in model output, got {given:int}",
    what='The output "{output}" has {given} rows for a batch of {wanted}.',
    where="max_batch_size in config.pbtxt",
    todo="The model does not batch: write max_batch_size: 0, or export it with a batch dimension, "
    "the first of its outputs.",
)
REQUESTS.row(
    "output-data-type",
    "configuration expects datatype TYPE_{wanted:id} for output '{output}', model provides "
    "TYPE_{given:id}",
    what='The config gives output "{output}" of {asked} as TYPE_{wanted}, the model has '
    "TYPE_{given}.",
    where="config.pbtxt, data_type of {output}",
    todo="Write data_type: TYPE_{given}, and load the model again; or convert the output in the "
    "model.",
)
REQUESTS.row(
    "batch-not-full",
    "expected requests with batch size '{size:int}', got '{given:int}'",
    what="{asked} was compiled for {size} rows, and this request has {given}.",
    where="max_batch_size and ENABLE_BATCH_PADDING in config.pbtxt",
    todo="Send {size} rows; or set ENABLE_BATCH_PADDING to YES (each request then takes as long as "
    "{size} rows); or write max_batch_size: 0, with the batch in dims as -1.",
)
REQUESTS.row(
    "picture-not-decoded",
    "nvImageCodec failure: {words:text}",
    what="{asked} cannot decode a file that the request sends.",
    where="inputs",
    todo="Open the file with another program, e.g. PIL.Image.open(path).load(). It is damaged or "
    "cut off, or of a kind that DALI does not decode.",
)
_FORWARD = (
    "Let forward() return a tensor, a tuple of tensors or a List[str]: of a dict "
    '`return out["a"], out["b"]`, of a list `return tuple(out)` or `return out[0], out[1]`. Then '
    "save the module again."
)


def _at_forward(question: Question, said: Said) -> str:
    """forward() of a TorchScript model, with its arguments where its file shows them."""
    evidence = question.evidence()
    if evidence is None:
        return "forward() of the module in the model's file"
    file = f"{evidence.version}/{evidence.value('default_model_filename', 'model.pt')}"
    return f"{file}, forward{formats.forward(evidence.folder / file)}"


def _in_config(question: Question, output: str) -> str:
    """The place of an output in config.pbtxt."""
    evidence = question.evidence()
    return evidence.at_tensor("output", output) if evidence else f"config.pbtxt, output {output}"


REQUESTS.row(
    "torch-output",
    "output must be of type Tensor, List[str] or Tuple containing one of these two types",
    "output must be of type Tensor or List[str], received {given:rest}",
    "output at index {index:int} must be of type Tensor or List[str], received {given:rest}",
    "PyTorch execute failure: Expected Tensor but got {given:rest}",
    what="What forward() of {asked} returns is not a tensor, nor a tuple of tensors.",
    where=_at_forward,
    todo=_FORWARD,
)
REQUESTS.row(
    "torch-output",
    "output '{name}' is a scalar which is not supported",
    what='forward() of {asked} returns a number without dimensions as "{name}".',
    where=_at_forward,
    todo="Return one value a row, e.g. x.sum(dim=1, keepdim=True), or x.reshape(1) where "
    "max_batch_size is 0. Then save the module again.",
)
REQUESTS.row(
    "torch-output",
    "The output {name:word} in the model configuration refers to an output index which doesn't "
    "exist. This model has {count:int} outputs",
    what='The config has an output "{name}", and forward() of {asked} returns {count} tensor(s): '
    "numbers count from 0.",
    where=lambda question, said: _in_config(question, said["name"]),
    todo="Take this output out, or give it a number that is there, e.g. NAME__0.",
)
REQUESTS.row(
    "framework-refused",
    "onnx runtime error {code:int}: {words:text}",
    "PyTorch execute failure: {words:text}",
    "openvino error in {doing}: {words:text}",
    "Runtime error: {words:text}",
    what="{asked} could not compute this input: {words}.",
    where="inputs",
    todo="Run the model on the same array in a notebook. Usual reasons: a size that the model does "
    "not take, an index out of range.",
)


# -- waiting ---------------------------------------------------------------------------------------


REQUESTS.row(
    "queue-full",
    "Exceeds maximum queue size",
    what="The queue of {asked} is full.",
    where="max_queue_size in config.pbtxt",
    todo="Send fewer requests at once, try again later, or raise max_queue_size (0: no limit).",
)
REQUESTS.row(
    "request-timeout",
    "Request timeout expired",
    what="The request waited in the queue of {asked} longer than it may.",
    where="default_timeout_microseconds in config.pbtxt, or timeout= of the request",
    todo="Raise that limit, add instances, or send less at once.",
)


@REQUESTS.rule("client-timeout", "Deadline Exceeded", "timed out", "Timeout")
def client_timeout(question: Question, said: Said) -> Advice:
    """Wait longer, or look at the server's log."""
    evidence = question.evidence()
    lines = [line for line, name in _calls(evidence) if name == question.model] if evidence else []
    if evidence is not None and lines:
        file = evidence.python_file
        return Advice(
            f"No answer came: {question.asked} calls itself, and waits for itself for ever.",
            f"{file}, line {lines[0]}: {evidence.code(file, lines[0])}",
            "Ask another model there: the instance that calls is busy until its call is answered. "
            "Then restart the server: an instance that waits cannot be unloaded.",
        )
    return Advice(
        "No answer came in the time that the client allows.",
        "client_timeout (gRPC), network_timeout (HTTP)",
        "Wait longer, or look at the server's log. A Python model whose execute returns None "
        "never answers.",
    )


REQUESTS.row(
    "no-server",
    "failed to connect to all addresses",
    "Connection refused",
    "Name or service not known",
    "Socket closed",
    "Connection reset",
    "Server disconnected",
    what="No server answers at this address.",
    where="{address}",
    todo="Start one (`workbook serve --detach`, `make lab`), and use its address: `workbook "
    "status` shows it. HTTP and gRPC have ports of their own.",
)


# -- requests written by hand ----------------------------------------------------------------------


#: What the server expects in place of what a request has → what to write.
_JSON = {
    "double": "Write numbers, without quotes; there is no null.",
    "string": 'Write text, in quotes: "…".',
    "boolean": "Write true or false.",
    "unsigned-integer": "Write whole numbers from 0 up, without quotes.",
    "array": "Write a list in square brackets.",
}


@REQUESTS.rule(
    "bad-json",
    "Unable to parse JSON bytes array: {words:rest}",
    "failed to parse the request JSON buffer: {words:rest}",
    "Unable to parse '{field}': {words:rest}",
)
def bad_json(question: Question, said: Said) -> Advice:
    """Write the request as {"inputs": [{"name", "shape", "datatype", "data"}]}."""
    words = said["words"]
    if "does not match true shape" in words:
        what, todo = "data has more or fewer numbers than its shape.", "Let shape and data agree."
    elif "non-existing object member" in words:
        lacking = re.findall(r"'([^']*)'", words)
        what = f"The request lacks {listed(lacking)}."
        todo = 'Write {"inputs": [{"name": …, "shape": …, "datatype": "FP32", "data": […]}]}.'
    elif wrong := re.search(r"attempt to access JSON non-([\w-]+) as", words):
        field = said.get("field") or "data"
        what = f"{field} cannot be read: it holds something else than the server expects there"
        what += " (an input of BYTES takes strings alone)." if not said.get("field") else "."
        todo = _JSON.get(wrong[1].replace("number", "double"), f"Write {wrong[1]} there.")
        if field == "shape":
            todo = (
                "Write the sizes of your data as a list of whole numbers; -1 is for config.pbtxt."
            )
        return Advice(what, field, todo)
    elif said.get("field"):
        what, todo = f"{said['field']} cannot be read: {words}.", "Write numbers for numbers."
    else:
        what, todo = f"The request is not JSON: {words}", "Write it with json.dumps(…)."
    return Advice(what, said.get("field") or "the request's body", todo)


@REQUESTS.rule("generate-parameter", "parameter '{name}' has invalid type. It should be either")
def generate_parameter(question: Question, said: Said) -> Advice:
    """Use the model's input names as keys of a generate request."""
    names = question.names("input")
    meant = near(said["name"], names)
    return Advice(
        f'"{said["name"]}" is no input of {question.asked}, and no parameter either.',
        f'"{said["name"]}"',
        f'Write "{meant}".' if meant else f"The inputs are {listed(names)}." if names
        else "Use the model's input names as keys.",
    )  # fmt: skip


@REQUESTS.rule(
    "generate-shape", "The schema can not convert input '{name}' to tensor with proper shape"
)
def generate_shape(question: Question, said: Said) -> Advice:
    """Give the input of a generate request as many values as its dims hold."""
    name = said["name"]
    inputs = question.config().get("input", [])
    entry: dict[str, Any] = next((each for each in inputs if each["name"] == name), {})
    dims = ", ".join(str(d) for d in entry.get("dims", []))
    kind = str(entry.get("data_type", "")).removeprefix("TYPE_")
    holds = f": {kind}, dims [ {dims} ]" if entry else ""
    return Advice(
        f'The request gives "{name}" other values than {question.asked} takes{holds}.',
        f'"{name}"',
        "Write one value, or a flat list of as many values as dims hold; no object. For other "
        "shapes send …/infer with a shape.",
    )


REQUESTS.row(
    "ensemble-deadlock",
    "in ensemble '{name}', unexpected deadlock, at least one output is not set while no more "
    "ensemble steps can be made",
    what="A model inside of {name} has answered without a tensor that a later step, or the answer, "
    "needs.",
    where="the models inside of {name}",
    todo="Ask each of them alone, and look for an output that is missing: a Python model that "
    "leaves one out, or a decoupled one that sends no response.",
)
REQUESTS.row(
    "no-shared-region",
    "Unable to find {kind:word} shared memory region: '{name}'",
    "Unable to find shared memory region: '{name}'",
    what='The server knows no shared memory region "{name}".',
    where="{name}",
    todo="Register it first: client.register_system_shared_memory(name, key, size).",
)
REQUESTS.row(
    "wrong-method",
    "Method Not Allowed",
    what="This address takes another method, e.g. POST in place of GET.",
    where="the request's method",
    todo="Send a POST to …/infer and …/generate, with a body; a GET to …/ready, …/config, …/stats.",
)
REQUESTS.row(
    "not-found",
    "Not Found",
    what="The server has nothing at this address.",
    where="the path of the request",
    todo="It looks like /v2/models/NAME/infer or /v2/models/NAME/versions/1/infer; a version is a "
    "whole number.",
)
