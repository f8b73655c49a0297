"""What the framework backends refuse: a config that does not fit the model, a broken model file.

The messages are those of NVIDIA's backends (triton-inference-server/backend, onnxruntime_backend,
pytorch_backend, tensorflow_backend, openvino_backend, fil_backend, dali_backend); this course's
stand-ins send the same messages.

The docstring of each rule is the advice of its entry.
"""

from __future__ import annotations

import re

from . import formats
from .evidence import CONFIG, Evidence, at_field, at_input
from .rules import Advice, Catalogue, Said, listed, near

FRAMEWORKS: Catalogue[Evidence] = Catalogue()
#: These entries are tried last, when no other entry explains the message.
OTHERS: Catalogue[Evidence] = Catalogue()


@FRAMEWORKS.rule(
    "tensor-data-type",
    "configuration expects datatype {config:word} for {kind:word} '{name}', model provides "
    "{model:word}",
    'Mismatch of data_type config for "{name}"',
    "incorrect type {config:word} for '{name}' with required type {model:word}",
)
def tensor_data_type(evidence: Evidence, said: Said) -> Advice:
    """Write the data type that the model has."""
    name = said["name"]
    kind = said.get("kind", "") or _kind(evidence, name)
    model = said.get("model", "") or _after(evidence.message, "Data type defined in pipeline: ")
    config = said.get("config", "") or _after(evidence.message, "Data type defined in config: ")
    right = model.rstrip(";,.")
    right = right if right.startswith("TYPE_") else f"TYPE_{right}"
    right = right.replace("TYPE_BYTES", "TYPE_STRING")
    if evidence.frame() is not None:  # a Python model, in its auto_complete_config
        return Advice(
            f'config.pbtxt gives {kind} "{name}" as {config}, auto_complete_config as {right}.',
            evidence.at_tensor(kind, name, "data_type"),
            f"Write data_type: {right}, or change {evidence.at_frame()}.",
        )
    halved = (right, config) == ("TYPE_FP16", "TYPE_FP32") and _is_onnx(evidence)
    return Advice(
        f'The config gives {kind} "{name}" as {config}, the model has {right}.',
        evidence.at_tensor(kind, name, "data_type"),
        f"Write data_type: {right}." + (_stay_fp32(evidence, kind, name) if halved else ""),
    )


def _stay_fp32(evidence: Evidence, kind: str, name: str) -> str:
    """How an ONNX model that was converted to fp16 keeps a tensor in fp32.

    Inputs are compared first. Where they are fp32, the file was converted with keep_io_types.
    """
    inputs = [section.text("data_type") for _, section in evidence.sections("input")]
    if kind == "output" and "TYPE_FP32" in inputs:
        return (
            f' Or let it stay fp32, as the input did: a node in node_block_list that makes "{name}"'
            " undoes keep_io_types=True for it. Take that node out of the list, and convert the "
            "fp32 model again."
        )
    return (
        " Or convert the fp32 model again with keep_io_types=True: inputs and outputs then stay "
        "fp32, and this config fits."
    )


@FRAMEWORKS.rule(
    "fixed-batch",
    "tensor '{name}': for the model to support batching the shape should have at least 1 "
    "dimension and the first dimension must be -1; but shape expected by the model is "
    "[{model:rest}]",
    "model does not support batching while non-zero max_batch_size is specified",
    "configuration specified max-batch {size:int} but model signature does not support batching",
    "tensor '{name}': for the model to support batching the shape should have at least 1 dimension",
)
def fixed_batch(evidence: Evidence, said: Said) -> Advice:
    """Export the model with a variable first dimension, or set max_batch_size to 0."""
    name, model = said.get("name", ""), said.get("model", "")
    shape = [d.strip() for d in model.partition("]")[0].split(",") if d.strip()]
    fixed = f" (its {name} is [{','.join(shape)}])" if shape else ""
    whole = f" and dims: [ {', '.join(shape)} ]" if shape else ""
    export = (
        " (torch.onnx.export: dynamic_shapes, or dynamic_axes where dynamo is False)"
        if _is_onnx(evidence)
        else ""
    )
    rows = f"exactly {shape[0]} row{'' if shape[0] == '1' else 's'}" if shape else "its own size"
    return Advice(
        f"max_batch_size is above 0, and the model has a fixed batch{fixed}.",
        evidence.at("max_batch_size"),
        f"Export the model with a variable first dimension{export}. Or write max_batch_size: 0"
        f"{whole} (the batch included): that gives up batching, and each request must have {rows}.",
    )


@FRAMEWORKS.rule(
    "bounded-dims",
    "tensor '{name}': the model expects {n:int} dimensions (shape [{model:dims}]) but the model "
    "configuration specifies {m:int} dimensions ({how:rest} [{config:dims}]); {bounds:rest}",
)
def bounded_dims(evidence: Evidence, said: Said) -> Advice | None:
    """Write a number between the bounds, or export the model without them."""
    bounds = re.findall(r"dimension (\d+) has the bounds (\d+)\.\.(\d+)", said["bounds"])
    shape = [d.strip() for d in said["model"].split(",")]
    numbers = []
    for place, least, most in bounds:
        if int(most) - int(least) > 1:
            numbers.append(f"dimension {place} may be {int(least) + 1} to {int(most) - 1}")
            shape[int(place)] = str(int(most) - 1)
    if not bounds:
        return None
    name, kind = said["name"], _kind(evidence, said["name"])
    batched = evidence.value("max_batch_size", "0") not in ("0", "")
    dims = ", ".join(shape[1:] if batched else shape)
    limits = listed(f"dimension {place} is {least} to {most}" for place, least, most in bounds)
    todo = "Export the model without the bounds: no number lies between them."
    if len(numbers) == len(bounds):
        todo = (
            f"Write a number between the bounds ({listed(numbers)}), e.g. dims: [ {dims} ]; "
            "answers keep the size that the model gives them. Or export the model without the "
            "bounds."
        )
    return Advice(
        f'{kind} "{name}" of the model has a dimension with bounds: {limits}. OpenVINO\'s backend '
        "takes neither -1 nor a bound for it.",
        evidence.at_tensor(kind, name, "dims"),
        todo,
    )


@FRAMEWORKS.rule(
    "tensor-dims",
    "tensor '{name}': the model expects {n:int} dimensions (shape [{model:rest}]) but the model "
    "configuration specifies {m:int} dimensions ({how:rest} [{config:rest}])",
    "tensor '{name}': the model expects dims [{model:rest}] but the model configuration specifies "
    "dims [{config:rest}]",
    "tensor '{name}': the model expects shape [{model:rest}] but the model configuration "
    "specifies shape [{config:rest}]",
    'Mismatch in number of dimensions for "{name}"',
    "{name:word} has dims [{config:rest}], but the model has {features:int} features",
)
def tensor_dims(evidence: Evidence, said: Said) -> Advice:
    """Write the model's dims, without the batch where max_batch_size is above 0."""
    name = said["name"]
    kind = _kind(evidence, name)
    written = evidence.dims(kind, name)
    batched = evidence.value("max_batch_size", "0") not in ("0", "")
    features = said.get("features", "")
    if features and not batched and len(written) < 2:
        return Advice(
            f'max_batch_size is 0, so the dims of "{name}" must begin with the batch, and '
            f"[ {', '.join(written)} ] do not.",
            evidence.at("max_batch_size")
            if evidence.value("max_batch_size")
            else evidence.at_tensor(kind, name, "dims"),
            "Write a max_batch_size above 0, e.g. max_batch_size: 64, with "
            f"dims: [ {features} ]; or keep 0 and write dims: [ -1, {features} ].",
        )
    if features:
        return Advice(
            f'The config gives "{name}" dims [ {", ".join(written)} ], the model has '
            f"{features} features.",
            evidence.at_tensor(kind, name, "dims"),
            f"Write dims: [ {features if batched else f'{written[0]}, {features}'} ].",
        )
    if not said.get("model"):
        wanted = _after(evidence.message, "Number of dimensions defined in pipeline: ")
        return Advice(
            f'The config gives {kind} "{name}" {len(written)} dims, the pipeline {wanted}.',
            evidence.at_tensor(kind, name, "dims"),
            f"Write {wanted} dims (the batch is not among them).",
        )
    shape = [d.strip() for d in said["model"].partition("]")[0].split(",") if d.strip()]
    if not written and evidence.value("backend") == "openvino":
        whole = [*(["-1"] if batched else []), *(shape[1:] if batched else shape)]
        return Advice(
            f'config.pbtxt does not name the tensor "{name}". OpenVINO\'s backend completes it '
            "with -1 for every dimension where one of them is variable, and then refuses that: "
            f"the model has [ {', '.join(whole)} ].",
            "config.pbtxt",
            f'Write {{ name: "{name}" data_type: TYPE_… dims: '
            f"[ {', '.join(shape[1:] if batched else shape)} ] }} into input or "
            "output, and the other tensors too. Or export the model without variable dimensions.",
        )
    right = shape[1:] if batched and "dims [" not in evidence.message else shape
    where = evidence.at_tensor(kind, name, "dims")
    if shape == ["-1"] and (not right or len(written) > 1 or written == ["1"]):
        return _one_number_a_row(kind, name, written, where, batched=batched)
    if not batched and written == shape[1:]:
        return Advice(
            f'max_batch_size is 0, so the dims of {kind} "{name}" must begin with the batch, and '
            f"[ {', '.join(written)} ] do not: the model has [ {', '.join(shape)} ].",
            where,
            f"Write dims: [ {', '.join(shape)} ]"
            + (
                ", and the batch in front of the other tensors too; or a max_batch_size above 0, "
                f"with which [ {', '.join(written)} ] is right."
                if shape[0] == "-1"
                else "."
            ),
        )
    with_batch = len(written) == len(right) + 1 and written[1:] == right
    return Advice(
        f'dims of {kind} "{name}" hold the batch as well, and max_batch_size is '
        f"{evidence.value('max_batch_size')}."
        if with_batch
        else f'dims of {kind} "{name}" are [ {", ".join(written)} ], the model has '
        f"[ {', '.join(right)} ]" + (" (and the batch in front)." if batched else "."),
        where,
        f"Write dims: [ {', '.join(right)} ]."
        + (" Triton puts the batch in front by itself." if with_batch else ""),
    )


def _one_number_a_row(
    kind: str, name: str, written: list[str], where: str, *, batched: bool
) -> Advice:
    """What to do where a model's tensor is [batch] alone, and the config has more dimensions."""
    asked, gives = ", ".join((["-1"] if batched else []) + written), kind == "output"
    return Advice(
        f'In the model\'s file {kind} "{name}" is [ -1 ]: the batch alone, one value a row. '
        f"The config describes it as [ {asked} ]"
        + (" (the batch of max_batch_size in front)." if batched else "."),
        where,
        f"One of them has to change. The file: let {name} be [ -1, 1 ]"
        + (", e.g. by x[:, 1:2] in place of x[:, 1], or by unsqueeze(1)" if gives else "")
        + ", and export it again"
        + (" (with dims: [ 1 ])." if batched and written != ["1"] else ".")
        + " Or the config: write "
        + ("dims: [ 1 ] reshape { shape: [ ] }." if batched else "dims: [ -1 ]."),
    )


@FRAMEWORKS.rule(
    "other-signature",
    "unexpected inference {kind:word} '{name}', allowed {kinds:word} are: {allowed:rest} "
    "('{same:word}' is in the signature '{signature}')",
)
def other_signature(evidence: Evidence, said: Said) -> Advice:
    """Choose the signature with TF_SIGNATURE_DEF."""
    return Advice(
        f'The signature that is served has no {said["kind"]} "{said["name"]}"; the signature '
        f'"{said["signature"]}" of the same file has it.',
        evidence.at_tensor(said["kind"], said["name"], "name"),
        f'Write parameters {{ key: "TF_SIGNATURE_DEF" value: {{ string_value: '
        f'"{said["signature"]}" }} }}.',
    )


@FRAMEWORKS.rule(
    "unknown-signature",
    "unable to load model '{model}', expected '{name}' signature{words:rest}",
)
def unknown_signature(evidence: Evidence, said: Said) -> Advice:
    """Name a signature that the SavedModel has."""
    names = said["words"].partition("the file has ")[2].rstrip('";. ').split(", ")
    there = [name for name in names if name]
    meant = near(said["name"], there) or (there[0] if len(there) == 1 else "")
    todo = "List them: saved_model_cli show --dir DIR --tag_set serve."
    if meant:
        todo = f'Write string_value: "{meant}".'
    elif there:
        todo = f"Write one of {listed(there, 'or')}."
    return Advice(
        f'The SavedModel has no signature "{said["name"]}"'
        + (f"; it has {listed(there)}." if there else "."),
        evidence.at_parameter("TF_SIGNATURE_DEF"),
        todo,
    )


@FRAMEWORKS.rule(
    "tensor-name",
    "unexpected inference {kind:word} '{name}', allowed {kinds:word} are: {allowed:rest}",
)
def tensor_name(evidence: Evidence, said: Said) -> Advice:
    """Write the name that the model has."""
    names = [n.strip() for n in said["allowed"].rstrip('";. ').split(",")]
    meant = near(said["name"], names) or (names[0] if len(names) == 1 else "")
    return Advice(
        f'The model has no {said["kind"]} "{said["name"]}"; it has {listed(names)}.',
        evidence.at_tensor(said["kind"], said["name"], "name"),
        f'Write name: "{meant}".' if meant else f"Write one of {listed(names, 'or')}.",
    )


FRAMEWORKS.row(
    "pipeline-input",
    "Configuration file contains config for {name:word} but such input is not present in the "
    "pipeline. {rest:rest}",
    what='The pipeline has no input "{name}".',
    where=at_input("name"),
    todo="Write the name= that the pipeline's fn.external_source has.",
)
FRAMEWORKS.row(
    "pipeline-input",
    'Missing config for "{name}" input',
    what='The pipeline has an input "{name}" that the config lacks.',
    where=at_field("input"),
    todo='Write an input with name: "{name}".',
)


@FRAMEWORKS.rule(
    "pipeline-tensor",
    'Missing data_type config for "{name}"',
    'Missing dims config for "{name}"',
)
def pipeline_tensor(evidence: Evidence, said: Said) -> Advice:
    """Write data_type and dims of each input and output, or declare them in the pipeline."""
    name = said["name"]
    kind = next((k for k in ("input", "output") if name in evidence.tensor_names(k)), "")
    if not kind:
        return _tensor_not_in_config(evidence, name)
    lacks, example = "data_type", "" if evidence.dims(kind, name) else ", and its dims"
    if f'Missing dims config for "{name}"' in evidence.message:
        lacks, example = "dims", ", e.g. dims: [ -1 ]"
    return Advice(
        f'Neither the config nor the pipeline gives the {lacks} of {kind} "{name}".',
        evidence.at_tensor(kind, name),
        f"Write its {lacks} there{example}. {_declare(kind)}",
    )


def _tensor_not_in_config(evidence: Evidence, name: str) -> Advice:
    """What to do about an input or output of a DALI pipeline that the config does not have."""
    outputs, inputs = (evidence.tensor_names(kind) for kind in ("output", "input"))
    if " of pipeline_def)" in evidence.message:  # this course's stand-in says which it is
        is_output = True
    elif " of fn.external_source)" in evidence.message:
        is_output = False
    else:  # DALI gives outputs names that begin with __; inputs are looked at first
        is_output = name.startswith("__") or bool(inputs and not outputs)
    if not is_output:
        return Advice(
            f'The config lacks the pipeline\'s input "{name}", and the pipeline declares no type.',
            evidence.at("input"),
            f'Write input [ {{ name: "{name}" data_type: TYPE_… dims: [ … ] }} ]. '
            + _declare("input"),
        )
    return Advice(
        f'The config has no output for what the pipeline returns (DALI calls it "{name}"), and '
        "the pipeline declares no type.",
        evidence.at("output"),
        'Write output [ { name: "…" data_type: TYPE_… dims: [ … ] } ], with a name of your own. '
        + _declare("output"),
    )


def _declare(kind: str) -> str:
    where = "pipeline_def" if kind == "output" else "its fn.external_source"
    keys = "output_dtype and output_ndim" if kind == "output" else "dtype and ndim"
    return f"Or write {keys} into {where}, and serialize the pipeline again."


@FRAMEWORKS.rule("broken-pipeline", "{file:word} is not a serialized pipeline: {words:text}")
def broken_pipeline(evidence: Evidence, said: Said) -> Advice:
    """Serialize the pipeline again; a file that ends too early is copied again."""
    words, file = said["words"], f"{evidence.version}/{said['file']}"
    again = "Serialize the pipeline again: pipeline().serialize(filename=…)."
    if words.startswith("it ends "):
        again = f"Copy it again, and compare its size with the original's. {again}"
    return Advice(f"{said['file']} cannot be read as a serialized pipeline: {words}.", file, again)


FRAMEWORKS.row(
    "pipeline-program",
    "{file:word} did not serialize: {words:text}",
    what="{file} does not give a pipeline: {words}.",
    where="{version}/{file}",
    todo="Mend it, and run it alone before you load the model again. It needs one function with "
    "@autoserialize above @pipeline_def.",
)
FRAMEWORKS.row(
    "number-of-tensors",
    "The number of outputs specified in the DALI pipeline and the configuration file do not match",
    what="The config and the pipeline have different numbers of outputs.",
    where=at_field("output"),
    todo="Write one output for each that the pipeline returns, in its order.",
)


@FRAMEWORKS.rule(
    "number-of-tensors", "configuration expects {config:int} inputs, model provides {model:rest}"
)
def number_of_tensors(evidence: Evidence, said: Said) -> Advice:
    """List every input of the model."""
    provides = said["model"].removeprefix("at most ").rstrip("; ")
    what = (
        f"The config has {said['config']} inputs ({listed(evidence.tensor_names('input'))}), the "
        f"model has {provides}."
    )
    if "pytorch" in evidence.value("backend") + evidence.value("platform"):
        file = f"{evidence.version}/{evidence.value('default_model_filename', 'model.pt')}"
        return Advice(
            what,
            f"{evidence.at('input')}; {file}, forward{formats.forward(evidence.folder / file)}",
            "Write one input for each argument of forward(), also for those with a default, by "
            "their names or as NAME__0, NAME__1. Or write forward() with fewer arguments.",
        )
    return Advice(
        what,
        evidence.at("input"),
        "List every input of the model once; leave input and output out altogether, and the "
        "server fills them in from the model.",
    )


@FRAMEWORKS.rule(
    "unsupported-data-type",
    "unsupported datatype {type:word} for {kind:word} '{name}' for model",
    "unsupported datatype '{type}' for tensor '{name}' for model",
)
def unsupported_data_type(evidence: Evidence, said: Said) -> Advice:
    """Write a data type that the backend knows."""
    kind = said.get("kind", "") or _kind(evidence, said["name"])
    return Advice(
        f'The backend cannot take {said["type"]} for {kind} "{said["name"]}".',
        evidence.at_tensor(kind, said["name"], "data_type"),
        "Write the type that the model itself has, e.g. TYPE_FP32.",
    )


@FRAMEWORKS.rule(
    "torch-names",
    "{kind:word} '{name}' does not follow <name>__<index> naming convention",
    "The output {name:word} in the model configuration refers to an output index which doesn't "
    "exist",
    "using sequence batching with state but state '{name}' does not follow",
)
def torch_names(evidence: Evidence, said: Said) -> Advice:
    """Name inputs as forward() does or NAME__0, NAME__1; outputs NAME__0, NAME__1."""
    name = said["name"].rstrip(",.")
    kind = said.get("kind", "").lower()
    kind = kind if kind in ("input", "output") else _kind(evidence, name)
    stem = re.sub(r"_*\d*$", "", name) or kind
    names = evidence.tensor_names(kind)
    index = names.index(name) if name in names else 0
    return Advice(
        f'PyTorch cannot tell which {kind} of forward() "{name}" is.',
        evidence.at_tensor(kind, name, "name"),
        f'Write name: "{stem}__{index}" (two underscores): the number counts from 0.'
        + (" An input may also have the name of forward()'s argument." if kind == "input" else ""),
    )


@FRAMEWORKS.rule("torch-names", "forward() takes arguments 0 to {last:int}, but {given:rest}")
def torch_numbers(evidence: Evidence, said: Said) -> Advice | None:
    """Number the inputs from 0, as forward() has its arguments."""
    given = {name: int(n) for name, n in re.findall(r"'([^']+)' is argument (\d+)", said["given"])}
    count = int(said["last"]) + 1
    free = [n for n in range(count) if n not in given.values()]
    wrong = [name for name, n in given.items() if n >= count or [*given.values()].count(n) > 1]
    if not wrong or not free:
        return None
    name = wrong[-1]
    arguments = "one argument, number 0" if count == 1 else f"{count} arguments, from number 0"
    return Advice(
        f'forward() has {arguments}; the config gives "{name}" number {given[name]}.',
        evidence.at_tensor("input", name, "name"),
        f'Write name: "{name.rpartition("__")[0]}__{free[0]}".',
    )


@FRAMEWORKS.rule(
    "fil-names",
    "unexpected inputs {names:rest}: the backend reads '{name}'",
    "No {kind:word} with name {name:word} in configuration",
    "the backend has no output '{other}': only {name:word}",
)
def fil_names(evidence: Evidence, said: Said) -> Advice:
    """Name the tensors input__0 and output__0 (and treeshap_output)."""
    name, other = said["name"].rstrip("."), said.get("other", "")
    if other:
        names = evidence.tensor_names("output")
        meant = "treeshap_output" if "output__0" in names else name
        return Advice(
            f'FIL has no output "{other}": it has output__0 and treeshap_output.',
            evidence.at_tensor("output", other, "name"),
            f'Write name: "{meant}", or take this output out.',
        )
    kind = "input" if name.startswith("input") else "output"
    return Advice(
        f"FIL knows one {kind} by the name of {name}.",
        evidence.at(f"{kind}.name", kind),
        f'Write name: "{name}" (two underscores).',
    )


@FRAMEWORKS.rule(
    "fil-output-dims",
    "{name:word} has dims [{dims:rest}], but with predict_proba {proba:id} and output_class "
    "{classes:id} this model ({scores}) gives {n:int} value",
)
def fil_output_dims(evidence: Evidence, said: Said) -> Advice:
    """Write as dims the number of values that the model gives per row, or set predict_proba."""
    name, n = said["name"], said["n"]
    dims = ", ".join(evidence.dims("output", name))
    gives = f"the model gives {n} value{'' if n == '1' else 's'} a row"
    for key, value in (("predict_proba", said["proba"]), ("output_class", said["classes"])):
        if misspelt := evidence.parameter_like(key):
            return Advice(
                f"FIL has no parameter {misspelt} and passes over it. So {key} is {value}, "
                f'and {gives}; "{name}" has dims [ {dims} ].',
                evidence.at_parameter(misspelt),
                f'Write key: "{key}" in place of "{misspelt}".',
            )
    return Advice(
        f'"{name}" has dims [ {dims} ], but with predict_proba {said["proba"]} and output_class '
        f"{said['classes']} {gives}.",
        evidence.at_tensor("output", name, "dims"),
        f"Write dims: [ {n} ]"
        + ('; for probabilities set predict_proba to "true".' if said["proba"] == "false" else "."),
    )


@FRAMEWORKS.rule(
    "fil-shap-dims",
    "treeshap_output has dims [{dims:dims}], but it holds {held}: write dims: [{right:dims}]",
)
def fil_shap_dims(evidence: Evidence, said: Said) -> Advice:
    """Write one value per feature and one for the bias."""
    return Advice(
        f"treeshap_output has dims [ {said['dims']} ], and it holds {said['held']}.",
        evidence.at_tensor("output", "treeshap_output", "dims"),
        f"Write dims: [ {said['right']} ].",
    )


@FRAMEWORKS.rule(
    "fil-format",
    "model_type is {kind:word}, but {file:word} is written as {written:id}",
)
def fil_format(evidence: Evidence, said: Said) -> Advice:
    """Write the model_type that the file has, or save the model in the format meant."""
    kind, file, written = said["kind"], said["file"], said["written"]
    names = {
        "xgboost": "XGBoost's old binary",
        "xgboost_json": "XGBoost's JSON",
        "xgboost_ubj": "XGBoost's UBJSON",
        "lightgbm": "LightGBM's text",
        "treelite_checkpoint": "Treelite's checkpoint",
    }
    usual = _after(evidence.message, "and name the file ").rstrip(".")
    return Advice(
        f"{file} is not in {names.get(kind, kind)} format (model_type {kind}); it is in "
        f"{names.get(written, written)} format.",
        f"{evidence.version}/{file}",
        f'Write model_type "{written}"'
        + (f" and rename the file to {usual}" if usual and usual != file else "")
        + f"; or save the model that you mean as {names.get(kind, kind)} format.",
    )


#: What to write for a FIL parameter that the config lacks.
_REQUIRED = {
    "output_class": '"true" for a classifier, "false" for a model that gives a number',
    "threshold": 'the score above which a row is of class 1, e.g. "0.5"',
    "model_type": "the format of the model's file: xgboost_json, xgboost_ubj, lightgbm or "
    "treelite_checkpoint",
}


@FRAMEWORKS.rule(
    "required-parameter",
    "Required parameter {key:word} not found in config",
    "Missing {key:word} field in model configuration",
)
def required_parameter(evidence: Evidence, said: Said) -> Advice:
    """Write the parameter."""
    key = said["key"]
    if key == "max_batch_size":
        todo = "Write the largest batch that the model shall take, e.g. max_batch_size: 64."
        return Advice("The config has no max_batch_size.", evidence.at("backend"), todo)
    if misspelt := evidence.parameter_like(key):
        return Advice(
            f"The config lacks the parameter {key}; it has {misspelt}.",
            evidence.at_parameter(misspelt),
            f'Write key: "{key}" in place of "{misspelt}".',
        )
    meaning = f": {_REQUIRED[key]}" if key in _REQUIRED else ""
    return Advice(
        f"The config lacks the parameter {key}.",
        evidence.at("parameters", "backend"),
        f'Write parameters {{ key: "{key}" value {{ string_value: "…" }} }}{meaning}.',
    )


@FRAMEWORKS.rule(
    "gpu-operators", "it has operators for a GPU and this instance has none: {operators:rest}"
)
def gpu_operators(evidence: Evidence, said: Said) -> Advice:
    """Build the pipeline with device_id=None and device="cpu", and serialize it again."""
    operators = said["operators"].partition(". ")[0]
    return Advice(
        f"The DALI pipeline has operators for a GPU, and this instance has none: {operators}.",
        f"{evidence.version}/",
        'Write device_id=None in pipeline_def and device="cpu" in every operator, and serialize '
        "it again.",
    )


FRAMEWORKS.row(
    "gpu-operators",
    "Error while instantiating DALI pipeline: {words:text}",
    what="DALI cannot build the pipeline: {words}.",
    where="{version}/",
    todo="Build and run the pipeline in a notebook first, then serialize it again.",
)
FRAMEWORKS.row(
    "needs-gpu",
    "TensorRT backend supports only GPU device",
    what="TensorRT needs an NVIDIA GPU, and this instance has none.",
    where=at_field("backend", "platform"),
    todo='Serve the ONNX model itself here (platform: "onnxruntime_onnx" or backend: "openvino"); '
    "build the engine on the GPU that shall run it.",
)
FRAMEWORKS.row(
    "needs-gpu",
    "unable to load model '{model}', TensorRT-LLM runs on NVIDIA GPUs only",
    "TensorRT-LLM runs on NVIDIA GPUs only",
    what="TensorRT-LLM needs an NVIDIA GPU, and this instance has none.",
    where=at_field("backend", "platform"),
    todo='Serve the language model with backend: "vllm" or "python" here.',
)
FRAMEWORKS.row(
    "needs-cpu",
    "Triton openVINO backend supports only CPU device",
    what="The OpenVINO backend runs on the CPU only.",
    where=at_field("instance_group.kind", "instance_group", "backend"),
    todo="Write instance_group [ { kind: KIND_CPU } ].",
)
FRAMEWORKS.row(
    "engine-elsewhere",
    "unable to create TensorRT engine",
    "failed to deserialize cuda engine",
    what="The TensorRT engine was built for another GPU or another version of TensorRT.",
    where="{version}/",
    todo="Build it again with trtexec on this GPU, with the TensorRT of this server.",
)


@FRAMEWORKS.rule(
    "unknown-accelerator",
    "unknown Execution Accelerator '{name}' is requested",
    "unknown parameter '{name}' is provided for TensorRT Execution Accelerator",
)
def unknown_accelerator(evidence: Evidence, said: Said) -> Advice:
    """Name an accelerator that the backend has."""
    meant = near(said["name"], ("tensorrt", "cuda", "openvino", "auto_mixed_precision"))
    meant = meant if meant != said["name"] else ""
    return Advice(
        f'The backend does not know "{said["name"]}" among its accelerators.',
        evidence.at("optimization.execution_accelerators", "optimization"),
        f'Write name: "{meant}".'
        if meant
        else "ONNX Runtime knows openvino on the CPU, tensorrt and cuda on the GPU.",
    )


_CONTROL = 'Export the model with an input "{name}" of shape [-1, 1], or take this control out.'
FRAMEWORKS.row(
    "sequence-control",
    "configuration specified sequence control '{name}', but model does not provide that input",
    what='The model has no input "{name}", which the sequence batcher would fill.',
    where=at_input(),
    todo=_CONTROL,
)
FRAMEWORKS.row(
    "sequence-control",
    "sequence control '{name}' in model has dims [{dims:dims}] but dims [1] is expected",
    "sequence control '{name}', the model expects data-type {model:word} but the model "
    "configuration specifies data-type {config:word}",
    what='The model takes the control "{name}" in another shape or type.',
    where=at_input(),
    todo=_CONTROL,
)
FRAMEWORKS.row(
    "special-input",
    "input with shape [-1]  for ragged input '{name}'",
    what='The input "{name}" cannot be ragged in this model.',
    where=at_input("allow_ragged_batch"),
    todo="Take allow_ragged_batch out.",
)
FRAMEWORKS.row(
    "special-input",
    "optional input '{name}' is not supported for models that support batching",
    "'optional' is set to true for input '{name}' while",
    what='The input "{name}" cannot be optional in this model.',
    where=at_input("optional"),
    todo="Take optional out.",
)


FRAMEWORKS.row(
    "no-openvino-weights",
    "Empty weights data in bin file or bin file cannot be found",
    what="OpenVINO's weights are missing: model.bin is not there, or empty.",
    where="{version}/",
    todo="Copy model.bin, which ov.save_model wrote beside model.xml, into the version folder.",
)
FRAMEWORKS.row(
    "no-forward",
    "Method 'forward' is not defined",
    what="The TorchScript module has no forward().",
    where="{version}/",
    todo="Look whether forward is indented as a method of the class; script the module again.",
)
FRAMEWORKS.row(
    "onnx-format-too-new",
    "Unsupported model IR version: {given:int}, max supported IR version: {most:int}",
    what="The model's file has version {given} of the ONNX format. This ONNX Runtime reads up to "
    "version {most}.",
    where="{version}/",
    todo="Read the file with onnx.load, set ir_version to {most}, save it, and compare the "
    "answers. Or take a server with a newer ONNX Runtime.",
)
FRAMEWORKS.row(
    "onnx-operators-too-new",
    "Opset {given:int} is under development and support for this is limited.",
    what="The model's operators are of opset {given}, which this ONNX Runtime does not have yet.",
    where="{version}/",
    todo="Export it again with an older one: torch.onnx.export(…, opset_version=18). Or take a "
    "server with a newer ONNX Runtime.",
)

_ONE_TYPE = (
    "A conversion to another precision has left something behind: a weight, a Cast, or the "
    "declared type of a tensor. onnx.checker.check_model(model, full_check=True) finds the same; "
    "convert the fp32 model once more as a whole (onnxconverter_common.float16). Where operators "
    "were kept in fp32 on purpose (op_block_list, node_block_list), one that belongs to them was "
    "not: the message names the node; block its operator as well. Where inputs and outputs stay in "
    "fp32, the call needs keep_io_types=True."
)
FRAMEWORKS.row(
    "onnx-types-differ",
    "Type Error: Type parameter ({parameter:word}) of Optype ({operator:word}) bound to different "
    "types (tensor({one:word}) and tensor({two:word}) in node ({node:rest}",
    what="The graph is not consistent: an operator {operator} takes tensor({one}) and "
    "tensor({two}) at once, and all of these must be of one type.",
    where="{version}/",
    todo=_ONE_TYPE,
)
FRAMEWORKS.row(
    "onnx-types-differ",
    "Type Error: Type (tensor({one:word})) of output arg ({name:word}) of node ({node:rest}",
    what="The graph is not consistent: the tensor {name} is declared as tensor({one}), and the "
    "node that makes it gives another type.",
    where="{version}/",
    todo=_ONE_TYPE,
)


@FRAMEWORKS.rule("openvino-error", "openvino error in {doing} : {words:rest}")
def openvino_error(evidence: Evidence, said: Said) -> Advice:
    """Read OpenVINO's last sentence; the lines before it say where in OpenVINO it arose."""
    start = evidence.message.index(said["words"])
    lines = evidence.message[start:].partition("\n\n")[0].splitlines()
    arose = re.compile(r"^(Exception from |Check '.* failed at )\S+:\d+:$|^\s*$")
    reasons = [line.strip(' ;"') for line in lines if not arose.match(line)]
    reason = reasons[-1] if reasons else said["words"].strip(' ;:"')
    doing = said["doing"].strip()
    if doing == "reading model":
        file = evidence.value("default_model_filename", "model.xml")
        return Advice(
            f"OpenVINO cannot read {evidence.version}/{file}: {reason}",
            f"{evidence.version}/{file}",
            "Open it with openvino.Core().read_model. Where that fails too, write it again with "
            "openvino.save_model, of a version that is not newer than the server's.",
        )
    keys = [section.text("key") for _, section in evidence.sections("parameters")]
    found = next((key for key in keys if key in reason), "")
    device = "" if found or "TARGET_DEVICE" not in keys else "TARGET_DEVICE"
    todo = "Look for what it names in the config, then in the model's file."
    if found:
        todo = f"Take {found} out, or give it a value that OpenVINO takes."
    elif device:
        todo = 'Write string_value: "CPU", or take TARGET_DEVICE out, where that device is missing.'
    return Advice(
        f"OpenVINO refuses it ({doing}): {reason}",
        evidence.at_parameter(found or device)
        if found or device
        else evidence.at("backend", "platform"),
        todo,
    )


@OTHERS.rule("core-refused", "failed to poll from model repository\n{reason:rest}")
def core_refused(evidence: Evidence, said: Said) -> Advice | None:
    """Change what the reason names: the server's log has it."""
    reason = said["reason"].strip().rstrip(".;")
    if not reason:
        return None
    return Advice(
        f"The server refused config.pbtxt: {reason}.",
        evidence.at_named(reason) or CONFIG,
        "Change or take out what this sentence names, and load the model again.",
    )


OTHERS.row(
    "config-refused",
    "failed to poll from model repository",
    what="The server refused config.pbtxt, and wrote the reason into its log only.",
    where="config.pbtxt",
    todo="Look for `Poll failed for model directory` in the log (a container's: `docker logs "
    "CONTAINER`): the line gives the reason.",
)


@OTHERS.rule(
    "backend-refused",
    "is at UNAVAILABLE state: Invalid argument: {words:rest}",
    "is at UNAVAILABLE state: Unavailable: {words:rest}",
    "Internal: BadModel: {words:rest}",  # so a server without the compiled helpers says it
    "Internal: MissingModel: {words:rest}",
    "Internal: BrokenModel: {words:rest}",
    "unable to load model '{model}', {words:rest}",
)
def backend_refused(evidence: Evidence, said: Said) -> Advice:
    """Correct what the backend's own sentence names."""
    words = said["words"].rstrip('";. ')
    words = re.sub(r"^\[request id: [^\]]*\] ", "", words)
    reason, _, todo = words.rpartition(": write ")  # a stand-in says what to write
    todo = f"Write {todo}." if reason else "Look for it in the config, then in the model's file."
    words = reason or words
    return Advice(
        f"The backend refused it: {words}.",
        evidence.at_named(words) or evidence.at("backend", "platform"),
        todo,
    )


def _is_onnx(evidence: Evidence) -> bool:
    """Whether the file that is served is an ONNX model."""
    named = evidence.value("default_model_filename")
    return any(file.endswith(".onnx") for file in ([named] if named else evidence.files()))


def _kind(evidence: Evidence, name: str) -> str:
    return "output" if name in evidence.tensor_names("output") else "input"


def _after(message: str, words: str) -> str:
    return message.partition(words)[2].partition("\n")[0].strip("; ")
