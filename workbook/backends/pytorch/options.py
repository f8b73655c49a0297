"""The config of a model for torch.compile, checked before torch is imported.

The rules are those of triton-inference-server/pytorch_backend, src/model.py.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sysconfig
from pathlib import Path
from typing import Any

from workbook.backends.base import BadModel, Config


@dataclasses.dataclass(frozen=True)
class Options:
    """The settings of a model for torch.compile.

    Attributes:
        path: the user's `model.py`, or a TorchScript file.
        compile: torch.compile's arguments.
        threads, interop_threads: as NUM_THREADS and NUM_INTEROP_THREADS.
    """

    path: Path
    compile: dict[str, Any]
    threads: int
    interop_threads: int


def read(config: Config, device: str) -> Options:
    """Read the settings from a config, for a model that is to run on `device`.

    Raises:
        BadModel: a parameter is invalid, there is no model file, or no C++ compiler.
    """
    options = Options(
        threads=config.integer("NUM_THREADS", 1, least=1),
        interop_threads=config.integer("NUM_INTEROP_THREADS", 1, least=1),
        compile=_compile(config),
        path=_model_path(config),
    )
    inductor = options.compile.get("backend", "inductor") == "inductor"
    if inductor and device == "cpu" and options.path.suffix == ".py":
        _check_compiler()
    return options


def _check_compiler() -> None:
    """Refuse to load without a C++ compiler: torch.compile needs it at the first request."""
    compiler = os.environ.get("CXX", "g++")  # as torch._inductor.config.cpp.cxx
    if shutil.which(compiler) is None:
        raise BadModel(
            f"torch.compile needs a C++ compiler, and there is no '{compiler}' on PATH. Install "
            "one (Debian, Ubuntu: `apt install g++`), or write TORCH_COMPILE_OPTIONAL_PARAMETERS "
            '{"backend": "eager"} to serve the model uncompiled'
        )
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        raise BadModel(
            f"torch.compile needs Python's headers, and {header} is missing. Install them "
            "(Debian, Ubuntu: `apt install python3-dev`)"
        )


def _compile(config: Config) -> dict[str, Any]:
    text = config.parameters.get("TORCH_COMPILE_OPTIONAL_PARAMETERS")
    if text is None:
        return {}
    try:
        options = json.loads(text)
    except ValueError as error:
        raise BadModel(
            f"TORCH_COMPILE_OPTIONAL_PARAMETERS is not JSON ({error}); "
            'write e.g. {\\"mode\\": \\"max-autotune\\"}'
        ) from None
    if not isinstance(options, dict):
        raise BadModel(f"TORCH_COMPILE_OPTIONAL_PARAMETERS is not a JSON object: {text}")
    if "model" in options:
        raise BadModel("'model' is not an optional parameter for 'torch.compile'")
    return options


def _model_path(config: Config) -> Path:
    candidates = ["model.py", "model.pt"]
    if config.raw.get("default_model_filename"):
        candidates.insert(0, str(config.raw["default_model_filename"]))
    for name in candidates:
        path = config.version_directory / name
        if path.exists():
            return path
    raise BadModel(f"No model found in {config.version_directory}/{candidates}")
