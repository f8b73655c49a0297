"""Failures of Python models: their file, their imports, their methods, their exceptions.

The docstring of each rule is the advice of its entry.
"""

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
from .evidence import Evidence, at_field, at_frame
from .rules import Advice, Catalogue, Said, listed, near

PYTHON: Catalogue[Evidence] = Catalogue()

#: The name in an import → the package that pip installs, where the two differ.
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
#: What the server says of an exception without a text.
EMPTY = "<EMPTY MESSAGE>"
#: Short names that the course's examples use for modules → the modules.
_SHORT = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "tf": "tensorflow"}
_METHODS = {
    "__init__": "def __init__(self)",
    "initialize": "def initialize(self, args)",
    "execute": "def execute(self, requests)",
    "finalize": "def finalize(self)",
    "auto_complete_config": "@staticmethod\ndef auto_complete_config(auto_complete_model_config)",
}


@PYTHON.rule(
    "no-model-py",
    "Python model file not found in '{path}'",
    "Python model file not found",
    "model.py does not exist in the model repository path: {path:word}",
)
def no_model_py(evidence: Evidence, said: Said) -> Advice:
    """Put the model's code into VERSION/model.py, or name the file in default_model_filename."""
    file = evidence.python_file
    folder, _, name = file.rpartition("/")
    files = [f for f in evidence.files() if f.endswith(".py")]
    loose = [f for f in evidence.entries() if f.endswith(".py")]
    if files:
        meant = near(name, files) or files[0]
        todo = f'Rename {folder}/{meant} to {name}, or write default_model_filename: "{meant}".'
    elif loose:
        todo = f"Move {loose[0]} into {folder}/."
    else:
        todo = f"Write the class TritonPythonModel into {evidence.model}/{file}."
    return Advice(
        f"The Python model has no file {file}.",
        evidence.at("default_model_filename")
        if evidence.value("default_model_filename")
        else f"{folder}/",
        todo,
    )


@PYTHON.rule(
    "syntax-error",
    "SyntaxError: {words:rest} ({file:word}, line {line:int})",
    "IndentationError: {words:rest} ({file:word}, line {line:int})",
    "TabError: {words:rest} ({file:word}, line {line:int})",
)
def syntax_error(evidence: Evidence, said: Said) -> Advice:
    """Correct that line, or the one before it."""
    names = ("SyntaxError", "IndentationError", "TabError")
    error = next(name for name in names if f"{name}: {said['words']}" in evidence.message)
    file, line = said["file"], int(said["line"])
    own = file in {*evidence.files(), "model.py"}
    path = f"{evidence.version}/{file}" if own else file
    code = evidence.code(path, line)
    hints = {
        "TabError": "Indent with spaces only.",
        "IndentationError": "Let the line begin below a line of the same block.",
    }
    return Advice(
        f"{file} is not valid Python: {error}: {said['words']}.",
        f"{path}, line {line}" + (f": {code}" if code else ""),
        hints.get(error, "Mend this line; the mistake may be in the line before it."),
    )


@PYTHON.rule("no-model-class", "has no attribute 'TritonPythonModel'")
def no_model_class(evidence: Evidence, said: Said) -> Advice:
    """Call the class TritonPythonModel."""
    file = evidence.python_file
    for i in range(1, 2000):
        found = re.match(r"class\s+(\w+)", evidence.code(file, i))
        if found:
            return Advice(
                f"{file} has no class TritonPythonModel; it has {found[1]}.",
                f"{file}, line {i}: {evidence.code(file, i)}",
                f"Rename {found[1]} to TritonPythonModel.",
            )
    return Advice(
        f"{file} has no class TritonPythonModel.",
        file,
        "Write class TritonPythonModel with a method execute(self, requests).",
    )


@PYTHON.rule("missing-package", "ModuleNotFoundError: No module named '{module}'")
def missing_package(evidence: Evidence, said: Said) -> Advice:
    """Correct the module's name, put its file beside model.py, or add its package."""
    module = said["module"]
    if (advice := missing_file(module, evidence)) is not None:
        return advice
    return Advice(
        f"The model's Python has no module {module}.",
        evidence.at_frame(),
        missing_module(module, evidence),
    )


def missing_file(module: str, evidence: Evidence) -> Advice | None:
    """What to do about `from .NAME import …` without a file NAME.py; None for any other module.

    The module of model.py is called after the folder of its version, so that the name of such a
    file begins with a number: 1.writing.

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
    """A file of this name in a version of another model of the repository; "" without one."""
    repository = evidence.folder.parent
    for model in evidence.neighbours():
        for version in model_folder.versions(repository / model):
            if (repository / model / str(version) / file).is_file():
                return f"{model}/{version}/{file}"
    return ""


def missing_module(module: str, evidence: Evidence) -> str:
    """What to do about a module that the model's Python does not find.

    A package is named for installation only where no module that is there has a similar name:
    a misspelt name can be somebody else's package.

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
    """The module that was most likely meant; "" where none has a similar name.

    It may be a file of the model's own, a package that is installed here, or a module of the
    standard library; of two that are equally near the first of these is taken.
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


@PYTHON.rule("import-name", "ImportError: cannot import name '{name}' from '{module}'")
def import_name(evidence: Evidence, said: Said) -> Advice:
    """Import a name that the module has, in the installed version."""
    return missing_name(said["name"], said["module"], evidence)


def missing_name(name: str, module: str, evidence: Evidence) -> Advice:
    """What to do about a name that an import does not find in a module.

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
    """What a Python file defines at its top level; empty where it cannot be read."""
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


@PYTHON.rule(
    "method-signature",
    "TypeError: TritonPythonModel.{method:word}() takes {words:rest}",
    "TypeError: TritonPythonModel.{method:word}() missing {words:rest}",
)
def method_signature(evidence: Evidence, said: Said) -> Advice:
    """Write the method as the backend calls it."""
    method = said["method"]
    wanted = _METHODS.get(method, f"def {method}(self)")
    file = evidence.python_file
    lines = [i for i in range(1, 2000) if f"def {method}(" in evidence.code(file, i)]
    return Advice(
        f"{method} takes other arguments than the backend gives it.",
        f"{file}, line {lines[0]}: {evidence.code(file, lines[0])}" if lines else file,
        f"Write {wanted.replace(chr(10), ' ')}.",
    )


PYTHON.row(
    "auto-complete-returns-nothing",
    "auto_complete_config function in model '{model}' must return a valid pb.ModelConfig",
    what="auto_complete_config returns something else than the config.",
    where="{python_file}, auto_complete_config",
    todo="End it with `return auto_complete_model_config`.",
)


_TENSOR = (
    'Write {"name": "…", "data_type": "TYPE_FP32", "dims": [4]} (inputs also "optional": True).'
)
PYTHON.row(
    "auto-complete-property",
    "in auto-complete-config function for model '{model}' contains property other than "
    "{known:rest}",
    what="A tensor in auto_complete_config has a key too many.",
    where=at_frame,
    todo=_TENSOR,
)
PYTHON.row(
    "auto-complete-property",
    "in auto-complete-config function for model '{model}' is missing '{missing}' property",
    what="A tensor in auto_complete_config lacks {missing}.",
    where=at_frame,
    todo=_TENSOR,
)
PYTHON.row(
    "auto-complete-batch",
    "configuration specified max_batch_size {config:int}, but in auto-complete-config function for "
    "model '{model}' specified max_batch_size {code:int}",
    what="config.pbtxt says max_batch_size: {config}, auto_complete_config says {code}.",
    where=at_frame,
    todo="Write set_max_batch_size({config}), or take the line out of config.pbtxt.",
)
PYTHON.row(
    "unsafe-name",
    "the model's process was not started: a name on its command line",
    what="A name has a space or a special character. Triton 24.10 hands it to a shell, unquoted.",
    where=at_field("default_model_filename", "instance_group.name"),
    todo="Use letters, digits and . _ - + = : , @ % in the file's name, in the name of an "
    "instance_group, and in the model's own name.",
)
PYTHON.row(
    "process-died",
    "Stub process '{name}' is not healthy",
    "Stub process is not healthy",
    "Received unexpected response from Python backend stub",
    what="The model's process ended while it was starting.",
    where="{python_file}",
    todo="The end of the server's log may say why. Usual reasons: too little memory, a crash in a "
    "native library, os._exit.",
)


for _name, _words in (
    ("no-shared-memory", "Failed to initialize Python stub: No space left on device"),
    ("no-shared-memory-for-model", "Unable to initialize shared memory key '{key}'"),
):
    PYTHON.row(
        _name,
        _words,
        what="The shared memory is used up.",
        where="/dev/shm",
        todo="Stop servers that are not needed (`workbook stop`); in a container give "
        "--shm-size=1g.",
    )


@PYTHON.rule("file-not-found", "FileNotFoundError: [Errno 2] No such file or directory: '{path}'")
def file_not_found(evidence: Evidence, said: Said) -> Advice:
    """Build paths from args["model_repository"] and args["model_version"]."""
    path = said["path"]
    name = path.rpartition("/")[2]
    there = [f"{evidence.version}/{f}" for f in evidence.files() if f == name]
    there += [f for f in evidence.entries() if f == name]
    return Advice(
        f"The model opens a file that is not there: {path}.",
        evidence.at_frame(),
        f"{name} lies in the model's folder as {there[0]}; the server runs elsewhere. Write "
        'Path(args["model_repository"]) / args["model_version"] / … (or Path(__file__).parent).'
        if there
        else "Put it into the model's folder, and write the path from Path(__file__).parent.",
    )


@PYTHON.rule(
    "python-exception",
    "Internal: {error:id}: {words:rest}",
)
def python_exception(evidence: Evidence, said: Said) -> Advice | None:
    """Correct the line that it names; the exception comes from the model's own code."""
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
    words = said["words"].rstrip('";')
    if (advice := not_written(evidence.model, said["error"], words, evidence)) is not None:
        return advice
    return Advice(
        f"The model {raised(said['error'], words, when)}",
        evidence.at_frame(),
        _hint(said["error"], words, frame[0]),
    )


def not_written(model: str, error: str, words: str, evidence: Evidence) -> Advice | None:
    """What to do about a NotImplementedError that a model's own line raises; None for others."""
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
    """`raised ValueError in initialize: no weights`; without a text where the exception has none.

    raised("ValueError", "no weights", "in initialize")
    """
    said = f"raised {error}" + (f" {when}" if when else "")
    return f"{said}." if words == EMPTY else f"{said}: {words}"


def _hint(error: str, words: str, file: str) -> str:
    if error == "KeyError":
        return f"There is no {words}: print the keys that there are, they reach the server's log."
    if "string indices must be integers" in words:
        return 'args["model_config"] is JSON text: write json.loads(args["model_config"]).'
    if "'NoneType' object" in words:
        return (
            "Something is None: get_output_config_by_name and get_input_config_by_name return None "
            "for a name that the config does not have."
        )
    if error == "UnicodeDecodeError":
        return 'Open the file with encoding="utf-8".'
    if error == "MemoryError":
        return "Use a smaller model, or fewer instances."
    return f"Mend {file} there, then load the model again."
