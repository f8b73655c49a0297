"""Look-ups for files that the backend cannot read. unreadable_files.toml has the messages."""

from __future__ import annotations

import json
import re
from pathlib import Path

from . import file_formats
from .config_values import AS_TORCHSCRIPT, PLATFORMS
from .evidence import PLACES, Evidence
from .rules import Advice, Catalogue, Parts, listed

UNREADABLE: Catalogue[Evidence] = Catalogue("unreadable_files", PLACES)
#: The entries for all other messages, tried after all other families.
OTHERS: Catalogue[Evidence] = Catalogue("others", PLACES)

#: FIL's values of model_type; each is a format.
_FIL = ("xgboost", "xgboost_json", "xgboost_ubj", "lightgbm", "treelite_checkpoint")
#: The code that opens a file of a format with its framework alone.
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
#: A format's name and how its files begin, for the message about a file that begins otherwise.
_BEGINS = {
    "pytorch": ("TorchScript", "a zip archive, as torch.jit.save writes it"),
    "onnxruntime": ("an ONNX model", "a protobuf message"),
    "lightgbm": ("LightGBM's text", "the line `tree`"),
    "xgboost_json": ("XGBoost's JSON", "a brace"),
    "xgboost_ubj": ("XGBoost's UBJSON", "a brace"),
}


def backend(evidence: Evidence) -> str:
    """The backend that the config names, directly or by its platform; "" if it names none."""
    platform = evidence.value("platform")
    return evidence.value("backend") or PLATFORMS.get(platform, "")


def model_files(evidence: Evidence) -> list[Path]:
    """The files of the version. The file that the config or the message names comes first."""
    folder = evidence.folder / evidence.version
    named = evidence.value("default_model_filename")
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc") and path.name[0] != "."
    )

    def place(path: Path) -> int:
        inside = str(path.relative_to(folder))
        return 0 if named and inside.startswith(named) else 1 if inside in evidence.message else 2

    return sorted(files[:200], key=place)


def the_file(evidence: Evidence) -> Path | None:
    """The model's file: the first of `model_files` that is not OpenVINO's weights; else None."""
    files = [
        f
        for f in model_files(evidence)
        if f.suffix != ".bin" or not f.with_suffix(".xml").is_file()
    ]
    return files[0] if files else None


def _inside(evidence: Evidence, path: Path) -> str:
    return str(path.relative_to(evidence.folder))


@UNREADABLE.look_up
def damaged(evidence: Evidence, parts: Parts) -> Advice | None:
    """The damage that a file of the version shows; None where none does."""
    for path in model_files(evidence):
        if (found := file_formats.damage(path)) is not None:
            file = _inside(evidence, path)
            return Advice(f"{file} {found[0]}.", file, found[1])
    return None


@UNREADABLE.look_up
def not_a_forest(evidence: Evidence, parts: Parts) -> Parts | None:
    """What a file holds in place of trees that FIL serves; None where neither tells."""
    if (path := the_file(evidence)) is None:
        return None
    file, words = _inside(evidence, path), parts["words"]
    if "linear trees" in words:
        return {"file": file, "linear_trees": "yes"}
    if "categorical encoder" in words or '"cats" is not recognized' in words:
        return {"file": file, "categories": "yes"}
    if (booster := _booster(path)) == "gblinear":
        return {"file": file, "gblinear": "yes"}
    if booster:
        return {"file": file, "no_model": booster}
    if "different major Treelite version" not in words:
        return None
    start = file_formats.head(path, 12)
    version = [int.from_bytes(start[i : i + 4], "little") for i in (0, 4, 8)]
    if max(version) <= 99:
        return {"file": file, "treelite": ".".join(map(str, version))}
    written = file_formats.by_bytes(path)
    convert = file_formats.how_to_convert(written, "fil", path.name) if written else ""
    return {"file": file, "no_checkpoint": "yes", "convert": convert}


def _booster(path: Path) -> str:
    """Why an XGBoost file is not a tree model: a linear booster, or the function that wrote it.

    "" if nothing shows that.
    """
    content = file_formats.head(path, 64 << 20)
    if re.search(rb"name.{0,12}gblinear", content):
        return "gblinear"
    try:
        written = json.loads(content)
    except ValueError:
        return ""
    if isinstance(written, list):
        return "dump_model"
    booster = written.get("learner", {}).get("gradient_booster", {})
    return "save_config" if "model" not in booster and "gbtree_train_param" in booster else ""


@UNREADABLE.look_up
def other_format(evidence: Evidence, parts: Parts) -> Parts | None:
    """The format of a whole file that is not one of the backend's; None where it may be one."""
    path, named = the_file(evidence), backend(evidence)
    given = evidence.value("default_model_filename") or "model.dali"
    if named == "dali" and not (evidence.folder / evidence.version / given).exists():
        return None
    wanted = file_formats.READS.get(named) or ({_type(evidence)} if named == "fil" else set())
    if path is None or not wanted or path.name == "saved_model.pb":
        return None
    if named == "openvino":
        wanted = {*wanted, "onnx", "savedmodel", "tflite", "graphdef"}
    written = file_formats.by_bytes(path)
    found = {"file": _inside(evidence, path), "backend": named, "name": path.name}
    if written in wanted or (named == "fil" and written in _FIL):
        return None  # another value of model_type: the entry fil-format
    if written:
        convert = file_formats.how_to_convert(written, named, path.name)
        if (written, named) == ("exported", "pytorch"):
            convert = AS_TORCHSCRIPT
        return {**found, "format": file_formats.NAMES[written], "convert": convert}
    of, begins = _BEGINS.get(_type(evidence) if named == "fil" else named, ("", ""))
    if not of or (named == "onnxruntime" and file_formats.head(path, 1) in (b"\x08", b"\x0a")):
        return None
    weights = named == "pytorch" and file_formats.written_as(path) == "torch"
    convert = file_formats.how_to_convert("state dict", named, path.name) if weights else ""
    return {**found, "wanted": of, "begins": begins, "convert": convert}


@UNREADABLE.look_up
def external_data(evidence: Evidence, parts: Parts) -> Parts:
    """The name of the file of weights, and what lies beside the model."""
    path = parts["path"].rstrip(",")
    inside = path.rpartition(f"/{evidence.model}/{evidence.version}/")[2] or path
    inside = inside.rpartition("/./")[2].removeprefix("./")
    model = next((f for f in model_files(evidence) if f.suffix == ".onnx"), None)
    beside = model.name if model else "model.onnx"
    others = [f for f in evidence.files() if f != beside and not f.endswith("/")]
    return {"inside": inside, "beside": beside, "version": evidence.version,
            "others": listed(others) if others else ""}  # fmt: skip


@UNREADABLE.look_up
def unknown_operator(evidence: Evidence, parts: Parts) -> Parts:
    """The operator with its domain, and whether a library of its own has it."""
    domain = parts.get("domain", "").rpartition(" ")[2]
    in_node = re.search(r'In Node, \("[^"]*", (\w+), "([^"]*)"', evidence.message)
    operator = parts.get("operator") or (in_node[1] if in_node else "")
    domain = domain or (in_node[2] if in_node else "")
    named, library = backend(evidence), evidence.value("model_operations.op_library_filename")
    known = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
    own = named == "tensorflow" or (named == "onnxruntime" and domain not in known)
    point = "::" if "::" in evidence.message else "."
    return {
        "full": f"{domain}{point}{operator}" if domain else operator,
        "domain": domain,
        "backend": named,
        "torch": "yes" if named == "pytorch" else "",
        "onnx": "yes" if named == "onnxruntime" else "",
        "own": "yes" if own else "",
        "library": library if own else "",
        "place": evidence.at("model_operations.op_library_filename")
        if own and library
        else _file(evidence),
    }


@UNREADABLE.look_up
def not_a_tensor(evidence: Evidence, parts: Parts) -> Parts:
    """What the output is in place of a tensor."""
    kinds = {"SEQUENCE": "a list", "MAP": "a dict"}
    kind = kinds.get(parts["kind"], parts["kind"].lower())
    return {"what": kind, "file": _file(evidence)}


@UNREADABLE.look_up
def no_savedmodel(evidence: Evidence, parts: Parts) -> Parts:
    """What lies in the place of the SavedModel's folder."""
    inside = parts["path"].rpartition(f"/{evidence.model}/")[2]
    here = evidence.folder / inside
    deeper = sorted(here.rglob("saved_model.pb")) if here.is_dir() else []
    holds = str(deeper[0].parent.relative_to(here)) if deeper else ""
    written = file_formats.written_as(here) if here.is_file() else ""
    convert = file_formats.how_to_convert(written, "tensorflow", here.name) if written else ""
    return {"inside": inside, "holds": holds, "file": inside if here.is_file() else "",
            "convert": convert}  # fmt: skip


@OTHERS.look_up
def unreadable(evidence: Evidence, parts: Parts) -> Parts:
    """The backend's words in one line, and how to open the file with its framework alone."""
    path, named = the_file(evidence), backend(evidence)
    form = _OPEN_FIL.get(_type(evidence), "") if named == "fil" else _OPEN.get(named, "")
    return {
        "sentence": _sentence(evidence, parts),
        "file": _file(evidence),
        "opened": form.format(file=path.name) if path else "",
    }


@OTHERS.look_up
def core_refused(evidence: Evidence, parts: Parts) -> Parts | None:
    """The reason, and the place of what it names; None without a reason."""
    reason = parts["reason"].strip().rstrip(".;")
    return {"reason": reason, "place": evidence.at_named(reason)} if reason else None


@OTHERS.look_up
def backend_refused(evidence: Evidence, parts: Parts) -> Parts:
    """The backend's own sentence; a stand-in's says what to write."""
    words = re.sub(r"^\[request id: [^\]]*\] ", "", parts["words"].rstrip('";. '))
    reason, _, right = words.rpartition(": write ")
    words = reason or words
    return {"reason": words, "place": evidence.at_named(words), "right": right if reason else ""}


def _file(evidence: Evidence) -> str:
    """The model's file as text; if there is none, the version's folder."""
    path = the_file(evidence)
    return _inside(evidence, path) if path else f"{evidence.version}/"


def _sentence(evidence: Evidence, parts: Parts) -> str:
    """The backend's message in one line, without this machine's paths and places in its code."""
    words = parts.get("words", "").strip("\"';:. ")
    if not words or words.startswith("Exception from"):
        after = (
            evidence.message.partition(parts.get("words") or "\n")[2]
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
    """FIL's model_type in the config, else its default."""
    return evidence.parameter("model_type") or "xgboost"
