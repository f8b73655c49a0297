"""Look-ups for failures of Python models. python_models.toml has the messages."""

from __future__ import annotations

import ast
import difflib
import functools
import pkgutil
import re
import sys
import sysconfig
from pathlib import Path

from .. import model_folder
from .evidence import PLACES, Evidence
from .rules import Advice, Catalogue, Parts, listed, near

PYTHON: Catalogue[Evidence] = Catalogue("python_models", PLACES)

#: The name in an import → the package that pip installs, if the two differ.
_PACKAGES = {
    "cv2": "opencv-python-headless",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "pyyaml",
    "bs4": "beautifulsoup4",
    "dateutil": "python-dateutil",
    "nvidia.dali": "nvidia-dali-cuda120",
}
#: The server's text for an exception without a text.
EMPTY = "<EMPTY MESSAGE>"
#: Short names that the course's examples use for modules → the modules.
_SHORT = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "tf": "tensorflow"}
_METHODS = {
    "__init__": "def __init__(self)",
    "initialize": "def initialize(self, args)",
    "execute": "def execute(self, requests)",
    "finalize": "def finalize(self)",
    "auto_complete_config": "@staticmethod def auto_complete_config(auto_complete_model_config)",
}


@PYTHON.look_up
def no_model_py(evidence: Evidence, parts: Parts) -> Parts:
    """The Python files that are there."""
    folder, _, name = evidence.python_file.rpartition("/")
    files = [f for f in evidence.files() if f.endswith(".py")]
    loose = [f for f in evidence.entries() if f.endswith(".py")]
    named = evidence.value("default_model_filename")
    return {
        "name": name,
        "meant": near(name, files) or (files or [""])[0],
        "loose": loose[0] if loose else "",
        "place": evidence.at("default_model_filename") if named else f"{folder}/",
    }


@PYTHON.look_up
def syntax_error(evidence: Evidence, parts: Parts) -> Parts | None:
    """The line of the file; None for another exception with a place."""
    error, file = parts["error"], parts["file"]
    if error not in ("Syntax", "Indentation", "Tab"):
        return None
    own = file in {*evidence.files(), "model.py"}
    path = f"{evidence.version}/{file}" if own else file
    code = evidence.code(path, int(parts["line"]))
    return {"path": path, "code": code, "tab": "yes" if error == "Tab" else "",
            "indentation": "yes" if error == "Indentation" else ""}  # fmt: skip


@PYTHON.look_up
def no_model_class(evidence: Evidence, parts: Parts) -> Parts:
    """The first class of the file."""
    for line in range(1, 2000):
        code = evidence.code(evidence.python_file, line)
        if found := re.match(r"class\s+(\w+)", code):
            return {"name": found[1], "line": str(line), "code": code}
    return {"name": "", "line": ""}


@PYTHON.look_up
def missing_package(evidence: Evidence, parts: Parts) -> Advice:
    """A file of the model's own, or a module of the server's Python."""
    module = parts["module"]
    what = f"The model's Python has no module {module}."
    return missing_file(module, evidence) or Advice(
        what, evidence.at_frame(), missing_module(module, evidence)
    )


def missing_file(module: str, evidence: Evidence) -> Advice | None:
    """The advice for `from .NAME import …` without a file NAME.py; None for any other module.

    The module name of model.py comes from the version's folder. So the module name of such a file
    begins with a number: 1.writing.

    missing_file("1.writing", evidence)  # writing.py is not in chat_stream/1. …
    """
    version, _, name = module.partition(".")
    if not version.isdigit() or not name:
        return None
    file = f"{name.replace('.', '/')}.py"
    here = f"{evidence.model}/{version}"
    folder = evidence.folder / version
    own = sorted(path.stem for path in folder.glob("*.py")) if folder.is_dir() else []
    meant = near(name, [stem for stem in own if f"{stem}.py" not in evidence.python_file])
    if meant:
        todo = f"Did you mean {meant}.py, which is there? Write {meant} in place of {name}."
    elif found := _elsewhere(file, evidence):
        todo = f"Put the file there: copy it from {found}."
    else:
        todo = f"Put the file there, beside {evidence.python_file.rpartition('/')[2]}; or correct "
        todo += "its name in the import."
    return Advice(f"{file} is not in {here}.", evidence.at_frame(), todo)


def _elsewhere(file: str, evidence: Evidence) -> str:
    """The path of a file with this name in another model of the repository; "" if there is none."""
    repository = evidence.folder.parent
    for model in evidence.neighbours():
        for version in model_folder.versions(repository / model):
            if (repository / model / str(version) / file).is_file():
                return f"{model}/{version}/{file}"
    return ""


def missing_module(module: str, evidence: Evidence) -> str:
    """The advice for a module that the model's Python does not find.

    The advice is to install a package only if no available module has a similar name: a misspelt
    name can be the name of somebody else's package.

    missing_module("nunpy", evidence)  # Did you mean numpy? Write numpy in place of nunpy.
    """
    top, _, inner = module.partition(".")
    if inner:
        return f"Look at the name: {top} may have no {inner} in this version."
    if (meant := _module_near(top, evidence)) not in ("", top):
        return f"Did you mean {meant}? Write {meant} in place of {top}."
    if top not in _PACKAGES and (found := _elsewhere(f"{top}.py", evidence)):
        return f"Put {top}.py beside model.py: copy it from {found}."
    package = _PACKAGES.get(top, top)
    keys = {section.text("key") for _, section in evidence.sections("parameters")}
    if "EXECUTION_ENV_PATH" in keys:
        return f"Install {package} in the environment of EXECUTION_ENV_PATH and pack it again."
    return (
        f"{package} is not installed in the environment of the server's Python (sys.prefix in "
        "model.py names it). On a laptop that is the course's .venv: `.venv/bin/pip list` shows "
        f"what it holds, `.venv/bin/pip install {package}` adds to it. In a container, or for this "
        "model alone: pack an environment that has it, and name it in EXECUTION_ENV_PATH."
    )


def _module_near(name: str, evidence: Evidence) -> str:
    """The module that was most likely meant; "" if none has a similar name.

    It may be a file of the model's own, a package that is installed here, or a module of the
    standard library. If two names are equally near, the first of these three kinds is taken.
    """
    if name in _SHORT:
        return _SHORT[name]
    files = {*evidence.files(), *evidence.entries()}
    own = {file.removesuffix(".py") for file in files if file.endswith(".py")}
    found = [
        near(name, group, cutoff=0.8) for group in (own, _installed(), sys.stdlib_module_names)
    ]
    return max(found, key=lambda meant: difflib.SequenceMatcher(None, name, meant).ratio())


@functools.cache
def _installed() -> frozenset[str]:
    """The modules that are installed in this environment, and those that this file names."""
    folders = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    names = {module.name for module in pkgutil.iter_modules(folders) if module.name[0] != "_"}
    return frozenset({*names, *_PACKAGES, "triton_python_backend_utils"})


@PYTHON.look_up
def import_name(evidence: Evidence, parts: Parts) -> Advice:
    """The names that the module has."""
    return missing_name(parts["name"], parts["module"], evidence)


def missing_name(name: str, module: str, evidence: Evidence) -> Advice:
    """The advice for a name that an import does not find in a module.

    missing_name("Answr", "1.writing", evidence)  # Write Answer in place of Answr.
    """
    if module.isdigit():  # from . import NAME
        absent = missing_file(f"{module}.{name}", evidence)
        assert absent is not None
        return absent
    version, _, inner = module.partition(".")
    if not version.isdigit():
        version, inner = evidence.version, module
    file = f"{version}/{inner.replace('.', '/')}.py"
    path = evidence.folder / file
    if not path.is_file():
        top = module.partition(".")[0]
        return Advice(
            f"The module {module} has no {name}.",
            evidence.at_frame(),
            f"Correct the name: Python's own module {top} has no such name."
            if top in sys.stdlib_module_names
            else f"Correct the name, or install the version of {top} that has it.",
        )
    known = _names_of(path)
    if meant := near(name, known):
        todo = f"Write {meant} in place of {name}."
    elif known:
        todo = f"Correct the name, or write {name} into {file}. It has {listed(known)}."
    else:
        todo = f"Correct the name, or write {name} into {file}."
    return Advice(f"{file} has no {name}.", evidence.at_frame(), todo)


def _names_of(path: Path) -> list[str]:
    """The names that a Python file defines at its top level; empty if it cannot be read."""
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (OSError, ValueError, SyntaxError):
        return []
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [target.id for target in targets if isinstance(target, ast.Name)]
    return [name for name in names if not name.startswith("_")]


@PYTHON.look_up
def method_signature(evidence: Evidence, parts: Parts) -> Parts:
    """How the backend calls the method, and its line in the file."""
    method = parts["method"]
    code = {n: evidence.code(evidence.python_file, n) for n in range(1, 2000)}
    line = next((n for n, text in code.items() if f"def {method}(" in text), 0)
    wanted = _METHODS.get(method, f"def {method}(self)")
    return {"wanted": wanted, "line": str(line or ""), "code": code.get(line, "")}


@PYTHON.look_up
def file_not_found(evidence: Evidence, parts: Parts) -> Parts:
    """A file of this name in the model's folder."""
    name = parts["path"].rpartition("/")[2]
    there = [f"{evidence.version}/{f}" for f in evidence.files() if f == name]
    there += [f for f in evidence.entries() if f == name]
    return {"name": name, "there": there[0] if there else ""}


@PYTHON.look_up
def python_exception(evidence: Evidence, parts: Parts) -> Parts | Advice | None:
    """When the model's own code raised it; None where no own line is in the traceback."""
    frame = evidence.frame()
    if frame is None:
        return None
    phase = {
        "<module>": "while it was imported",
        "initialize": "in initialize",
        "auto_complete_config": "in auto_complete_config",
    }
    functions = re.findall(r"\): (\S+)$", evidence.message, re.MULTILINE)
    when = next((phase[f] for f in functions if f in phase), "while it started")
    error, words = parts["error"], parts["words"].rstrip('";')
    if (advice := not_written(evidence.model, error, words, evidence)) is not None:
        return advice
    hints = {
        "key_error": error == "KeyError",
        "json": "string indices must be integers" in words,
        "none": "'NoneType' object" in words,
        "decode": error == "UnicodeDecodeError",
        "memory": error == "MemoryError",
    }
    found = {name: "yes" if applies else "" for name, applies in hints.items()}
    return {**found, "words": words, "raised": raised(error, words, when), "file": frame[0]}


def not_written(model: str, error: str, words: str, evidence: Evidence) -> Advice | None:
    """The advice for a NotImplementedError from a line of the model itself; else None."""
    frame = evidence.frame()
    if error != "NotImplementedError" or frame is None:
        return None
    file, line, function = frame
    code = evidence.code(file, line)
    if "NotImplementedError" not in code if code else words != EMPTY:  # a library raises it
        return None
    part = "" if function == "<module>" else f": {function} in {file}"
    return Advice(
        f"A part of {model} is not written yet{part}"
        + ("." if words == EMPTY else f" (NotImplementedError: {words})."),
        evidence.at_frame(),
        f"Write this part in place of line {line}, and load the model again.",
    )


def raised(error: str, words: str, when: str = "") -> str:
    """`raised ValueError in initialize: no weights`; without the text if the exception has none.

    raised("ValueError", "no weights", "in initialize")
    """
    text = f"raised {error}" + (f" {when}" if when else "")
    return f"{text}." if words == EMPTY else f"{text}: {words}"
