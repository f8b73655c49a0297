"""A model's file that the backend cannot read: a damaged copy, another format, or what it holds.

The entries are tried in this order. "A copy is damaged" is said only where the file itself shows
it (formats.py). What is left is whole, and of the right format: then the backend's own words say
what it does not take, and the entries after these explain them.

The docstring of each rule is the advice of its entry.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from . import formats
from .config_values import AS_TORCHSCRIPT, PLATFORMS
from .evidence import Evidence, at_field, at_parameter
from .rules import Advice, Catalogue, Said, listed

UNREADABLE: Catalogue[Evidence] = Catalogue()

#: What backends say of a file that they cannot read.
_WORDS = (
    "onnx runtime error {code:int}: {words:rest}",
    "openvino error in reading model : {words:rest}",
    "Could not find SavedModel .pb or .pbtxt at supplied export directory path: {path:word}",
    "failed to load model '{model}': {words:rest}",
    "failed to load model: {words:rest}",
    "Model failed to load into Treelite with error: {words:rest}",
    "Model failed to load into Treelite: {words:rest}",
    "Can't parse {path:word} as binary proto{words:rest}",
    "model {model:word} has an empty network{words:rest}",
    "Failed to load model file. The program looked in the following locations: {words:rest}",
    "is not this model's state dict: {words:rest}",
    "unable to create TensorRT engine{words:rest}",
    "failed to deserialize cuda engine{words:rest}",
)
#: The formats that FIL's values of model_type stand for.
_FIL = ("xgboost", "xgboost_json", "xgboost_ubj", "lightgbm", "treelite_checkpoint")
#: How to open a file of a format with its framework alone.
_OPEN = {
    "onnxruntime": 'onnxruntime.InferenceSession("{file}")',
    "pytorch": 'torch.jit.load("{file}")',
    "openvino": 'openvino.Core().read_model("{file}")',
    "tensorflow": 'tf.saved_model.load("{file}")',
    "dali": 'Pipeline.deserialize(filename="{file}")',
}
_OPEN_FIL = {
    "xgboost_json": 'treelite.frontend.load_xgboost_model("{file}", format_choice="json")',
    "xgboost_ubj": 'treelite.frontend.load_xgboost_model("{file}", format_choice="ubjson")',
    "lightgbm": 'treelite.frontend.load_lightgbm_model("{file}")',
    "treelite_checkpoint": 'treelite.Model.deserialize("{file}")',
}
#: What the names of the formats begin with, for a file that begins otherwise.
_BEGINS = {
    "pytorch": ("TorchScript", "a zip archive, as torch.jit.save writes it"),
    "onnxruntime": ("an ONNX model", "a protobuf message"),
    "lightgbm": ("LightGBM's text", "the line `tree`"),
    "xgboost_json": ("XGBoost's JSON", "a brace"),
    "xgboost_ubj": ("XGBoost's UBJSON", "a brace"),
}


def backend(evidence: Evidence) -> str:
    """The backend that the config names, directly or by its platform; "" for none."""
    platform = evidence.value("platform")
    return evidence.value("backend") or PLATFORMS.get(platform, "")


def model_files(evidence: Evidence) -> list[Path]:
    """The files of the version, the one that the config or the message names first."""
    folder = evidence.folder / evidence.version
    named = evidence.value("default_model_filename")
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc"))

    def place(path: Path) -> int:
        inside = str(path.relative_to(folder))
        return 0 if named and inside.startswith(named) else 1 if inside in evidence.message else 2

    return sorted(files[:200], key=place)


def the_file(evidence: Evidence) -> Path | None:
    """The model's file; None where there is none, or the version is a folder of several."""
    files = [
        f
        for f in model_files(evidence)
        if f.suffix != ".bin" or not f.with_suffix(".xml").is_file()
    ]
    return files[0] if files else None


def _inside(evidence: Evidence, path: Path) -> str:
    return str(path.relative_to(evidence.folder))


@UNREADABLE.rule("damaged-file", *_WORDS)
def damaged_file(evidence: Evidence, said: Said) -> Advice | None:
    """Copy the file again (of git LFS: `git lfs pull`); the file itself shows the damage."""
    for path in model_files(evidence):
        if (found := formats.damage(path)) is not None:
            why, todo = found
            file = _inside(evidence, path)
            return Advice(f"{file} {why}.", file, todo)
    return None


# -- forests ---------------------------------------------------------------------------------------


@UNREADABLE.rule(
    "not-a-forest",
    "Model failed to load into Treelite with error: {words:rest}",
    "Model failed to load into Treelite: {words:rest}",
    "Multi-target model not supported",
)
def not_a_forest(evidence: Evidence, said: Said) -> Advice | None:
    """Train what FIL serves: trees with constant leaves, numbers as features, one target."""
    path = the_file(evidence)
    if path is None:
        return None
    file, words = _inside(evidence, path), said.get("words", "")
    if not words:
        return Advice(
            f"{file} has several targets, and FIL serves one.",
            file,
            "Save one model for each target, and ask them together in an ensemble.",
        )
    if "linear trees" in words:
        return Advice(
            f"{file} has linear functions in its leaves (linear_tree=True), and FIL reads "
            "constants.",
            file,
            "Train without linear_tree, or serve the model in a Python model.",
        )
    if "categorical encoder" in words or '"cats" is not recognized' in words:
        return Advice(
            f"{file} was trained on columns of categories, and holds their names (XGBoost 3.1 and "
            "later). FIL does not read these.",
            file,
            "Train on whole numbers in place of the categories (column.cat.codes), or with XGBoost "
            "below 3.1; requests send the numbers.",
        )
    booster = _booster(path)
    if booster == "gblinear":
        return Advice(
            f"{file} is a linear model (booster gblinear), and FIL serves trees.",
            file,
            'Train with booster="gbtree" (the default), or serve the model in a Python model.',
        )
    if booster in ("dump", "settings"):
        other = "dump_model" if booster == "dump" else "save_config"
        return Advice(
            f"{file} is not a model: XGBoost's {other} wrote it.",
            file,
            'Save the model itself: booster.save_model("xgboost.json").',
        )
    if "different major Treelite version" in words:
        return _other_treelite(path, file)
    return None


def _booster(path: Path) -> str:
    """XGBoost's booster in a file; `dump` or `settings` for what is no model; "" where unknown."""
    content = formats.head(path, 64 << 20)
    if re.search(rb"name.{0,12}gblinear", content):
        return "gblinear"
    try:
        written = json.loads(content)
    except ValueError:
        return ""
    if isinstance(written, list):
        return "dump"
    booster = written.get("learner", {}).get("gradient_booster", {})
    return "settings" if "model" not in booster and "gbtree_train_param" in booster else ""


def _other_treelite(path: Path, file: str) -> Advice:
    start = formats.head(path, 12)
    version = [int.from_bytes(start[i : i + 4], "little") for i in (0, 4, 8)]
    if max(version) > 99:
        written = formats.by_bytes(path)
        return Advice(
            f"{file} is not a checkpoint of Treelite.",
            file,
            formats.how_to_convert(written, "fil", path.name)
            if written
            else 'Write one: treelite.sklearn.import_model(…).serialize("checkpoint.tl").',
        )
    return Advice(
        f"{file} was written by Treelite {'.'.join(map(str, version))}, and the server's reads "
        "checkpoints of its own major version (4) alone.",
        file,
        "Write the checkpoint again with Treelite 4, or save the model in the format of XGBoost or "
        "LightGBM.",
    )


# -- another format --------------------------------------------------------------------------------


@UNREADABLE.rule("other-format", *_WORDS)
def other_format(evidence: Evidence, said: Said) -> Advice | None:
    """Convert the model into the backend's format; another name is not enough."""
    path, named = the_file(evidence), backend(evidence)
    if (
        named == "dali"
        and not (
            evidence.folder
            / evidence.version
            / (evidence.value("default_model_filename") or "model.dali")
        ).exists()
    ):
        return None
    wanted = formats.READS.get(named) or ({_type(evidence)} if named == "fil" else set())
    if path is None or not wanted:
        return None
    if named == "openvino":
        wanted = {*wanted, "onnx", "savedmodel", "tflite", "graphdef"}
    written = formats.by_bytes(path)
    file = _inside(evidence, path)
    if path.name == "saved_model.pb" or (written and written in wanted):
        return None
    if named == "fil" and written in _FIL:
        return None  # another value of model_type: the entry fil-format
    if written:
        return Advice(
            f"{file} is {formats.NAMES[written]}. The backend {named} does not read it, under any "
            "name.",
            file,
            AS_TORCHSCRIPT
            if (written, named) == ("exported", "pytorch")
            else formats.how_to_convert(written, named, path.name),
        )
    of, begins = _BEGINS.get(_type(evidence) if named == "fil" else named, ("", ""))
    start = formats.head(path, 16)
    if not of or (named == "onnxruntime" and start[:1] in (b"\x08", b"\x0a")):
        return None
    by_ending = formats.written_as(path)
    return Advice(
        f"{file} is not {of}: it does not begin with {begins}.",
        file,
        formats.how_to_convert("state dict", "pytorch", path.name)
        if named == "pytorch" and by_ending == "torch"
        else f"Look at its first bytes: `head -c 100 {path.name}`. Save the model anew in the "
        "format that the backend reads.",
    )


# -- ONNX ------------------------------------------------------------------------------------------


@UNREADABLE.rule(
    "external-data",
    'External data path does not exist: "{path}"',
    "Invalid usage of method for externally stored data in file ({path:word}",
    "GetFileLength for {path:word} failed",
    "filesystem error: cannot get file size: No such file or directory [{path:word}]",
    'open file "{path}" failed: No such file or directory',
)
def external_data(evidence: Evidence, said: Said) -> Advice:
    """Copy the file of weights beside model.onnx, under the name that the model has for it."""
    path = said["path"].rstrip(",")
    inside = path.rpartition(f"/{evidence.model}/{evidence.version}/")[2] or path
    inside = inside.rpartition("/./")[2].removeprefix("./")
    model = next((f for f in model_files(evidence) if f.suffix == ".onnx"), None)
    beside = model.name if model else "model.onnx"
    others = [f for f in evidence.files() if f != beside and not f.endswith("/")]
    return Advice(
        f"{beside} keeps its weights in a file of its own, {inside}, and that file is not there.",
        f"{evidence.version}/{inside}",
        f"Copy {inside} beside {beside}, from the folder into which the model was exported."
        + (f" There is {listed(others)}: the name must stay {inside}." if others else "")
        + f' Or put both into one file: onnx.save(onnx.load("{beside}"), "one.onnx").',
    )


UNREADABLE.row(
    "external-data-short",
    "External initializer: {tensor} offset: {offset:int} size to read: {count:int} given "
    "file_length: {length:int}",
    what="The file of weights beside the model has {length} bytes; the tensor {tensor} begins at "
    "{offset} and has {count}.",
    where="{version}/",
    todo="Copy the file of weights again, from the same export as the model.",
)


@UNREADABLE.rule(
    "unknown-operator",
    "No opset import for domain '{domain}'",
    "{domain:word}:{operator:id}({version:int}) is not a registered function/op",
    "No Op registered for {operator:id} with domain_version of {version:int}",
    "Unknown builtin op: {domain:id}::{operator:id}",
    "Opset {domain:id} doesn't contain the operation with type: {operator:id}",
    "Cannot create {operator:id} layer {name:word} id:{id:int} from unsupported opset: {domain:id}",
    "Op type not registered '{operator}'",
)
def unknown_operator(evidence: Evidence, said: Said) -> Advice:
    """Name the library of the operator in model_operations, or export without this operator."""
    domain = said.get("domain", "").rpartition(" ")[2]
    in_node = re.search(r'In Node, \("[^"]*", (\w+), "([^"]*)"', evidence.message)
    operator = said.get("operator") or (in_node[1] if in_node else "")
    domain = domain or (in_node[2] if in_node else "")
    path = the_file(evidence)
    where = _inside(evidence, path) if path else f"{evidence.version}/"
    full = f"{domain}{'::' if '::' in evidence.message else '.'}{operator}" if domain else operator
    named, library = backend(evidence), evidence.value("model_operations.op_library_filename")
    if named == "pytorch":
        return Advice(
            f"The module uses the operator {full}, which is not a part of PyTorch itself.",
            where,
            f"The operator comes with the package {domain}, and the backend has not loaded it. "
            "Write the module without it, export the model as ONNX, or load the file in a Python "
            f"model that imports {domain}.",
        )
    own = named == "onnxruntime" and domain not in ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
    if own or named == "tensorflow":
        return Advice(
            f"The model uses the operator {full}, which the server does not have: it is of a "
            "library of its own.",
            evidence.at("model_operations.op_library_filename") if library else where,
            f"The library {library} does not have it: name the one that does."
            if library
            else 'Name its library: model_operations { op_library_filename: "/…/libNAME.so" }, a '
            "path that the server can read. Or export the model without this operator.",
        )
    return Advice(
        f"The model uses the operator {full}, which the backend {named} of this server does not "
        "have in that version.",
        where,
        "Export the model again without it, or with an opset that this server reads: "
        "torch.onnx.export(…, opset_version=18)."
        if named == "onnxruntime"
        else "Convert the original model again with the framework's version that this server has.",
    )


UNREADABLE.row(
    "operator-library",
    "Failed to load library {library:word} with error: {words:text}",
    "{library:word}: cannot open shared object file: {words:text}",
    what="The library of operators {library} cannot be loaded: {words}.",
    where=at_field("model_operations.op_library_filename", "model_operations"),
    todo="Write the whole path of a file that the server can read; in a container it must be "
    "mounted there.",
)
_ZIPMAP = (
    "Triton serves tensors alone. Convert the model again without it: "
    'skl2onnx.to_onnx(model, rows, options={"zipmap": False}); onnxmltools: zipmap=False.'
)


@UNREADABLE.rule("not-a-tensor", "Unsupported ONNX Type 'ONNX_TYPE_{kind:id}' for I/O '{name}'")
def not_a_tensor(evidence: Evidence, said: Said) -> Advice:
    """Convert again with options={"zipmap": False}: outputs must be tensors."""
    path = the_file(evidence)
    kind = {"SEQUENCE": "a list", "MAP": "a dict"}.get(said["kind"], said["kind"].lower())
    file = _inside(evidence, path) if path else f"{evidence.version}/"
    return Advice(
        f'"{said["name"]}" of the model is {kind}, not a tensor (probabilities by class: an '
        "operator ZipMap at the end of the graph).",
        f'{file}, "{said["name"]}"',
        _ZIPMAP,
    )


# -- TorchScript, OpenVINO, TensorFlow -------------------------------------------------------------


@UNREADABLE.rule(
    "torch-arguments",
    "An input of type '{type}' was detected in the model. Only a single input",
    "Multiple inputs of kind DictType were detected. {type:rest}",
)
def torch_arguments(evidence: Evidence, said: Said) -> Advice:
    """Let forward() take tensors alone, and save the module again."""
    path = the_file(evidence)
    file = _inside(evidence, path) if path else f"{evidence.version}/"
    what = "several dicts" if "Multiple" in evidence.message else f"a {said['type']}"
    return Advice(
        f"forward() takes {what}; Triton gives it tensors (or one Dict[str, Tensor]).",
        f"{file}, forward{formats.forward(path) if path else '()'}",
        "Write forward() with tensors alone, e.g. forward(self, x: torch.Tensor). Make the rest "
        "attributes of the module, set in __init__, and save it again.",
    )


UNREADABLE.row(
    "torch-newer",
    "Attempted to read a PyTorch file with version {given:int}, but the maximum supported version "
    "for reading is {most:int}",
    what="The file was saved by a newer PyTorch (file version {given}) than the server's reads "
    "(up to {most}).",
    where="{version}/",
    todo="Save the module again with the PyTorch of the server's release, or take a newer server.",
)


@UNREADABLE.rule("old-ir", "openvino error in reading model : {words:rest}")
def old_ir(evidence: Evidence, said: Said) -> Advice | None:
    """Convert the original model again: OpenVINO reads its XML from version 10 on."""
    path = the_file(evidence)
    found = re.search(rb'<net [^>]*\bversion="(\d+)"', formats.head(path)) if path else None
    if path is None or found is None or int(found[1]) >= 10:
        return None
    return Advice(
        f"{_inside(evidence, path)} has version {int(found[1])} of OpenVINO's format; OpenVINO "
        "reads it from version 10 on.",
        _inside(evidence, path),
        'Convert the original model again: ov.save_model(ov.convert_model("model.onnx"), '
        '"model.xml").',
    )


@UNREADABLE.rule(
    "no-savedmodel",
    "Could not find SavedModel .pb or .pbtxt at supplied export directory path: {path:word}",
)
def no_savedmodel(evidence: Evidence, said: Said) -> Advice:
    """Let saved_model.pb lie directly in model.savedmodel/; convert a file of Keras."""
    path = said["path"]
    inside = path.rpartition(f"/{evidence.model}/")[2]
    here = evidence.folder / inside
    deeper = sorted(here.rglob("saved_model.pb")) if here.is_dir() else []
    if deeper:
        holds = str(deeper[0].parent.relative_to(here))
        return Advice(
            f"The SavedModel lies one folder too deep, in {inside}/{holds}/.",
            f"{inside}/",
            f"Move all that is in {inside}/{holds}/ into {inside}/.",
        )
    if here.is_file():
        written = formats.written_as(here)
        return Advice(
            f"{inside} is a file; a SavedModel is a folder with saved_model.pb in it.",
            inside,
            formats.how_to_convert(written, "tensorflow", here.name)
            if written
            else 'Export the model: model.export("model.savedmodel") in Keras, '
            'tf.saved_model.save(module, "model.savedmodel") in TensorFlow.',
        )
    return Advice(
        "The SavedModel's folder has no saved_model.pb.",
        f"{inside}/",
        "Let saved_model.pb and the folder variables/ lie directly in this folder.",
    )


UNREADABLE.row(
    "savedmodel-tag",
    "Could not find meta graph def matching supplied tags: { {tag} }. The SavedModel has "
    "{tags:rest}",
    what='The SavedModel has no graph with the tag "{tag}"; it has {tags}.',
    where=at_parameter("TF_GRAPH_TAG"),
    todo='Write one of its tags: parameters { key: "TF_GRAPH_TAG" value { string_value: "…" } }.',
)

#: What is left; tried after all entries for frameworks.
REST: Catalogue[Evidence] = Catalogue()


@REST.rule("unreadable-file", *_WORDS)
def unreadable_file(evidence: Evidence, said: Said) -> Advice:
    """Open the file with its framework alone; the backend's words say what it does not take."""
    path, named = the_file(evidence), backend(evidence)
    file = _inside(evidence, path) if path else f"{evidence.version}/"
    form = _OPEN_FIL.get(_type(evidence), "") if named == "fil" else _OPEN.get(named, "")
    alone = f": {form.format(file=path.name)}" if form and path else ""
    return Advice(
        f"The backend cannot read the model's file: {_sentence(evidence, said)}.",
        file,
        f"Open it with the framework alone{alone}, in the version that the server has. If that "
        "works, it is what the words above name that the server does not take: export the model "
        "without it. If not, export the file again.",
    )


def _sentence(evidence: Evidence, said: Said) -> str:
    """The backend's words in one line: without paths of this machine, and places in its code."""
    words = said.get("words", "").strip("\"';:. ")
    if not words or words.startswith("Exception from"):
        after = (
            evidence.message.partition(said.get("words") or "\n")[2]
            if words
            else (evidence.message)
        )
        lines = [line.strip() for line in after.splitlines() if line.strip(" :")]
        kept = [x for x in lines if not re.match(r"(Exception from|Check ')", x)]
        words = (kept or lines or [words])[0]
    words = re.sub(r"Load model from \S+ failed: ?", "", words)
    words = re.sub(r"(?:/[\w.@+-]+)+/(?=[\w.-]+)", "", words)
    return words.strip("\"';:. ")


def _type(evidence: Evidence) -> str:
    """FIL's model_type in the config; its default where the config has none."""
    return evidence.parameter("model_type") or "xgboost"
