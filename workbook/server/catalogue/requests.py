"""Requests that fail: what the server and tritonclient say to a caller."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from ...common.errors import WorkbookError
from .evidence import Evidence
from .rules import Advice, Catalogue, Said, listed, near

if TYPE_CHECKING:
    from ..connection import Server

_NUMPY = {
    "FP32": "np.float32",
    "FP64": "np.float64",
    "FP16": "np.float16",
    "BOOL": "np.bool_",
    "BYTES": "np.object_",
    **{f"{sign}INT{bits}": f"np.{sign.lower()}int{bits}" for sign in ("", "U") for bits in
       (8, 16, 32, 64)},
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Question:
    """A request that failed.

    Attributes:
        message: the server's or the client's words.
        model: the model asked, where it is known.
        server: the server asked, to look names up; None where it is not known.
    """

    message: str
    model: str = ""
    server: Server | None = None

    def config(self) -> dict[str, Any]:
        """The model's configuration; empty where it cannot be asked for."""
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
        """The server's repository index; empty where it cannot be asked for."""
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

    def evidence(self) -> Evidence | None:
        """The model's folder on this machine, where the server's repository is known."""
        if self.server is None or not self.model:
            return None
        return Evidence(self.model, self.server.repository / self.model, self.message)


REQUESTS: Catalogue[Question] = Catalogue()


def _of(question: Question) -> str:
    return question.model or "the model"


@REQUESTS.rule("unknown-input", "unexpected inference input '{name}' for model")
def unknown_input(question: Question, said: Said) -> Advice:
    """Use the model's own input names."""
    names = question.names("input")
    meant = near(said["name"], names) or (names[0] if len(names) == 1 else "")
    return Advice(
        f'{_of(question)} has no input "{said["name"]}"'
        + (f"; it has {listed(names)}." if names else "."),
        f'InferInput("{said["name"]}", …)',
        f'Write "{meant}".' if meant else "server.metadata(MODEL) lists the inputs.",
    )


@REQUESTS.rule("unknown-output", "unexpected inference output '{name}' for model")
def unknown_output(question: Question, said: Said) -> Advice:
    """Use the model's own output names, or leave `outputs` out to get them all."""
    names = question.names("output")
    meant = near(said["name"], names) or (names[0] if len(names) == 1 else "")
    return Advice(
        f'{_of(question)} has no output "{said["name"]}"'
        + (f"; it has {listed(names)}." if names else "."),
        f'InferRequestedOutput("{said["name"]}")',
        f'Write "{meant}".' if meant else "Leave outputs out to get them all.",
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
            f"{_of(question)} has {said['n']} inputs, and the request has {said['m']}"
            + (f": {listed(extra)} is none of them." if extra else "."),
            "inputs",
            f"Send {listed(names)} alone." if names else "Send the model's own inputs alone.",
        )
    missing = re.findall(r"'([^']*)'", said.get("missing", ""))
    missing = missing or [name for name in names if name not in got]
    return Advice(
        f"The request lacks the input {listed(missing)} of {_of(question)}.",
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
            f'The batch dimension of "{name}" is missing: {_of(question)} takes a batch of '
            f"[{', '.join(wanted[1:])}].",
            where,
            f"Send [1, {', '.join(given)}]: array[np.newaxis] puts the batch in front.",
        )
    if not batches and len(given) == len(wanted) + 1 and _fits(given[1:], wanted):
        return Advice(
            f'"{name}" has a batch dimension too many: {_of(question)} does not batch '
            "(max_batch_size: 0).",
            where,
            f"Send [{', '.join(given[1:])}], one request for each; or let the model batch.",
        )
    return Advice(
        f'"{name}" of {_of(question)} has shape [{", ".join(wanted)}] (-1: any size'
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
        f'"{said["input"]}" of {_of(question)} is {wanted}, and the request sends '
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


@REQUESTS.rule(
    "client-shape",
    "got unexpected numpy array shape [{given:dims}], expected [{wanted:dims}]",
)
def client_shape(question: Question, said: Said) -> Advice:
    """Give InferInput the array's own shape."""
    return Advice(
        f"InferInput says [{said['wanted']}], and the array has shape [{said['given']}].",
        "set_data_from_numpy(…)",
        "Write InferInput(name, array.shape, type).",
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


@REQUESTS.rule("invalid-data-type", "invalid datatype for input {input:word}")
def invalid_data_type(question: Question, said: Said) -> Advice:
    """Write FP32, not TYPE_FP32: a request names types without TYPE_."""
    return Advice(
        f'The data type of "{said["input"]}" is not one that a request may name.',
        '"datatype"',
        "Write FP32, INT64, BYTES, …: without TYPE_, which belongs into config.pbtxt.",
    )


@REQUESTS.rule(
    "batch-too-large", "inference request batch-size must be <= {limit:int} for '{model}'"
)
def batch_too_large(question: Question, said: Said) -> Advice:
    """Send at most max_batch_size rows in a request."""
    return Advice(
        f"{_of(question)} takes at most {said['limit']} rows in a request.",
        "inputs",
        f"Send {said['limit']} rows or fewer at a time, or raise max_batch_size in config.pbtxt.",
    )


@REQUESTS.rule(
    "unknown-model",
    "Request for unknown model: '{model}' is not found",
    "requested model '{model}' is not available",
)
def unknown_model(question: Question, said: Said) -> Advice:
    """Load the model, or correct its name."""
    entries = question.index()
    ready = sorted({e["name"] for e in entries if e.get("state") == "READY"})
    here = {e["name"] for e in entries}
    name = said["model"]
    if name in here:
        return Advice(
            f"The model {name} lies in the repository and is not loaded.",
            name,
            f'Load it: server.load("{name}"). If it was refused, that says why.',
        )
    meant = near(name, ready) or near(name, here)
    return Advice(
        f"The server has no model {name}.",
        name,
        f"Ask {meant}."
        if meant
        else f"It serves {listed(ready)}. Deploy the model first."
        if entries
        else "Deploy and load the model first; server.index() lists what there is.",
    )


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
    return Advice(
        f"Version {said['version']} of {said['model']} is not served"
        + (f"; {listed(served)} is." if len(served) == 1 else f"; {listed(served)} are." if served
           else "."),
        f"model_version={said['version']!r}",
        "Leave model_version out for the latest; version_policy in config.pbtxt decides which "
        "versions are served.",
    )  # fmt: skip


@REQUESTS.rule("model-not-ready", "Request for unknown model: '{model}' has no available versions")
def model_not_ready(question: Question, said: Said) -> Advice:
    """Mend the model and load it again."""
    why = " ".join(question.reason().partition("\n\nAt:")[0].split())
    return Advice(
        f"The model {said['model']} is not ready" + (f": {why}" if why else "."),
        said["model"],
        f'Load it again to see what is wrong: server.load("{said["model"]}").',
    )


@REQUESTS.rule(
    "bad-version",
    "failed to get model version from specified version string '{version}'",
    "failed to get version from specified version string '{version}'",
)
def bad_version(question: Question, said: Said) -> Advice:
    """Write the version as a whole number in quotes, e.g. "1"."""
    return Advice(
        f'"{said["version"]}" is not a version.',
        f'model_version="{said["version"]}"',
        'Write a whole number in quotes, e.g. "1", or leave it out.',
    )


@REQUESTS.rule(
    "decoupled-model",
    "doesn't support models with decoupled transaction policy",
    "generate expects model to produce exactly 1 response",
)
def decoupled_model(question: Question, said: Said) -> Advice:
    """Use a gRPC stream, or generate_stream: a decoupled model gives any number of answers."""
    return Advice(
        f"{_of(question)} is decoupled: it may answer more than once, and this way in takes one "
        "answer.",
        "infer(…)",
        "Use gRPC's start_stream(callback) and async_stream_infer(…), or POST …/generate_stream.",
    )


@REQUESTS.rule(
    "several-responses",
    "expected a single response, got {n:int}",
    "an exception occurred in the client while decoding the response",
)
def several_responses(question: Question, said: Said) -> Advice:
    """Declare the model decoupled, and call it by a stream."""
    return Advice(
        f"{_of(question)} sent {said['n']} answers to one request."
        if said.get("n")
        else f"The answer of {_of(question)} cannot be decoded: most likely it sent several.",
        "model.py, execute",
        "Write model_transaction_policy { decoupled: true } into config.pbtxt and call it by "
        "stream; else send one answer.",
    )


@REQUESTS.rule(
    "no-correlation-id",
    "inference request to model '{model}' must specify a non-zero or non-empty correlation ID",
)
def no_correlation_id(question: Question, said: Said) -> Advice:
    """Give every request of a sequence the same sequence_id, from 1 up."""
    return Advice(
        f"{said['model']} keeps a state for each sequence, and the request names none.",
        "infer(…)",
        "Write infer(…, sequence_id=1, sequence_start=True) for the first request of a sequence, "
        "sequence_end=True for its last.",
    )


@REQUESTS.rule(
    "sequence-not-started",
    "inference request for sequence {id:word} to model '{model}' must specify the START flag",
)
def sequence_not_started(question: Question, said: Said) -> Advice:
    """Begin a sequence with sequence_start=True."""
    return Advice(
        f"Sequence {said['id']} of {said['model']} was never begun, or has ended or timed out.",
        f"sequence_id={said['id']}",
        "Write sequence_start=True in its first request. Idle sequences end after "
        "max_sequence_idle_microseconds (1 s unless the config says more).",
    )


@REQUESTS.rule(
    "restricted",
    "This API is restricted, expecting header '{header}'",
    "This protocol is restricted, expecting header '{header}'",
)
def restricted(question: Question, said: Said) -> Advice:
    """Send the header that the server asks for."""
    header = said["header"]
    return Advice(
        "The server gives this only to those who send its secret.",
        f"header {header}",
        f'Write headers={{"{header}": "…"}} in the call, with the value from the server\'s '
        "--http-restricted-api or --grpc-restricted-protocol.",
    )


# -- failures inside the model ---------------------------------------------------------------------


@REQUESTS.rule("no-execute", "Python model {path:word} does not implement `execute` method")
def no_execute(question: Question, said: Said) -> Advice:
    """Write execute(self, requests) into the class."""
    return Advice(
        f"The class TritonPythonModel of {_of(question)} has no method execute.",
        said["path"].rpartition("/")[2],
        "Write def execute(self, requests): it returns one InferenceResponse for each request.",
    )


@REQUESTS.rule(
    "number-of-responses",
    "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
    "InferenceRequest(s) size is:{requests:int}, and InferenceResponse(s) size is:{responses:int}",
)
def number_of_responses(question: Question, said: Said) -> Advice:
    """Return one response for each request, in their order."""
    return Advice(
        f"execute got {said['requests']} requests and returned {said['responses']} responses.",
        "model.py, execute",
        "Return one InferenceResponse for each request, in their order: the batcher may hand over "
        "several at once.",
    )


@REQUESTS.rule(
    "not-a-response",
    "Expected an 'InferenceResponse' object in the execute function return list, found type "
    "'<class '{type}'>'",
)
def not_a_response(question: Question, said: Said) -> Advice:
    """Return pb_utils.InferenceResponse objects."""
    return Advice(
        f"execute returned {said['type']} in place of a response.",
        "model.py, execute",
        "Return [pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor(name, array)]), …].",
    )


@REQUESTS.rule(
    "member-not-ready",
    "Model {member:word} - Error when running inference: {words:rest}",
)
def member_not_ready(question: Question, said: Said) -> Advice:
    """Load the model that model.py calls, or correct its name there."""
    member = said["member"]
    known = sorted({e["name"] for e in question.index() if e.get("state") == "READY"})
    meant = near(member, known) if member not in known else ""
    ready = "is not ready" in said["words"]
    return Advice(
        f"{_of(question)} calls {member}, which is not ready."
        if ready
        else f"{_of(question)} calls {member}, which answered: {said['words']}",
        f'model.py, InferenceRequest(model_name="{member}")',
        f'Write model_name="{meant}".' if meant else f"Load {member} first, then try again.",
    )


@REQUESTS.rule("stub-died", "Stub process '{name}' is not healthy")
def stub_died(question: Question, said: Said) -> Advice:
    """Look at the end of the server's log, then load the model again."""
    return Advice(
        f"The process of {_of(question)} ended while it worked on a request.",
        "model.py, execute",
        "Load the model again; the server's log may hold its last words. Usual reasons: too "
        "little memory, a crash in a native library, os._exit.",
    )


@REQUESTS.rule(
    "empty-outputs",
    "output tensor shape does not match size of output",
    "unexpected size of output",
)
def empty_outputs(question: Question, said: Said) -> Advice:
    """Use numpy < 2 in the model's environment."""
    return Advice(
        f"The outputs of {_of(question)} arrived empty: its Python has numpy 2, which this server "
        "cannot read.",
        "the model's environment",
        "Install numpy<2 there (`pip install 'numpy<2'`), and load the model again.",
    )


@REQUESTS.rule(
    "model-exception",
    "Failed to process the request(s) for model '{instance}', message: {error:id}: {words:rest}",
    "Failed to process the request(s) for model instance '{instance}', message: {error:id}: "
    "{words:rest}",
)
def model_exception(question: Question, said: Said) -> Advice:
    """Mend the line of model.py that it names."""
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
    return Advice(
        f"{model} raised {said['error']}: {said['words']}",
        where,
        "Mend it there and load the model again. To refuse one request and answer the others, "
        "return InferenceResponse(error=pb_utils.TritonError(…)) for it.",
    )


@REQUESTS.rule(
    "rows-do-not-match",
    "failed to split the output tensor '{output}' in responses: expected batch size of atleast "
    "{wanted:int} in model output, got {given:int}",
)
def rows_do_not_match(question: Question, said: Said) -> Advice:
    """Export the model with a batch dimension in its outputs, or set max_batch_size to 0."""
    return Advice(
        f'The output "{said["output"]}" has {said["given"]} rows for a batch of {said["wanted"]}.',
        "max_batch_size in config.pbtxt",
        "The model does not batch: write max_batch_size: 0, or export it with the batch first.",
    )


@REQUESTS.rule(
    "framework-refused",
    "onnx runtime error {code:int}: {words:rest}",
    "PyTorch execute failure: {words:rest}",
    "openvino error in {doing}: {words:rest}",
    "Runtime error: {words:rest}",
)
def framework_refused(question: Question, said: Said) -> Advice:
    """Try the same input with the framework itself; look at shapes and values."""
    return Advice(
        f"{_of(question)} could not compute this input: {said['words'].strip()}",
        "inputs",
        "Run the model on the same array in a notebook. Usual reasons: a size that the model does "
        "not take, an index out of range.",
    )


# -- waiting ---------------------------------------------------------------------------------------


@REQUESTS.rule("queue-full", "Exceeds maximum queue size")
def queue_full(question: Question, said: Said) -> Advice:
    """Send fewer requests at once, or raise max_queue_size."""
    return Advice(
        f"The queue of {_of(question)} is full.",
        "max_queue_size in config.pbtxt",
        "Send fewer requests at once, try again later, or raise max_queue_size (0: no limit).",
    )


@REQUESTS.rule("request-timeout", "Request timeout expired")
def request_timeout(question: Question, said: Said) -> Advice:
    """Give it more time, or less work."""
    return Advice(
        f"The request waited in the queue of {_of(question)} longer than it may.",
        "default_timeout_microseconds in config.pbtxt, or timeout= of the request",
        "Raise that limit, add instances, or send less at once.",
    )


@REQUESTS.rule("client-timeout", "Deadline Exceeded", "timed out", "Timeout")
def client_timeout(question: Question, said: Said) -> Advice:
    """Wait longer, or look at what the model does."""
    return Advice(
        "No answer came in the time that the client allows.",
        "client_timeout (gRPC), network_timeout (HTTP)",
        "Wait longer, or look at the server's log. A Python model whose execute returns None "
        "never answers.",
    )


@REQUESTS.rule(
    "no-server",
    "failed to connect to all addresses",
    "Connection refused",
    "Name or service not known",
    "Socket closed",
    "Connection reset",
    "Server disconnected",
)
def no_server(question: Question, said: Said) -> Advice:
    """Start a server, and use its port: HTTP 8000, gRPC 8001."""
    url = f"{question.server.url}, gRPC {question.server.grpc_url}" if question.server else ""
    return Advice(
        "No server answers at this address.",
        url,
        "Start one (`workbook serve --detach`, `make lab`), and use its address: `workbook status` "
        "shows it. HTTP and gRPC have ports of their own.",
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
        f'"{said["name"]}" is no input of {_of(question)}, and no parameter either.',
        f'"{said["name"]}"',
        f'Write "{meant}".' if meant else f"The inputs are {listed(names)}." if names
        else "Use the model's input names as keys.",
    )  # fmt: skip


@REQUESTS.rule(
    "no-shared-region",
    "Unable to find {kind:word} shared memory region: '{name}'",
    "Unable to find shared memory region: '{name}'",
)
def no_shared_region(question: Question, said: Said) -> Advice:
    """Register the region before use."""
    return Advice(
        f'The server knows no shared memory region "{said["name"]}".',
        said["name"],
        "Register it first: client.register_system_shared_memory(name, key, size).",
    )


@REQUESTS.rule("not-found", "Not Found")
def not_found(question: Question, said: Said) -> Advice:
    """Look at the address: /v2/models/NAME/versions/1/infer."""
    return Advice(
        "The server has nothing at this address.",
        "the path of the request",
        "It looks like /v2/models/NAME/infer or /v2/models/NAME/versions/1/infer; a version is a "
        "whole number.",
    )
