"""Two small libraries that save the laptop server time, compiled where there is a compiler.

The server answers the same without them, later: see autocomplete.c and fastpath.cc.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

_AUTOCOMPLETE = Path(__file__).with_name("autocomplete.c")
_FASTPATH = Path(__file__).with_name("fastpath.cc")
_THEIRS = "libtriton_python_backend.so"  # Triton's own library, where ours bears its name


def fingerprint() -> str:
    """What the libraries depend on: their sources, the compiler, ONNX Runtime."""
    sources = (_AUTOCOMPLETE, _FASTPATH)
    made_by = [f"{_compiler(source)} {source.read_text('utf-8')}" for source in sources]
    return "\0".join([*made_by, str(_onnxruntime())])


def autocomplete(folder: Path) -> None:
    """Put autocomplete.so into a folder, where it can be made."""
    _compile(_AUTOCOMPLETE, folder / "autocomplete.so")


def fastpath(python_backend: Path, tritonserver: Path) -> None:
    """Put fastpath.cc's library before Triton's in the Python backend's folder, where it can be.

    Args:
        python_backend: the folder that holds libtriton_python.so.
        tritonserver: the library whose functions a backend calls. It is named as needed, so that
            they are found in whichever way a program has loaded it.
    """
    onnxruntime, theirs = _onnxruntime(), python_backend / "libtriton_python.so"
    ours = python_backend / "fastpath.so"
    if onnxruntime is None:
        return
    names = (f'-DONNXRUNTIME="{onnxruntime}"', f'-DPYTHON_BACKEND="{_THEIRS}"')
    # The server brings a C++ library of its own, older than the compiler's perhaps.
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
    """Make a shared library; False where there is no compiler, or one that does not work."""
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
