"""What the server's core refuses in tensors, instance groups and warm-ups."""

from __future__ import annotations

from .evidence import CONFIG, Evidence, show
from .rules import Advice, Catalogue, Said

TENSORS: Catalogue[Evidence] = Catalogue()


@TENSORS.rule("no-data-type", "model {kind:word} '{name}' must specify 'data_type'")
def no_data_type(evidence: Evidence, said: Said) -> Advice:
    """Write data_type, e.g. TYPE_FP32."""
    return Advice(
        f'The {said["kind"]} "{said["name"]}" has no data type.',
        evidence.at_tensor(said["kind"], said["name"]),
        "Write e.g. data_type: TYPE_FP32 into it.",
    )


@TENSORS.rule("no-dims", "model {kind:word} '{name}' must specify 'dims'")
def no_dims(evidence: Evidence, said: Said) -> Advice:
    """Write dims, e.g. [ 4 ], with -1 for a size that varies."""
    return Advice(
        f'The {said["kind"]} "{said["name"]}" has no dims.',
        evidence.at_tensor(said["kind"], said["name"]),
        "Write e.g. dims: [ 4 ] into it; -1 for a size that varies. The batch is not among them "
        "where max_batch_size is above 0.",
    )


@TENSORS.rule("bad-dim", "model {kind:word} '{name}' dimension must be integer >= 1, or -1")
def bad_dim(evidence: Evidence, said: Said) -> Advice:
    """Write sizes from 1 up, and -1 for a size that varies."""
    return Advice(
        f'A size in the dims of {said["kind"]} "{said["name"]}" is neither 1 or more nor -1.',
        evidence.at_tensor(said["kind"], said["name"], "dims"),
        "Write sizes from 1 up, and -1 for a size that varies.",
    )


@TENSORS.rule("tensor-without-name", "model {kind:word} must specify 'name'")
def tensor_without_name(evidence: Evidence, said: Said) -> Advice:
    """Give every input and output a name."""
    for field, section in evidence.sections(said["kind"]):
        if not section.text("name"):
            return Advice(
                f"An {said['kind']} has no name.", show(field), 'Write name: "…" into it.'
            )
    return Advice(f"An {said['kind']} has no name.", CONFIG, 'Write name: "…" into it.')


@TENSORS.rule(
    "reshape-size",
    "model {kind:word} '{name}' has different size for dims and reshape",
    "model {kind:word} '{name}' cannot have empty reshape for non-batching model",
)
def reshape_size(evidence: Evidence, said: Said) -> Advice:
    """Give reshape as many elements as dims."""
    empty = "cannot have empty reshape" in evidence.message
    return Advice(
        f'The reshape of {said["kind"]} "{said["name"]}" is empty, which needs a batch dimension.'
        if empty
        else f'dims and reshape of {said["kind"]} "{said["name"]}" hold different numbers of '
        "elements.",
        evidence.at_tensor(said["kind"], said["name"], "reshape"),
        "Set max_batch_size above 0, or take reshape out."
        if empty
        else "Let both multiply to the same number, or take reshape out.",
    )


@TENSORS.rule("image-format", "model input NHWC/NCHW require 3 dims")
def image_format(evidence: Evidence, said: Said) -> Advice:
    """Take `format` out, or give three dims."""
    return Advice(
        "An input with an image format needs three dims.",
        evidence.at("input.format"),
        "Take format out: it changes nothing else. Or write dims: [ 3, 224, 224 ].",
    )


# -- instances -------------------------------------------------------------------------------------


@TENSORS.rule("no-gpu", "has kind KIND_GPU but no GPUs are available")
def no_gpu(evidence: Evidence, said: Said) -> Advice:
    """Leave `kind` out: the server takes a GPU where there is one."""
    return Advice(
        "The config asks for a GPU, and this server has none.",
        evidence.at("instance_group.kind", "instance_group"),
        "Leave kind out (a GPU is used where there is one), or write KIND_CPU.",
    )


@TENSORS.rule("unknown-gpu", "specifies invalid or unsupported gpu id {gpu:int}")
def unknown_gpu(evidence: Evidence, said: Said) -> Advice:
    """Leave `gpus` out, or name one that the server has."""
    known = evidence.message.partition("are: ")[2].split("\n")[0].strip('; "')
    return Advice(
        f"The config asks for GPU {said['gpu']}, and this server has "
        f"{f'only {known}' if known else 'none'}.",
        evidence.at("instance_group.gpus", "instance_group"),
        "Leave gpus and kind out: the server takes what there is.",
    )


@TENSORS.rule("gpus-on-cpu", "has kind KIND_CPU but specifies one or more GPUs")
def gpus_on_cpu(evidence: Evidence, said: Said) -> Advice:
    """Take `gpus` out, or write KIND_GPU."""
    return Advice(
        "An instance group on the CPU names GPUs.",
        evidence.at("instance_group.gpus", "instance_group"),
        "Take gpus out, or write kind: KIND_GPU.",
    )


# -- warm-up ---------------------------------------------------------------------------------------


@TENSORS.rule(
    "warmup-batch",
    "failed to run warmup sample '{sample}': batch size {size:int} for '{name}', max allowed is "
    "{limit:int}",
)
def warmup_batch(evidence: Evidence, said: Said) -> Advice:
    """Warm up with at most max_batch_size."""
    return Advice(
        f'The warm-up "{said["sample"]}" has batches of {said["size"]}, and max_batch_size is '
        f"{said['limit']}.",
        evidence.at("model_warmup.batch_size", "model_warmup"),
        f"Write batch_size: {said['limit']} or less.",
    )


@TENSORS.rule(
    "warmup-data",
    "warmup setting expects input '{input}' to have input_data_type set",
    "warmup setting expects all variable-size dimensions are specified for input '{input}'",
    "warmup setting expects {expected:int} bytes, but the data provided from {file} has "
    "{given:int} bytes",
)
def warmup_data(evidence: Evidence, said: Said) -> Advice:
    """Give a warm-up input zero_data, random_data or a file, and dims without -1."""
    if said.get("expected"):
        return Advice(
            f"A warm-up's data file has {said['given']} bytes, its dims need {said['expected']}.",
            evidence.at("model_warmup.inputs.value.input_data_file", "model_warmup"),
            "Write the array with numpy's tofile(), in the config's data_type and dims.",
        )
    if "variable-size" in evidence.message:
        return Advice(
            f'The warm-up of input "{said["input"]}" has -1 in its dims.',
            evidence.at("model_warmup.inputs.value.dims", "model_warmup"),
            "Write the size to warm up with.",
        )
    return Advice(
        f'The warm-up of input "{said["input"]}" has no data.',
        evidence.at("model_warmup.inputs.value", "model_warmup"),
        'Write zero_data: true, random_data: true or input_data_file: "…" into it.',
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
    if not said.get("input"):
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
