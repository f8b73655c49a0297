"""Compiles the two helpers of the laptop server: autocomplete.c and fastpath.cc.

They make the server faster. If there is no compiler, or the compiler fails, the server runs without
them and gives the same answers. README.md in this folder describes both.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

_AUTOCOMPLETE = Path(__file__).with_name("autocomplete.c")
_FASTPATH = Path(__file__).with_name("fastpath.cc")
#: Triton's own library libtriton_python.so is renamed to this. Ours gets the name that it had.
_THEIRS = "libtriton_python_backend.so"


def fingerprint() -> str:
    """A text that changes whenever the libraries must be compiled again.

    It holds their sources, the compiler's path and the path of ONNX Runtime's library.
    """
    sources = (_AUTOCOMPLETE, _FASTPATH)
    made_by = [f"{_compiler(source)} {source.read_text('utf-8')}" for source in sources]
    return "\0".join([*made_by, str(_onnxruntime())])


def autocomplete(folder: Path) -> None:
    """Compile autocomplete.c to `autocomplete.so` in a folder. Without a compiler, do nothing."""
    _compile(_AUTOCOMPLETE, folder / "autocomplete.so")


def fastpath(python_backend: Path, tritonserver: Path) -> None:
    """Compile fastpath.cc, and replace the Python backend's own library with it.

    The server loads `libtriton_python.so`. Triton's own library of that name is renamed, and ours
    gets the name. Ours then opens Triton's library under its new name. Without a compiler or ONNX
    Runtime, nothing is changed.

    Args:
        python_backend: the folder that holds libtriton_python.so.
        tritonserver: `libtritonserver`, which has the functions that a backend calls. Our library
            is linked to it. So the functions are found in every program, also in one that has
            opened `libtritonserver` with `dlopen` (server/capi.py).
    """
    onnxruntime, theirs = _onnxruntime(), python_backend / "libtriton_python.so"
    ours = python_backend / "fastpath.so"
    if onnxruntime is None:
        return
    names = (f'-DONNXRUNTIME="{onnxruntime}"', f'-DPYTHON_BACKEND="{_THEIRS}"')
    # The server comes with a C++ library that may be older than the compiler's: link that one.
    alone = ("-static-libstdc++", "-static-libgcc")
    if _compile(_FASTPATH, ours, "-std=c++17", "-fvisibility=hidden", *names, *alone, tritonserver):
        theirs.rename(theirs.with_name(_THEIRS))
        ours.rename(theirs)


def _compiler(source: Path) -> str | None:
    names = ("cc", "g++") if source.suffix == ".c" else ("g++", "c++")
    return next(filter(None, map(shutil.which, names)), None)


def _onnxruntime() -> Path | None:
    """The library with ONNX Runtime's C interface that comes in the Python package."""
    spec = importlib.util.find_spec("onnxruntime")
    if spec is None or spec.origin is None:
        return None
    return next((Path(spec.origin).parent / "capi").glob("libonnxruntime.so.*"), None)


def _compile(source: Path, target: Path, *words: str | Path) -> bool:
    """Compile a shared library; False where there is no compiler, or where it fails."""
    compiler = _compiler(source)
    if compiler is None:
        return False
    language = {".c": "c", ".cc": "c++"}[source.suffix]
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", target, "-x", language, source, "-x",
               "none", *words, "-ldl"]  # fmt: skip
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    except (OSError, subprocess.SubprocessError):
        target.unlink(missing_ok=True)
        return False
    return True
