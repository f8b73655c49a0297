"""Files of a model that are missing or unreadable, and values of parameters that are refused.

The files are version folders, weights, labels and packed Python environments.

The docstring of each rule is the advice of its entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from ..pbtxt import Scalar
from . import formats
from .config_values import backend_of, pt2
from .evidence import CONFIG, Evidence, at_parameter, show, string_value
from .repositories import how_to_add
from .rules import Advice, Catalogue, Said, fill, listed, near
from .unreadable_files import backend

FILES: Catalogue[Evidence] = Catalogue()


@FILES.rule("no-such-model", "failed to poll from model repository", "model not found in any model")
def no_such_model(evidence: Evidence, said: Said) -> Advice | None:
    """Load a name that the repository has."""
    if evidence.folder.is_dir() or not evidence.folder.parent.is_dir():
        return None
    known = evidence.neighbours()
    meant = near(evidence.model, known)
    return Advice(
        f"The repository has no model {evidence.model}.",
        str(evidence.folder.parent),
        f"Load {meant}."
        if meant
        else f"It holds {listed(known) if known else 'no model'}. "
        f"{how_to_add(evidence.folder.parent)}",
    )


@FILES.rule(
    "no-version",
    "at least one version must be available under the version policy of model '{model}'",
)
def no_version(evidence: Evidence, said: Said) -> Advice:
    """Put the model's file into a folder named by a number, which version_policy serves."""
    versions = evidence.versions()
    wanted = [
        f.value.text
        for f in evidence.config.walk()
        if f.name == "versions" and isinstance(f.value, Scalar)
    ]
    if versions and wanted:
        return Advice(
            f"version_policy asks for version {listed(wanted)}, and the folder has "
            f"{listed(map(str, versions))}.",
            evidence.at("version_policy.specific.versions"),
            f"Write versions: [ {', '.join(map(str, versions))} ], or add the folder {wanted[0]}/.",
        )
    if versions:
        return Advice(
            "version_policy serves none of the versions there are.",
            evidence.at("version_policy.latest.num_versions", "version_policy"),
            "Write version_policy { latest { num_versions: 1 } }, or take it out.",
        )
    entries = evidence.entries()
    almost = [n for n in entries if n.endswith("/") and re.search(r"\d", n)]
    loose = [n for n in entries if re.search(r"\.(py|onnx|pt|xml|plan|json|ubj|tl|dali)$", n)]
    if evidence.value("platform") == "ensemble":
        todo = f"Make the empty folder {evidence.model}/1/: an ensemble has a version as well."
    elif almost:
        number = re.sub(r"\D", "", almost[0]).lstrip("0") or "1"
        todo = f"Rename {almost[0]} to {number}/: a version folder is named by a number alone."
    elif loose:
        todo = f"Move {loose[0]} into the folder {evidence.model}/1/."
    else:
        todo = f"Put the model's file into {evidence.model}/1/, e.g. {evidence.model}/1/model.py."
    return Advice("The model has no version folder.", f"{evidence.model}/", todo)


@FILES.rule("file-unreadable", "failed to open text file for read {path:word}: {why:rest}")
def file_unreadable(evidence: Evidence, said: Said) -> Advice:
    """Put the file where the config says, or correct its name in the config."""
    path = said["path"]
    name = path.rpartition(f"/{evidence.model}/")[2]
    why = said["why"].rstrip("; ")
    if name == CONFIG:
        return Advice(
            f"config.pbtxt cannot be read: {why}.",
            CONFIG,
            f"Make it readable: `chmod a+r {evidence.model}/{CONFIG}`.",
        )
    for field in evidence.config.walk():
        value = field.value.text if isinstance(field.value, Scalar) else ""
        if value and path.endswith(f"/{value}") and field.name.endswith(("filename", "file")):
            base = value.rpartition("/")[2]
            if base != value and field.name == "label_filename" and base in evidence.entries():
                return Advice(
                    f"There is no file {value} in the model's folder; {base} is there.",
                    show(field),
                    f'Write label_filename: "{base}": the path begins in the model\'s folder.',
                )
            name = name if name.endswith(value) else value
            there = "the model's folder" if field.name == "label_filename" else name[: -len(value)]
            seen = near(value, evidence.entries())
            return Advice(
                f"The file {value} is not in {there}."
                if "No such file" in why
                else f"The file {value} cannot be read: {why}.",
                show(field),
                f'Write "{seen}", or put {value} into {there}.'
                if seen
                else f"Put {value} there, as {evidence.model}/{name}.",
            )
    return Advice(f"The file {name} cannot be read: {why}.", name, "Put it there, readable.")


@FILES.rule(
    "missing-file",
    "failed to stat file {path:word}",
    "unable to find '{path}' for model",
    "unable to find {path:word} for model",
    "Failed to load model file. The program looked in the following locations: {path:word},",
    "No model found in {path:rest}",
)
def missing_file(evidence: Evidence, said: Said) -> Advice:
    """Put the weights there under that name, or write default_model_filename."""
    path = said["path"].rstrip("/.:;")
    inside = path.rpartition(f"/{evidence.model}/")[2] if f"/{evidence.model}/" in path else path
    folder, _, name = inside.rpartition("/")
    version = folder or evidence.version
    if name.startswith("["):  # pytorch lists the names that it tried
        name = "model.pt"
    files = [f for f in evidence.files() if not f.startswith("__pycache__")]
    here = evidence.folder / version
    if evidence.value("backend") == "fil" and len(files) == 1:
        meant = formats.written_as(here / files[0])
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
    """What the files of a version are in place of the model's, and what to do.

    A file gets another name only where its format is the one that the backend reads.
    """
    named = backend(evidence)
    written = {f.rstrip("/"): formats.written_as(here / f) for f in files}
    if named == "tensorflow" and "saved_model.pb" in written:
        inner = listed(f for f in files if f.startswith(("saved_model.pb", "variables", "assets")))
        return "", f"Make the folder {here.name}/{name}/, and move {inner} into it."
    wanted = formats.READS.get(named, set())
    if named == "fil":
        wanted = {evidence.parameter("model_type") or "xgboost"}
    elif named == "tensorflow":
        wanted = {"graphdef"} if "graphdef" in evidence.value("platform") else {"savedmodel"}
    elif not wanted:
        wanted = {formats.ENDINGS.get(Path(name).suffix, "")} - {""}
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
        if named == "dali" and b"@autoserialize" in formats.head(here / file, 1 << 20):
            return "", f"Rename {file} to dali.py: it makes the pipeline."
    known = next((f for f in written if written[f] in formats.NAMES), "")
    if not known or not named:
        return "", f"Put the model's file there as {name}, or name it in default_model_filename."
    form = written[known]
    if form == "torch":  # neither a whole archive nor a pickle: the bytes do not tell
        return "", (
            f"If {known} is TorchScript (torch.jit.save), rename it to {name}. If torch.save wrote "
            f"it: {formats.how_to_convert(form, named, known)}"
        )
    kind = f": {formats.NAMES[form]}" if len(files) == 1 else f"; {known} is {formats.NAMES[form]}"
    return (
        f"{kind}. Another name does not make it a file for {named}",
        formats.how_to_convert(form, named, known),
    )


def _other_backend(evidence: Evidence, files: list[str]) -> Advice | None:
    """What to do about the one file of another backend than the config's; None where it is not."""
    named = backend(evidence)
    meant = backend_of(files) if len(files) == 1 else ""
    written = formats.by_bytes(evidence.folder / evidence.version / files[0]) if meant else ""
    if written and written not in formats.READS.get(meant, {written}):
        return None  # the ending is that backend's, the file is not
    reads_it = (named, meant) in _ALSO or meant == "python"
    if not named or not meant or named == meant or reads_it:
        return None
    return Advice(
        f"{evidence.version}/ holds {listed(files)}, a file for the backend {meant}; the config "
        f"names {named}.",
        evidence.at("backend") if evidence.value("backend") else evidence.at("platform"),
        f'Write backend: "{meant}" there, or put a model for {named} into {evidence.version}/.',
    )


#: Backends that read another one's files, where default_model_filename names them.
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
    """What to do about XGBoost's file with a name of another kind, by its first bytes.

    None where they do not tell, or tell the config's model_type: then another name is enough.
    """
    written = formats.by_bytes(evidence.folder / evidence.version / file)
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


FILES.row(
    "environment-one-dollar",
    "Failed to get the canonical path for ${name:word}",
    what="EXECUTION_ENV_PATH begins with one dollar sign.",
    where=at_parameter("EXECUTION_ENV_PATH"),
    todo="Write two: $$TRITON_MODEL_DIRECTORY/…",
)


@FILES.rule(
    "no-environment",
    "Failed to get the canonical path for {path:word}",
    "Path {path:word} does not exist. The Python environment should contain an 'activate' script",
)
def no_environment(evidence: Evidence, said: Said) -> Advice:
    """Put the packed environment where EXECUTION_ENV_PATH says."""
    path = said["path"].rstrip(".")
    where = evidence.at_parameter("EXECUTION_ENV_PATH")
    if path.endswith("/bin/activate"):
        return Advice(
            "The environment of EXECUTION_ENV_PATH has no file bin/activate.",
            where,
            "bin must be at the top of the archive or folder, with no other folder around it: pack "
            "with venv-pack or conda-pack, or with `tar -czf env.tar.gz -C ENVIRONMENT .`",
        )
    name = path.rpartition(f"/{evidence.model}/")[2]
    return Advice(
        f"EXECUTION_ENV_PATH names an environment that is not there: {name}.",
        where,
        f"Pack one (`venv-pack -o {name.rpartition('/')[2]}`) into the model's folder, and write "
        "$$TRITON_MODEL_DIRECTORY/ before its name.",
    )


FILES.row(
    "environment-not-unpacked",
    "Failed to create environment directory for '{path}'",
    what="The server cannot unpack another environment: an archive before it could not be read.",
    where=at_parameter("EXECUTION_ENV_PATH"),
    todo="Mend or remove the broken archive, and start the server again. Or unpack the environment "
    "yourself, and name the folder.",
)
FILES.row(
    "broken-environment",
    "archive_read_open_filename() failed",
    "archive_read_next_header() failed",
    "archive_write_header() failed",
    what="The packed environment is not an archive that can be read.",
    where=at_parameter("EXECUTION_ENV_PATH"),
    todo="Pack it again as .tar.gz with venv-pack or conda-pack.",
)


_BOOLEAN = '"true" or "false"'
_WHOLE = 'a whole number in quotes, e.g. "4"'
_NAMED = "one of the values that the message below names"
_TYPES = {"boolean": _BOOLEAN, "integral": _WHOLE}
#: A backend's message about the value of a parameter → what the value must be.
_VALUES = (
    ("Incorrect value for {key:word}: {value:rest}", _BOOLEAN),
    ("failed to convert '{value}' to {type:id}", ""),
    ("parameter {key:word} is {value:word}; it must be at least {least:int}", _WHOLE),
    ("Expected 'true' or 'false' for parameter '{key}', got: '{value}'", _BOOLEAN),
    ("Bad input for parameter {key:word}: '{value}'", 'a number in quotes, e.g. "0.5",'),
    ("expected the parameter '{key}' to be a non-negative number, got {value:rest}", _WHOLE),
    ("expected the parameter '{key}' to {wanted}, got {value:rest}", _NAMED),
    ("Expected values for  {key:id} are 0 or 1 but got {value:word}", '"0" or "1"'),
    ("unsupported {key:id} value '{value}' is requested", _NAMED),
    ("parameter '{key}' must be {wanted} number{rest:rest}", "{wanted} number in quotes"),
    ("Unknown {what} name: {value:word}. ", _NAMED),
    (
        "{value:word} not recognized as a valid serialization format",
        "xgboost_json, xgboost_ubj, lightgbm or treelite_checkpoint",
    ),
)


def _bad_parameter(wanted: str) -> Callable[[Evidence, Said], Advice]:
    def advise(evidence: Evidence, said: Said) -> Advice:
        """Write a value that the parameter may have; a parameter is always a string."""
        entries = [section for _, section in evidence.sections("parameters")]
        value = said.get("value", "").rstrip("';. ")
        key = said.get("key", "")
        if "value" not in said:
            value = next((string_value(s) for s in entries if s.text("key") == key), "")
        elif not key:
            same = (s.text("key") for s in entries if string_value(s).lower() == value.lower())
            key = next(same, "model_type" if "treelite" in wanted else "")
        right = wanted or _TYPES.get(said["type"], _NAMED)
        return Advice(
            f'The parameter {key or "named below"} cannot be "{value}".',
            evidence.at_parameter(key),
            f"Write {fill(right, evidence, said)} as its string_value.",
        )

    return advise


for _words, _wanted in _VALUES:
    FILES.rule("bad-parameter", _words)(_bad_parameter(_wanted))
