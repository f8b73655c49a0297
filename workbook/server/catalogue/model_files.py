"""Look-ups for missing files, and for parameters. model_files.toml has the messages."""

from __future__ import annotations

import re
from pathlib import Path

from ..pbtxt import Scalar
from . import file_formats
from .config_values import backend_of, pt2
from .evidence import CONFIG, PLACES, Evidence, show, string_value
from .repositories import how_to_add
from .rules import Advice, Catalogue, Parts, listed, near
from .unreadable_files import backend

FILES: Catalogue[Evidence] = Catalogue("model_files", PLACES)

_WHOLE, _BOOLEAN = 'a whole number in quotes, e.g. "4"', '"true" or "false"'
#: A part of a backend's message about a parameter → what its value must be.
_VALUES = (
    ("Incorrect value for ", _BOOLEAN),
    ("Expected 'true' or 'false' for parameter", _BOOLEAN),
    ("' to boolean", _BOOLEAN),
    ("' to integral", _WHOLE),
    ("; it must be at least ", _WHOLE),
    ("' to be a non-negative number", _WHOLE),
    ("Bad input for parameter ", 'a number in quotes, e.g. "0.5",'),
    (" are 0 or 1 but got ", '"0" or "1"'),
    ("serialization format", "xgboost_json, xgboost_ubj, lightgbm or treelite_checkpoint"),
)


@FILES.look_up
def no_such_model(evidence: Evidence, parts: Parts) -> Parts | None:
    """The models that the repository has; None where this one is among them."""
    repository = evidence.folder.parent
    if evidence.folder.is_dir() or not repository.is_dir():
        return None
    known = evidence.neighbours()
    return {
        "repository": str(repository),
        "meant": near(evidence.model, known),
        "known": listed(known) if known else "no model",
        "how_to_add": how_to_add(repository),
    }


@FILES.look_up
def no_version(evidence: Evidence, parts: Parts) -> Parts:
    """The versions that there are, and those that version_policy asks for."""
    versions = [str(version) for version in evidence.versions()]
    fields = [f.value for f in evidence.config.walk() if f.name == "versions"]
    wanted = [value.text for value in fields if isinstance(value, Scalar)] if versions else []
    entries = evidence.entries()
    almost = [n for n in entries if n.endswith("/") and re.search(r"\d", n)]
    loose = [n for n in entries if re.search(r"\.(py|onnx|pt|xml|plan|json|ubj|tl|dali)$", n)]
    place = f"{evidence.model}/"
    if wanted:
        place = evidence.at("version_policy.specific.versions")
    elif versions:
        place = evidence.at("version_policy.latest.num_versions", "version_policy")
    return {
        "wanted": listed(wanted) if wanted else "",
        "first": wanted[0] if wanted else "",
        "there": listed(versions) if versions else "",
        "versions": ", ".join(versions),
        "ensemble": "yes" if evidence.value("platform") == "ensemble" else "",
        "almost": almost[0] if almost else "",
        "number": (re.sub(r"\D", "", almost[0]).lstrip("0") or "1") if almost else "",
        "loose": loose[0] if loose else "",
        "place": place,
    }


@FILES.look_up
def file_unreadable(evidence: Evidence, parts: Parts) -> Parts:
    """The field that names the file, and a file with a similar name."""
    path, why = parts["path"], parts["why"].rstrip("; ")
    name = path.rpartition(f"/{evidence.model}/")[2]
    if name == CONFIG:
        return {"config": "yes", "why": why, "place": CONFIG}
    for field in evidence.config.walk():
        value = field.value.text if isinstance(field.value, Scalar) else ""
        if value and path.endswith(f"/{value}") and field.name.endswith(("filename", "file")):
            labels, base = field.name == "label_filename", value.rpartition("/")[2]
            name = name if name.endswith(value) else value
            deeper = labels and base != value and base in evidence.entries()
            return {
                "value": value,
                "base": base if deeper else "",
                "absent": "yes" if "No such file" in why else "",
                "there": "the model's folder" if labels else name[: -len(value)],
                "why": why,
                "seen": near(value, evidence.entries()),
                "name": name,
                "place": show(field),
            }
    return {"name": name, "why": why, "place": name}


@FILES.look_up
def missing_file(evidence: Evidence, parts: Parts) -> Advice:
    """What lies in the place of the model's file."""
    path = parts["path"].rstrip("/.:;")
    inside = path.rpartition(f"/{evidence.model}/")[2] if f"/{evidence.model}/" in path else path
    folder, _, name = inside.rpartition("/")
    version = folder or evidence.version
    if name.startswith("["):  # pytorch lists the names that it tried
        name = "model.pt"
    files = [f for f in evidence.files() if not f.startswith("__pycache__")]
    here = evidence.folder / version
    if evidence.value("backend") == "fil" and len(files) == 1:
        meant = file_formats.written_as(here / files[0])
        if meant in _FIL_TYPES and meant != evidence.parameter("model_type"):
            if files[0].endswith(_FIL_TYPES[meant]):
                return _other_model_type(evidence, f"{version}/{name}", files[0], meant)
            if (advice := _written_as(evidence, f"{version}/{name}", files[0])) is not None:
                return advice
    if (other := pt2(evidence) or _other_backend(evidence, files)) is not None:
        return other
    what, todo = _in_its_place(evidence, here, name, files)
    return Advice(
        f"The model's file {version}/{name} is missing"
        + (f"; {version}/ holds {listed(files)}{what}." if files else f": {version}/ is empty."),
        evidence.at("default_model_filename")
        if evidence.value("default_model_filename")
        else f"{version}/",
        todo,
    )


def _in_its_place(evidence: Evidence, here: Path, name: str, files: list[str]) -> tuple[str, str]:
    """What the version's folder holds in place of the model's file, and what to do.

    The advice is to rename a file only if its format is one that the backend reads.
    """
    named = backend(evidence)
    written = {f.rstrip("/"): file_formats.written_as(here / f) for f in files}
    if named == "tensorflow" and "saved_model.pb" in written:
        inner = listed(f for f in files if f.startswith(("saved_model.pb", "variables", "assets")))
        return "", f"Make the folder {here.name}/{name}/, and move {inner} into it."
    wanted = file_formats.READS.get(named, set())
    if named == "fil":
        wanted = {evidence.parameter("model_type") or "xgboost"}
    elif named == "tensorflow":
        wanted = {"graphdef"} if "graphdef" in evidence.value("platform") else {"savedmodel"}
    elif not wanted:
        wanted = {file_formats.ENDINGS.get(Path(name).suffix, "")} - {""}
    for file, form in written.items():
        if form in wanted:
            weights = f"{Path(file).stem}.bin"
            both = f", and {weights} to {Path(name).stem}.bin" if weights in written else ""
            return "", (
                f'Rename {file} to {name}{both}; or write default_model_filename: "{file}".'
                if both
                else f'Rename {file} to {name}, or write default_model_filename: "{file}".'
            )
        if named == "openvino" and form == "onnx":
            return "", f'Write default_model_filename: "{file}": OpenVINO reads it as it is.'
        if named == "dali" and b"@autoserialize" in file_formats.head(here / file, 1 << 20):
            return "", f"Rename {file} to dali.py: it makes the pipeline."
    known = next((f for f in written if written[f] in file_formats.NAMES), "")
    if not known or not named:
        return "", f"Put the model's file there as {name}, or name it in default_model_filename."
    form = written[known]
    if form == "torch":  # neither a complete archive nor a pickle: the bytes do not show what it is
        return "", (
            f"If {known} is TorchScript (torch.jit.save), rename it to {name}. If torch.save wrote "
            f"it: {file_formats.how_to_convert(form, named, known)}"
        )
    kind = (
        f": {file_formats.NAMES[form]}"
        if len(files) == 1
        else f"; {known} is {file_formats.NAMES[form]}"
    )
    return (
        f"{kind}. Another name does not make it a file for {named}",
        file_formats.how_to_convert(form, named, known),
    )


def _other_backend(evidence: Evidence, files: list[str]) -> Advice | None:
    """The advice if the only file belongs to another backend than the config names; else None."""
    named = backend(evidence)
    meant = backend_of(files) if len(files) == 1 else ""
    written = file_formats.by_bytes(evidence.folder / evidence.version / files[0]) if meant else ""
    if written and written not in file_formats.READS.get(meant, {written}):
        return None  # the file has that backend's ending, but another format
    reads_it = (named, meant) in _ALSO or meant == "python"
    if not named or not meant or named == meant or reads_it:
        return None
    return Advice(
        f"{evidence.version}/ holds {listed(files)}, a file for the backend {meant}; the config "
        f"names {named}.",
        evidence.at("backend") if evidence.value("backend") else evidence.at("platform"),
        f'Write backend: "{meant}" there, or put a model for {named} into {evidence.version}/.',
    )


#: Pairs of backends: the first reads a file of the second if default_model_filename names it.
_ALSO = {("openvino", "onnxruntime"), ("openvino", "tensorflow")}
#: The `model_type` of a forest's file → its ending.
_FIL_TYPES = {
    "xgboost_json": ".json",
    "xgboost_ubj": ".ubj",
    "lightgbm": ".txt",
    "treelite_checkpoint": ".tl",
}


def _other_model_type(evidence: Evidence, wanted: str, file: str, meant: str) -> Advice:
    given = evidence.parameter("model_type")
    misspelt = evidence.parameter_like("model_type")
    what = f'model_type is "{given}"' if given else "The config names no model_type"
    return Advice(
        f"{what}, so the server looks for {wanted}, and finds {file}.",
        evidence.at_parameter(misspelt or "model_type"),
        f'Write key: "model_type" in place of "{misspelt}".'
        if misspelt
        else f'Write model_type "{meant}" for {file}; or, if the file is of another type, name it '
        f"{wanted.rpartition('/')[2]}.",
    )


def _written_as(evidence: Evidence, wanted: str, file: str) -> Advice | None:
    """The advice for XGBoost's file if its first bytes show another format than model_type.

    None if the bytes do not show the format. None, too, if they agree with model_type: then the
    file only needs another name.
    """
    written = file_formats.by_bytes(evidence.folder / evidence.version / file)
    if written not in ("xgboost_json", "xgboost_ubj"):
        return None
    kind = written.removeprefix("xgboost_")
    given = evidence.parameter("model_type")
    if given == f"xgboost_{kind}":
        return None
    return Advice(
        f'model_type is "{given}", so the server looks for {wanted}. There is {file}, written as '
        f"XGBoost's {'JSON' if kind == 'json' else 'UBJSON'}.",
        evidence.at_parameter("model_type"),
        f'Rename {file} to xgboost.{kind}, and write model_type "xgboost_{kind}".'
        + (
            ' Or save the model anew: save_model("xgboost.json").'
            if given == "xgboost_json"
            else ""
        ),
    )


@FILES.look_up
def no_environment(evidence: Evidence, parts: Parts) -> Parts:
    """Whether the environment itself is missing, or its file bin/activate."""
    path = parts["path"].rstrip(".")
    name = path.rpartition(f"/{evidence.model}/")[2]
    return {"name": name, "file": name.rpartition("/")[2],
            "activate": "yes" if path.endswith("/bin/activate") else ""}  # fmt: skip


@FILES.look_up
def bad_parameter(evidence: Evidence, parts: Parts) -> Parts:
    """The parameter's key and value, of which the message names one or both."""
    entries = [section for _, section in evidence.sections("parameters")]
    value, key = parts.get("value", "").rstrip("';. "), parts.get("key", "")
    if "value" not in parts:
        value = next((string_value(s) for s in entries if s.text("key") == key), "")
    elif not key:
        same = (s.text("key") for s in entries if string_value(s).lower() == value.lower())
        key = next(same, "model_type" if "serialization format" in evidence.message else "")
    right = next((text for words, text in _VALUES if words in evidence.message), "")
    place = evidence.at_parameter(key)
    return {"key": key or "named below", "value": value, "right": right, "place": place}
