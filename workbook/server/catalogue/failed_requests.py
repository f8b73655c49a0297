"""The messages of the server and of tritonclient when a request fails.

The docstring of each rule is the advice of its entry.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, Protocol

from ...common.errors import WorkbookError
from .evidence import Evidence
from .python_models import missing_module
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


@dataclasses.dataclass(frozen=True)
class Question:
    """A request that failed.

    Attributes:
        message: the message of the server or of the client library.
        model: the name of the model that the request was for; "" where it is not known.
        server: the server that the request was sent to, to look up names; None where it is not
            known.
    """

    message: str
    model: str = ""
    server: AskedServer | None = None

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

    def unbuilt(self, model: str) -> Advice | None:
        """What to do if this is a model of the course whose weights are not built; else None."""
        return unbuilt(self.server.repository / model) if self.server else None

    def evidence(self) -> Evidence | None:
        """The `Evidence` of the model's folder; None where the server or the model is not known."""
        if self.server is None or not self.model:
            return None
        return Evidence(self.model, self.server.repository / self.model, self.message)


REQUESTS: Catalogue[Question] = Catalogue()


@REQUESTS.rule("unknown-input", "unexpected inference input '{name}' for model")
def unknown_input(question: Question, said: Said) -> Advice:
    """Use the model's own input names."""
    return _unknown_tensor(
        question,
        "input",
        said["name"],
        'InferInput("{}", …)',
        "server.metadata(MODEL) lists the inputs.",
    )


@REQUESTS.rule("unknown-output", "unexpected inference output '{name}' for model")
def unknown_output(question: Question, said: Said) -> Advice:
    """Use the model's own output names, or leave `outputs` out to get them all."""
    return _unknown_tensor(
        question,
        "output",
        said["name"],
        'InferRequestedOutput("{}")',
        "Leave outputs out to get them all.",
    )


def _unknown_tensor(question: Question, kind: str, name: str, where: str, other: str) -> Advice:
    names = question.names(kind)
    meant = near(name, names) or (names[0] if len(names) == 1 else "")
    return Advice(
        f'{question.asked} has no {kind} "{name}"'
        + (f"; it has {listed(names)}." if names else "."),
        where.format(name),
        f'Write "{meant}".' if meant else other,
    )


@REQUESTS.rule(
    "missing-input",
    "expected {n:int} inputs but got {m:int} inputs for model '{model}'. Got input(s) "
    "[{got:rest}], but missing required input(s) {missing:rest}. Please",
    "expected {n:int} inputs but got {m:int} inputs for model",
)
def missing_input(question: Question, said: Said) -> Advice:
    """Send every input of the model, and no other."""
    names = question.names("input")
    got = re.findall(r"'([^']*)'", said.get("got", ""))
    if int(said["m"]) > int(said["n"]):
        extra = [name for name in got if names and name not in names]
        return Advice(
            f"{question.asked} has {said['n']} inputs, and the request has {said['m']}"
            + (f": {listed(extra)} is none of them." if extra else "."),
            "inputs",
            f"Send {listed(names)} alone." if names else "Send the model's own inputs alone.",
        )
    missing = re.findall(r"'([^']*)'", said.get("missing", ""))
    missing = missing or [name for name in names if name not in got]
    return Advice(
        f"The request lacks the input {listed(missing)} of {question.asked}.",
        "inputs",
        f'Add InferInput("{missing[0]}", …).' if missing else "Send every input of the model.",
    )


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
    where = f'InferInput("{name}", [{", ".join(given)}], …)'
    if batches and _fits(given, wanted[1:]):
        return Advice(
            f'The batch dimension of "{name}" is missing: {question.asked} takes a batch of '
            f"[{', '.join(wanted[1:])}].",
            where,
            f"Send [1, {', '.join(given)}]: array[np.newaxis] puts the batch in front.",
        )
    if not batches and len(given) == len(wanted) + 1 and _fits(given[1:], wanted):
        return Advice(
            f'"{name}" has a batch dimension too many: {question.asked} does not batch '
            "(max_batch_size: 0).",
            where,
            f"Send [{', '.join(given[1:])}], one request for each; or let the model batch.",
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
        f'InferInput("{said["input"]}", …, "{given}")',
        f'Send array.astype({numpy}) with InferInput("{said["input"]}", array.shape, "{wanted}")'
        f"{text}.",
    )


@REQUESTS.rule(
    "client-data-type",
    "got unexpected datatype {given:word} from numpy array, expected {wanted:word}",
)
def client_data_type(question: Question, said: Said) -> Advice:
    """Let the type of InferInput and of the array agree."""
    wanted = said["wanted"].rstrip(".")
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
        f'InferInput("{said["input"]}", …)',
        "Send at least one row, with set_data_from_numpy(array)."
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
REQUESTS.row(
    "batch-too-large",
    "inference request batch-size must be <= {limit:int} for '{model}'",
    what="{asked} takes at most {limit} rows in a request.",
    where="inputs",
    todo="Send {limit} rows or fewer at a time, or raise max_batch_size in config.pbtxt.",
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
        todo = f"It serves {listed(ready)}. Deploy the model first."
    else:
        todo = "Deploy and load the model first; server.index() lists what there is."
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
    what="execute got {requests} requests and returned {responses} responses.",
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
    """Ask for tensors by the names in the config; an optional input may be None."""
    evidence = question.evidence()
    names = question.names("input")
    return Advice(
        "The model asked for a tensor that is not there, and got None.",
        evidence.at_frame() if evidence is not None else "model.py, execute",
        "get_input_tensor_by_name and get_output_tensor_by_name return None for a name that is not "
        + (f"there. The inputs of {question.asked} are {listed(names)}" if names else "there")
        + ". An optional input is None where the request leaves it out.",
    )


@REQUESTS.rule(
    "member-not-ready",
    "Model {member:word} - Error when running inference: {words:rest}",
)
def member_not_ready(question: Question, said: Said) -> Advice:
    """Load the model that model.py calls, or correct its name there."""
    member = said["member"]
    if (advice := question.unbuilt(member)) is not None:
        return advice
    known = sorted({e["name"] for e in question.index() if e.get("state") == "READY"})
    meant = near(member, known) if member not in known else ""
    ready = "is not ready" in said["words"]
    return Advice(
        f"{question.asked} calls {member}, which is not ready."
        if ready
        else f"{question.asked} calls {member}, which answered: {said['words']}",
        f'model.py, InferenceRequest(model_name="{member}")',
        f'Write model_name="{meant}".' if meant else f"Load {member} first, then try again.",
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
    model = question.model or re.sub(r"_\d+(_\d+)?$", "", said["instance"])
    asked = dataclasses.replace(question, model=model)
    evidence = asked.evidence()
    frames = re.findall(r"/(\d+/[^/\n]+\.py)\((\d+)\): (\S+)", question.message)
    if evidence is not None and evidence.frame() is not None:
        where = evidence.at_frame()
    elif frames:
        where = f"{frames[0][0]}, line {frames[0][1]}, in {frames[0][2]}"
    else:
        where = "model.py, execute"
    todo = (
        "Mend it there and load the model again. To refuse one request and answer the others, "
        "return InferenceResponse(error=pb_utils.TritonError(…)) for it."
    )
    missing = re.match(r"No module named '([^']+)'", said["words"])
    if missing and evidence is not None:
        todo = missing_module(missing[1], evidence)
    return Advice(f"{model} raised {said['error']}: {said['words']}", where, todo)


REQUESTS.row(
    "rows-do-not-match",
    "failed to split the output tensor '{output}' in responses: expected batch size of atleast "
    "{wanted:int} in model output, got {given:int}",
    what='The output "{output}" has {given} rows for a batch of {wanted}.',
    where="max_batch_size in config.pbtxt",
    todo="The model does not batch: write max_batch_size: 0, or export it with a batch dimension, "
    "the first of its outputs.",
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
REQUESTS.row(
    "client-timeout",
    "Deadline Exceeded",
    "timed out",
    "Timeout",
    what="No answer came in the time that the client allows.",
    where="client_timeout (gRPC), network_timeout (HTTP)",
    todo="Wait longer, or look at the server's log. A Python model whose execute returns None "
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


@REQUESTS.rule(
    "bad-json",
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


REQUESTS.row(
    "no-shared-region",
    "Unable to find {kind:word} shared memory region: '{name}'",
    "Unable to find shared memory region: '{name}'",
    what='The server knows no shared memory region "{name}".',
    where="{name}",
    todo="Register it first: client.register_system_shared_memory(name, key, size).",
)
REQUESTS.row(
    "not-found",
    "Not Found",
    what="The server has nothing at this address.",
    where="the path of the request",
    todo="It looks like /v2/models/NAME/infer or /v2/models/NAME/versions/1/infer; a version is a "
    "whole number.",
)
