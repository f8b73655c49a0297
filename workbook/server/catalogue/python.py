"""Failures of Python models: their file, their imports, their methods, their exceptions."""

from __future__ import annotations

import re

from .evidence import Evidence
from .rules import Advice, Catalogue, Said, near

PYTHON: Catalogue[Evidence] = Catalogue()

#: Packages whose import has another name than what pip installs.
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
    file = evidence.python_file()
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
    """Mend that line, or the one before it."""
    names = ("SyntaxError", "IndentationError", "TabError")
    error = next(name for name in names if f"{name}: {said['words']}" in evidence.message)
    file, line = said["file"], int(said["line"])
    own = file in {*evidence.files(), "model.py"}
    path = f"{evidence.version()}/{file}" if own else file
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
    file = evidence.python_file()
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
    """Install the package where the server's Python finds it, or pack an environment."""
    module = said["module"]
    top = module.partition(".")[0]
    has_environment = "EXECUTION_ENV_PATH" in {
        section.text("key") for _, section in evidence.sections("parameters")
    }
    package = _PACKAGES.get(module, _PACKAGES.get(top, top))
    if module != top:
        todo = f"Look at the name: {top} may have no {module.partition('.')[2]} in this version."
    elif has_environment:
        todo = f"Install {package} in the environment of EXECUTION_ENV_PATH and pack it again."
    else:
        todo = (
            f"Laptop server: `.venv/bin/pip install {package}`. In a container or for this model "
            "alone: pack an environment that has it, and name it in EXECUTION_ENV_PATH."
        )
    return Advice(f"The model's Python has no module {module}.", evidence.at_frame(), todo)


@PYTHON.rule("import-name", "ImportError: cannot import name '{name}' from '{module}'")
def import_name(evidence: Evidence, said: Said) -> Advice:
    """Import a name that the module has, in the installed version."""
    return Advice(
        f"The module {said['module']} has no {said['name']}.",
        evidence.at_frame(),
        f"Correct the name, or install the version of {said['module'].partition('.')[0]} that "
        "has it.",
    )


@PYTHON.rule(
    "method-signature",
    "TypeError: TritonPythonModel.{method:word}() takes {words:rest}",
    "TypeError: TritonPythonModel.{method:word}() missing {words:rest}",
)
def method_signature(evidence: Evidence, said: Said) -> Advice:
    """Write the method as the backend calls it."""
    method = said["method"]
    wanted = _METHODS.get(method, f"def {method}(self)")
    file = evidence.python_file()
    lines = [i for i in range(1, 2000) if f"def {method}(" in evidence.code(file, i)]
    return Advice(
        f"{method} takes other arguments than the backend gives it.",
        f"{file}, line {lines[0]}: {evidence.code(file, lines[0])}" if lines else file,
        f"Write {wanted.replace(chr(10), ' ')}.",
    )


@PYTHON.rule(
    "auto-complete-returns-nothing",
    "auto_complete_config function in model '{model}' must return a valid pb.ModelConfig",
)
def auto_complete_returns_nothing(evidence: Evidence, said: Said) -> Advice:
    """End auto_complete_config with return auto_complete_model_config."""
    return Advice(
        "auto_complete_config returns something else than the config.",
        f"{evidence.python_file()}, auto_complete_config",
        "End it with `return auto_complete_model_config`.",
    )


@PYTHON.rule(
    "auto-complete-property",
    "in auto-complete-config function for model '{model}' contains property other than "
    "{known:rest}",
    "in auto-complete-config function for model '{model}' is missing '{missing}' property",
)
def auto_complete_property(evidence: Evidence, said: Said) -> Advice:
    """Give add_input and add_output a dict of name, data_type and dims."""
    return Advice(
        "A tensor in auto_complete_config has a key too many."
        if said.get("known")
        else f"A tensor in auto_complete_config lacks {said.get('missing')}.",
        evidence.at_frame(),
        'Write {"name": "…", "data_type": "TYPE_FP32", "dims": [4]} '
        '(inputs also "optional": True).',
    )


@PYTHON.rule(
    "auto-complete-batch",
    "configuration specified max_batch_size {config:int}, but in auto-complete-config function for "
    "model '{model}' specified max_batch_size {code:int}",
)
def auto_complete_batch(evidence: Evidence, said: Said) -> Advice:
    """Let config.pbtxt and set_max_batch_size say the same."""
    return Advice(
        f"config.pbtxt says max_batch_size: {said['config']}, auto_complete_config says "
        f"{said['code']}.",
        evidence.at_frame(),
        f"Write set_max_batch_size({said['config']}), or take the line out of config.pbtxt.",
    )


@PYTHON.rule(
    "process-died",
    "Stub process '{name}' is not healthy",
    "Received unexpected response from Python backend stub",
)
def process_died(evidence: Evidence, said: Said) -> Advice:
    """Look at the end of the server's log; memory, os._exit and native crashes end a process."""
    return Advice(
        "The model's process ended while it was starting.",
        evidence.python_file(),
        "The server's log may hold its last words. Usual reasons: too little memory, a crash in a "
        "native library, os._exit.",
    )


@PYTHON.rule("no-shared-memory", "Failed to initialize Python stub: No space left on device")
@PYTHON.rule("no-shared-memory-for-model", "Unable to initialize shared memory key '{key}'")
def no_shared_memory(evidence: Evidence, said: Said) -> Advice:
    """Free /dev/shm, or give the container more (--shm-size)."""
    return Advice(
        "The shared memory is used up.",
        "/dev/shm",
        "Stop servers that are not needed (`workbook stop`); in a container give --shm-size=1g.",
    )


@PYTHON.rule("file-not-found", "FileNotFoundError: [Errno 2] No such file or directory: '{path}'")
def file_not_found(evidence: Evidence, said: Said) -> Advice:
    """Build paths from args["model_repository"] and args["model_version"]."""
    path = said["path"]
    name = path.rpartition("/")[2]
    there = [f"{evidence.version()}/{f}" for f in evidence.files() if f == name]
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
    """Mend the line that it names; the exception is the model's own."""
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
    return Advice(
        f"The model raised {said['error']} {when}: {words}",
        evidence.at_frame(),
        _hint(said["error"], words, frame[0]),
    )


def _hint(error: str, words: str, file: str) -> str:
    if error == "KeyError":
        return f"There is no {words}: print the keys that there are, they reach the server's log."
    if "string indices must be integers" in words:
        return 'args["model_config"] is JSON text: write json.loads(args["model_config"]).'
    if "'NoneType' object" in words:
        return (
            "Something is None: get_output_config_by_name and its kin return None for a name that "
            "the config does not have."
        )
    if error == "UnicodeDecodeError":
        return 'Open the file with encoding="utf-8".'
    if error == "MemoryError":
        return "Use a smaller model, or fewer instances."
    return f"Mend {file} there, then load the model again."
