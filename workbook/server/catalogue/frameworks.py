"""Look-ups for models that the framework backends refuse. frameworks.toml has the messages."""

from __future__ import annotations

import re

from ...backends.onnxruntime.accelerators import TENSORRT_KEYS
from . import file_formats
from .evidence import PLACES, Evidence
from .rules import Advice, Catalogue, Parts, listed, near, near_or_only

FRAMEWORKS: Catalogue[Evidence] = Catalogue("frameworks", PLACES)

_FORMATS = {
    "xgboost": "XGBoost's old binary",
    "xgboost_json": "XGBoost's JSON",
    "xgboost_ubj": "XGBoost's UBJSON",
    "lightgbm": "LightGBM's text",
    "treelite_checkpoint": "Treelite's checkpoint",
}
#: What to write for a FIL parameter that the config lacks.
_REQUIRED = {
    "output_class": '"true" for a classifier, "false" for a model that gives a number',
    "threshold": 'the score above which a row is of class 1, e.g. "0.5"',
    "model_type": "the format of the model's file: xgboost_json, xgboost_ubj, lightgbm or "
    "treelite_checkpoint",
}


@FRAMEWORKS.look_up
def data_type(evidence: Evidence, parts: Parts) -> Parts:
    """The type that the model has, and whether it was converted to fp16."""
    name = parts["name"]
    kind = parts.get("kind", "") or _kind(evidence, name)
    model = parts.get("model", "") or _after(evidence, "Data type defined in pipeline: ")
    config = parts.get("config", "") or _after(evidence, "Data type defined in config: ")
    right = f"TYPE_{model.rstrip(';,.').removeprefix('TYPE_')}".replace("BYTES", "STRING")
    halved = (right, config) == ("TYPE_FP16", "TYPE_FP32") and _is_onnx(evidence)
    # Inputs are compared first: if they are fp32, the file was converted with keep_io_types.
    inputs = [section.text("data_type") for _, section in evidence.sections("input")]
    kept = kind == "output" and "TYPE_FP32" in inputs
    return {
        "kind": kind,
        "config": config,
        "right": right,
        # a Python model, in its auto_complete_config
        "frame": evidence.at_frame() if evidence.frame() is not None else "",
        "half": "yes" if halved else "",
        "half_output": "yes" if halved and kept else "",
        "place": evidence.at_tensor(kind, name, "data_type"),
    }


@FRAMEWORKS.look_up
def engine_batch(evidence: Evidence, parts: Parts) -> Parts:
    """Whether the engine takes no batches beside the dims of the config."""
    return {"none": "yes" if parts["largest"] == "0" else ""}


@FRAMEWORKS.look_up
def fixed_batch(evidence: Evidence, parts: Parts) -> Parts:
    """The shape that the model has."""
    sizes = parts.get("model", "").partition("]")[0].split(",")
    shape = [d.strip() for d in sizes if d.strip()]
    how = " (torch.onnx.export: dynamic_shapes, or dynamic_axes where dynamo is False)"
    rows = f"{shape[0]} row{'' if shape[0] == '1' else 's'}" if shape else ""
    return {"shape": ",".join(shape), "dims": ", ".join(shape), "rows": rows,
            "onnx": how if _is_onnx(evidence) else ""}  # fmt: skip


@FRAMEWORKS.look_up
def bounded_dims(evidence: Evidence, parts: Parts) -> Parts | None:
    """The numbers between the bounds; None where the message names no bounds."""
    bounds = re.findall(r"dimension (\d+) has the bounds (\d+)\.\.(\d+)", parts["bounds"])
    shape = [d.strip() for d in parts["model"].split(",")]
    numbers = []
    for place, least, most in bounds:
        if int(most) - int(least) > 1:
            numbers.append(f"dimension {place} may be {int(least) + 1} to {int(most) - 1}")
            shape[int(place)] = str(int(most) - 1)
    if not bounds:
        return None
    kind = _kind(evidence, parts["name"])
    return {
        "kind": kind,
        "limits": listed(
            f"dimension {place} is {least} to {most}" for place, least, most in bounds
        ),
        "numbers": listed(numbers) if len(numbers) == len(bounds) else "",
        "dims": ", ".join(shape[1:] if _batched(evidence) else shape),
        "place": evidence.at_tensor(kind, parts["name"], "dims"),
    }


@FRAMEWORKS.look_up
def dims(evidence: Evidence, parts: Parts) -> Advice:
    """What the model's dims are, and how the config must describe them."""
    name = parts["name"]
    kind = _kind(evidence, name)
    written = evidence.dims(kind, name)
    batched = _batched(evidence)
    features = parts.get("features", "")
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
    if not parts.get("model"):
        wanted = _after(evidence, "Number of dimensions defined in pipeline: ")
        return Advice(
            f'The config gives {kind} "{name}" {len(written)} dims, the pipeline {wanted}.',
            evidence.at_tensor(kind, name, "dims"),
            f"Write {wanted} dims (the batch is not among them).",
        )
    shape = [d.strip() for d in parts["model"].partition("]")[0].split(",") if d.strip()]
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
    """The advice if a model's tensor has the batch dimension only, and the config has more."""
    whole, gives = ", ".join((["-1"] if batched else []) + written), kind == "output"
    return Advice(
        f'In the model\'s file {kind} "{name}" is [ -1 ]: the batch alone, one value a row. '
        f"The config describes it as [ {whole} ]"
        + (" (the batch of max_batch_size in front)." if batched else "."),
        where,
        f"One of them has to change. The file: let {name} be [ -1, 1 ]"
        + (", e.g. by x[:, 1:2] in place of x[:, 1], or by unsqueeze(1)" if gives else "")
        + ", and export it again"
        + (" (with dims: [ 1 ])." if batched and written != ["1"] else ".")
        + " Or the config: write "
        + ("dims: [ 1 ] reshape { shape: [ ] }." if batched else "dims: [ -1 ]."),
    )


@FRAMEWORKS.look_up
def signatures(evidence: Evidence, parts: Parts) -> Parts:
    """The signatures that the file has."""
    names = parts["words"].partition("the file has ")[2].rstrip('";. ').split(", ")
    there = [name for name in names if name]
    meant = near_or_only(parts["name"], there)
    return {"names": listed(there) if there else "", "meant": meant,
            "choice": listed(there, "or") if there else ""}  # fmt: skip


@FRAMEWORKS.look_up
def tensor_name(evidence: Evidence, parts: Parts) -> Parts:
    """The names that the model has."""
    names = [n.strip() for n in parts["allowed"].rstrip('";. ').split(",")]
    meant = near_or_only(parts["name"], names)
    return {"names": listed(names), "choice": listed(names, "or"), "meant": meant}


@FRAMEWORKS.look_up
def pipeline_tensor(evidence: Evidence, parts: Parts) -> Parts:
    """Which tensor is meant: this course's stand-in says it, upstream's DALI does not."""
    name, message = parts["name"], evidence.message
    kind = next((k for k in ("input", "output") if name in evidence.tensor_names(k)), "")
    found = {"kind": kind, "lacks": ""}
    if kind:
        no_dims = f'Missing dims config for "{name}"' in message
        example = "" if evidence.dims(kind, name) else ", and its dims"
        found = {"kind": kind, "lacks": "dims" if no_dims else "data_type",
                 "example": ", e.g. dims: [ -1 ]" if no_dims else example}  # fmt: skip
    elif " of pipeline_def)" in message or " of fn.external_source)" in message:
        kind = "output" if " of pipeline_def)" in message else "input"
    else:  # DALI gives outputs names that begin with __; inputs are looked at first
        outputs, inputs = (evidence.tensor_names(k) for k in ("output", "input"))
        kind = "output" if name.startswith("__") or (inputs and not outputs) else "input"
    output = kind == "output"
    return {
        **found,
        "input": "" if output else "yes",
        "place": evidence.at_tensor(kind, name) if found["lacks"] else evidence.at(kind),
        "keys": "output_dtype and output_ndim" if output else "dtype and ndim",
        "source": "pipeline_def" if output else "its fn.external_source",
    }


@FRAMEWORKS.look_up
def broken_pipeline(evidence: Evidence, parts: Parts) -> Parts:
    """Whether the file ends too early."""
    return {"short": "yes" if parts["words"].startswith("it ends ") else ""}


@FRAMEWORKS.look_up
def number_of_inputs(evidence: Evidence, parts: Parts) -> Parts:
    """The inputs of the config, and for PyTorch the file with forward()."""
    torch = "pytorch" in evidence.value("backend") + evidence.value("platform")
    file = f"{evidence.version}/{evidence.value('default_model_filename', 'model.pt')}"
    return {
        "inputs": listed(evidence.tensor_names("input")),
        "provides": parts["model"].removeprefix("at most ").rstrip("; "),
        "input": evidence.at("input"),
        "file": file if torch else "",
        "arguments": file_formats.forward(evidence.folder / file),
    }


@FRAMEWORKS.look_up
def torch_names(evidence: Evidence, parts: Parts) -> Parts:
    """The name that PyTorch's backend reads."""
    name = parts["name"].rstrip(",.")
    kind = parts.get("kind", "").lower()
    kind = kind if kind in ("input", "output") else _kind(evidence, name)
    names = evidence.tensor_names(kind)
    return {
        "name": name,
        "kind": kind,
        "input": "yes" if kind == "input" else "",
        "stem": re.sub(r"_*\d*$", "", name) or kind,
        "index": str(names.index(name) if name in names else 0),
        "place": evidence.at_tensor(kind, name, "name"),
    }


@FRAMEWORKS.look_up
def torch_numbers(evidence: Evidence, parts: Parts) -> Parts | None:
    """An input whose number no argument has, and a number that is free."""
    given = {name: int(n) for name, n in re.findall(r"'([^']+)' is argument (\d+)", parts["given"])}
    count, numbers = int(parts["last"]) + 1, [*given.values()]
    free = [n for n in range(count) if n not in numbers]
    wrong = [name for name, n in given.items() if n >= count or numbers.count(n) > 1]
    if not wrong or not free:
        return None
    name = wrong[-1]
    one = "one argument, number 0"
    return {
        "name": name,
        "number": str(given[name]),
        "arguments": one if count == 1 else f"{count} arguments, from number 0",
        "right": f"{name.rpartition('__')[0]}__{free[0]}",
    }


@FRAMEWORKS.look_up
def fil_names(evidence: Evidence, parts: Parts) -> Parts:
    """The tensor that FIL knows by this name."""
    name = parts["name"].rstrip(".")
    if other := parts.get("other", ""):
        meant = "treeshap_output" if "output__0" in evidence.tensor_names("output") else name
        return {"meant": meant, "place": evidence.at_tensor("output", other, "name")}
    kind = "input" if name.startswith("input") else "output"
    return {"name": name, "kind": kind, "place": evidence.at(f"{kind}.name", kind)}


@FRAMEWORKS.look_up
def fil_output_dims(evidence: Evidence, parts: Parts) -> Parts:
    """The parameter that decides how many values the model gives, where one is misspelt."""
    name, n = parts["name"], parts["n"]
    found = {
        "dims": ", ".join(evidence.dims("output", name)),
        "gives": f"{n} value{'' if n == '1' else 's'}",
        "no_proba": "yes" if parts["proba"] == "false" else "",
        "place": evidence.at_tensor("output", name, "dims"),
    }
    for key, value in (("predict_proba", parts["proba"]), ("output_class", parts["classes"])):
        if misspelt := evidence.parameter_like(key):
            place = evidence.at_parameter(misspelt)
            return {**found, "misspelt": misspelt, "key": key, "value": value, "place": place}
    return found


@FRAMEWORKS.look_up
def fil_shap_dims(evidence: Evidence, parts: Parts) -> Parts:
    """The place of the output."""
    return {"place": evidence.at_tensor("output", "treeshap_output", "dims")}


@FRAMEWORKS.look_up
def fil_format(evidence: Evidence, parts: Parts) -> Parts:
    """The two formats, and the usual name of the file."""
    kind, written = parts["kind"], parts["written"]
    usual = _after(evidence, "and name the file ").rstrip(".")
    return {
        "meant": _FORMATS.get(kind, kind),
        "is": _FORMATS.get(written, written),
        "usual": usual if usual != parts["file"] else "",
    }


@FRAMEWORKS.look_up
def required_parameter(evidence: Evidence, parts: Parts) -> Parts:
    """What the parameter means, and a key that may be meant for it."""
    key = parts["key"]
    if key == "max_batch_size":
        return {"batch": "yes", "place": evidence.at("backend")}
    if misspelt := evidence.parameter_like(key):
        return {"misspelt": misspelt, "place": evidence.at_parameter(misspelt)}
    return {"meaning": _REQUIRED.get(key, ""), "place": evidence.at("parameters", "backend")}


@FRAMEWORKS.look_up
def gpu_operators(evidence: Evidence, parts: Parts) -> Parts:
    """The operators alone."""
    return {"operators": parts["operators"].partition(". ")[0]}


@FRAMEWORKS.look_up
def accelerator(evidence: Evidence, parts: Parts) -> Parts:
    """The accelerator that is meant."""
    meant = near(parts["name"], ("tensorrt", "cuda", "openvino", "auto_mixed_precision"))
    return {"meant": meant if meant != parts["name"] else ""}


@FRAMEWORKS.look_up
def tensorrt_parameter(evidence: Evidence, parts: Parts) -> Parts:
    """The parameter that is meant."""
    return {"meant": near(parts["name"], ("precision_mode", *TENSORRT_KEYS))}


@FRAMEWORKS.look_up
def broken_plugin(evidence: Evidence, parts: Parts) -> Parts:
    """Why it cannot be loaded, and the command that installs it again."""
    reason, _, todo = parts["reason"].partition(". To do: ")
    return {"name": parts["name"], "reason": reason, "command": todo.partition("`")[2].strip("`")}


@FRAMEWORKS.look_up
def openvino_error(evidence: Evidence, parts: Parts) -> Parts:
    """OpenVINO's last sentence: the lines before it say where in OpenVINO it arose."""
    start = evidence.message.index(parts["words"])
    lines = evidence.message[start:].partition("\n\n")[0].splitlines()
    arose = re.compile(r"^(Exception from |Check '.* failed at )\S+:\d+:$|^\s*$")
    reasons = [line.strip(' ;"') for line in lines if not arose.match(line)]
    reason = reasons[-1] if reasons else parts["words"].strip(' ;:"')
    doing = parts["doing"].strip()
    if doing == "reading model":
        file = f"{evidence.version}/{evidence.value('default_model_filename', 'model.xml')}"
        return {"doing": doing, "file": file, "reason": reason}
    keys = [section.text("key") for _, section in evidence.sections("parameters")]
    key = next((key for key in keys if key in reason), "")
    device = "" if key or "TARGET_DEVICE" not in keys else "TARGET_DEVICE"
    parameter = key or device
    place = evidence.at_parameter(parameter) if parameter else evidence.at("backend", "platform")
    return {"doing": doing, "reason": reason, "key": key, "device": device, "place": place}


def _is_onnx(evidence: Evidence) -> bool:
    """Whether the file that is served is an ONNX model."""
    named = evidence.value("default_model_filename")
    return any(file.endswith(".onnx") for file in ([named] if named else evidence.files()))


def _batched(evidence: Evidence) -> bool:
    return evidence.value("max_batch_size", "0") not in ("0", "")


def _kind(evidence: Evidence, name: str) -> str:
    return "output" if name in evidence.tensor_names("output") else "input"


def _after(evidence: Evidence, words: str) -> str:
    return evidence.message.partition(words)[2].partition("\n")[0].strip("; ")
