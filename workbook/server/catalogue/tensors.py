"""What the server's core refuses in tensors, instance groups and warm-ups.

The docstring of each rule is the advice of its entry.
"""

from __future__ import annotations

from ..pbtxt import Message, Scalar
from .evidence import CONFIG, Evidence, at_field, at_tensor, show
from .rules import Advice, Catalogue, Said

TENSORS: Catalogue[Evidence] = Catalogue()

TENSORS.row(
    "no-data-type",
    "model {kind:word} '{name}' must specify 'data_type'",
    what='The {kind} "{name}" has no data type.',
    where=at_tensor(),
    todo="Write e.g. data_type: TYPE_FP32 into it.",
)
TENSORS.row(
    "no-dims",
    "model {kind:word} '{name}' must specify 'dims'",
    what='The {kind} "{name}" has no dims.',
    where=at_tensor(),
    todo="Write e.g. dims: [ 4 ] into it; -1 for a size that varies. The batch is not among them "
    "where max_batch_size is above 0.",
)
TENSORS.row(
    "bad-dim",
    "model {kind:word} '{name}' dimension must be integer >= 1, or -1",
    what='A size in the dims of {kind} "{name}" is neither 1 or more nor -1.',
    where=at_tensor("dims"),
    todo="Write sizes from 1 up, and -1 for a size that varies.",
)


def _nameless(evidence: Evidence, said: Said) -> str:
    sections = evidence.sections(said["kind"])
    return next((show(field) for field, inner in sections if not inner.text("name")), CONFIG)


TENSORS.row(
    "tensor-without-name",
    "model {kind:word} must specify 'name'",
    what="An {kind} has no name.",
    where=_nameless,
    todo='Write name: "…" into it.',
)
TENSORS.row(
    "reshape-size",
    "model {kind:word} '{name}' has different size for dims and reshape",
    what='dims and reshape of {kind} "{name}" hold different numbers of elements.',
    where=at_tensor("reshape"),
    todo="Let both multiply to the same number, or take reshape out.",
)
TENSORS.row(
    "reshape-size",
    "model {kind:word} '{name}' cannot have empty reshape for non-batching model",
    what='The reshape of {kind} "{name}" is empty, which needs a batch dimension.',
    where=at_tensor("reshape"),
    todo="Set max_batch_size above 0, or take reshape out.",
)
TENSORS.row(
    "reshape-size",
    "model {kind:word} '{name}' reshape dimensions must be integer >= 1, or -1",
    what='A size in the reshape of {kind} "{name}" is neither 1 or more nor -1.',
    where=at_tensor("reshape"),
    todo="Write sizes from 1 up, and -1 for a size that varies.",
)
TENSORS.row(
    "reshape-size",
    "model {kind:word} '{name}' has different number of variable-size dimensions for dims and "
    "reshape",
    what='dims and reshape of {kind} "{name}" have different numbers of -1.',
    where=at_tensor("reshape"),
    todo="Write one -1 in reshape for each -1 in dims.",
)


@TENSORS.rule(
    "tensorrt-only",
    "shape tensors are only supported for TensorRT platform",
    "Non-linear IO format is only supported for the TensorRT platform",
    "profile field which is only supported for TensorRT models",
)
def tensorrt_only(evidence: Evidence, said: Said) -> Advice:
    """Take out what only engines of TensorRT have."""
    fields = ("is_shape_tensor", "is_non_linear_format_io", "profile")
    words = ("shape tensors", "Non-linear", "profile field")
    field = next(f for f, w in zip(fields, words, strict=True) if w in evidence.message)
    found = [f for f in evidence.config.walk() if f.name == field]
    return Advice(
        f"Only engines of TensorRT have {field}.",
        show(found[0]) if found else CONFIG,
        f"Take {field} out.",
    )


TENSORS.row(
    "image-format",
    "model input NHWC/NCHW require 3 dims",
    what="An input with an image format needs three dims.",
    where=at_field("input.format"),
    todo="Take format out: it changes nothing else. Or give the input three dims.",
)

# -- instances -------------------------------------------------------------------------------------


_NO_GPU = "The config asks for a GPU, and this server has none."
#: The OpenVINO backend's own rule; it also makes KIND_CPU the default of its models.
_OPENVINO = "Instances of OpenVINO models are KIND_CPU, also where there is a GPU."


@TENSORS.rule("no-gpu", "has kind KIND_GPU but no GPUs are available")
def no_gpu(evidence: Evidence, said: Said) -> Advice:
    """Leave kind out (a GPU is used where there is one), or write KIND_CPU; TensorRT has no CPU."""
    if evidence.value("backend") == "openvino":
        todo = f"Write KIND_CPU, or leave kind out. {_OPENVINO}"
        return Advice(_NO_GPU, evidence.at("instance_group.kind", "instance_group"), todo)
    names = (evidence.value("backend"), evidence.value("platform"))
    engine = any(name.startswith("tensorrt") for name in names)
    return Advice(
        _NO_GPU,
        evidence.at("instance_group.kind", "instance_group"),
        "An engine runs on GPUs only: serve it on a machine with one. Here, serve the model from "
        "which it was built."
        if engine
        else "Leave kind out (a GPU is used where there is one), or write KIND_CPU.",
    )


@TENSORS.rule("unknown-gpu", "specifies invalid or unsupported gpu id {gpu:int}")
def unknown_gpu(evidence: Evidence, said: Said) -> Advice:
    """Leave `gpus` out, or name one that the server has."""
    known = evidence.message.partition("are: ")[2].split("\n")[0].strip('; "')
    return Advice(
        f"The config asks for GPU {said['gpu']}, and this server has "
        f"{f'only {known}' if known else 'none'}.",
        evidence.at("instance_group.gpus", "instance_group"),
        f"Take gpus out. Write KIND_CPU, or leave kind out. {_OPENVINO}"
        if evidence.value("backend") == "openvino"
        else "Leave gpus and kind out: the server takes what there is.",
    )


TENSORS.row(
    "gpus-on-cpu",
    "has kind KIND_MODEL but specifies one or more GPUs",
    what="With KIND_MODEL the model chooses its device itself, and the instance group names GPUs.",
    where=at_field("instance_group.gpus", "instance_group"),
    todo="Take gpus out, or write kind: KIND_GPU.",
)


@TENSORS.rule("gpus-on-cpu", "has kind KIND_CPU but specifies one or more GPUs")
def gpus_on_cpu(evidence: Evidence, said: Said) -> Advice:
    """Take gpus out, or write KIND_GPU; OpenVINO's instances are KIND_CPU."""
    return Advice(
        "An instance group on the CPU names GPUs.",
        evidence.at("instance_group.gpus", "instance_group"),
        f"Take gpus out. {_OPENVINO}"
        if evidence.value("backend") == "openvino"
        else "Take gpus out, or write kind: KIND_GPU.",
    )


# -- warm-up ---------------------------------------------------------------------------------------

TENSORS.row(
    "warmup-batch",
    "failed to run warmup sample '{sample}': batch size {size:int} for '{name}', max allowed is "
    "{limit:int}",
    what='The warm-up "{sample}" has batches of {size}, and max_batch_size is {limit}.',
    where=at_field("model_warmup.batch_size", "model_warmup"),
    todo="Write batch_size: {limit} or less.",
)
TENSORS.row(
    "warmup-data",
    "warmup setting expects input '{input}' to have input_data_type set",
    what='The warm-up of input "{input}" has no data.',
    where=at_field("model_warmup.inputs.value", "model_warmup"),
    todo='Write zero_data: true, random_data: true or input_data_file: "…" into it.',
)
TENSORS.row(
    "warmup-data",
    "warmup setting expects all variable-size dimensions are specified for input '{input}'",
    what='The warm-up of input "{input}" has -1 in its dims.',
    where=at_field("model_warmup.inputs.value.dims", "model_warmup"),
    todo="Write the size to warm up with.",
)
TENSORS.row(
    "warmup-data",
    "warmup setting expects {expected:int} bytes, but the data provided from {file}only has "
    "{given:int} bytes",
    what="The warm-up's file warmup/{file} has {given} bytes, its dims need {expected}.",
    where=lambda evidence, said: _at_file(evidence, said["file"]),
    todo="Write the array with numpy's tofile(), in the warm-up's data_type and dims; or correct "
    "these.",
)


def _at_file(evidence: Evidence, file: str) -> str:
    """The file of a warm-up, and the place of its name in the config."""
    return f"warmup/{file} ({evidence.at_value(file)})" if file else evidence.at("model_warmup")


@TENSORS.rule(
    "warmup-strings",
    "incomplete string length indicator for inference input '{input}'",
    "incomplete string data for inference input '{input}'",
    "unexpected number of string elements {given:int} for inference input '{input}' for model "
    "'{model}', expecting {wanted:int}",
    "expected {wanted:int} string elements for inference input '{input}' for model '{model}', got "
    "{given:int}",
)
def warmup_strings(evidence: Evidence, said: Said) -> Advice | None:
    """Write a length of 4 bytes before each string: tritonclient.utils.serialize_byte_tensor."""
    name, file, dims = said["input"], "", ""
    for _, warmup in evidence.sections("model_warmup"):
        for field in warmup.all("inputs"):
            if isinstance(field.value, Message) and field.value.text("key") == name:
                for value in field.value.all("value"):
                    if isinstance(value.value, Message):
                        file = value.value.text("input_data_file")
                        numbers = [d.value for d in value.value.all("dims")]
                        dims = ", ".join(d.text for d in numbers if isinstance(d, Scalar))
    if not file:
        return None
    count = f"; dims: [ {dims} ] wants {said['wanted']}" if said.get("wanted") else ""
    given = said.get("given")
    what = (
        f"It holds {given} string{'' if given == '1' else 's'}{count}."
        if given
        else "In a file of strings each string has its length in front, as 4 bytes, and this one "
        "does not."
    )
    return Advice(
        f'The warm-up of input "{name}" cannot be read from warmup/{file}. {what}',
        _at_file(evidence, file),
        "Write the file so: Path(…).write_bytes(serialize_byte_tensor(array).item()), with "
        "tritonclient.utils and array = np.array([b'…'], dtype=np.object_), as many strings as "
        'dims have. By hand: struct.pack("<I", len(b)) + b for each.',
    )


@TENSORS.rule(
    "warmup-input",
    "expected {n:int} inputs but got {m:int} inputs for model '{model}'. Got input(s) "
    "[{got:rest}], but missing required input(s) [{missing:rest}]. Please",
    "inference input '{input}' data-type is '{given}', but model '{model}' expects '{wanted}'",
    "unexpected shape for input '{input}' for model '{model}'. Expected [{wanted:rest}], got "
    "[{given:rest}].",
)
def warmup_input(evidence: Evidence, said: Said) -> Advice | None:
    """Make the warm-up's inputs the model's: names, types and dims."""
    if not evidence.config.root.all("model_warmup"):
        return None
    if "missing" in said:
        missing = said["missing"].strip("'")
        return Advice(
            f'The warm-up lacks the input "{missing}".',
            evidence.at("model_warmup.inputs.key", "model_warmup.inputs", "model_warmup"),
            f'Write inputs {{ key: "{missing}" value {{ … }} }}.',
        )
    if "data-type is" in evidence.message:
        return Advice(
            f'The warm-up gives input "{said["input"]}" as {said["given"]}; it is '
            f"{said['wanted']}.",
            evidence.at("model_warmup.inputs.value.data_type", "model_warmup"),
            f"Write data_type: TYPE_{said['wanted'].replace('BYTES', 'STRING')}.",
        )
    wanted = said["wanted"].split(",")
    batched = evidence.value("max_batch_size", "0") != "0"
    dims = ", ".join(wanted[1:] if batched else wanted)
    return Advice(
        f'The warm-up gives input "{said["input"]}" other dims than the model has.',
        evidence.at("model_warmup.inputs.value.dims", "model_warmup"),
        f"Write dims: [ {dims} ].",
    )
