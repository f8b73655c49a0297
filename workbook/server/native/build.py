"""Compiles the helpers of the laptop server.

They make the server faster, and keep it running when a model fails. If there is no compiler, or the
compiler fails, the server runs without them and gives the same answers. README.md in this folder
describes them.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

_FOLDER = Path(__file__).parent
_FASTPATH = _FOLDER / "fastpath.cc"
_PROGRAMS = (_FOLDER / "forkserver.py", _FOLDER / "jail.py")  # what the fork server runs
_START_STUB = _FOLDER / "start_stub.c"
#: The sources of the library that the server preloads: first the C files, then the C++ files.
_PRELOADED = tuple(
    _FOLDER / name
    for name in (
        "autocomplete.c",
        "forkserver.c",
        "load_calls.c",
        "no_shell.c",
        "failed_models.cc",
        "revive.cc",
        "shared_metrics.cc",
    )
)
_HEADER = _FOLDER / "next.h"  # the C++ files include it
#: The new name of Triton's own library libtriton_python.so. Ours gets its old name.
_THEIRS = "libtriton_python_backend.so"


def fingerprint() -> str:
    """A text that changes whenever the libraries must be compiled again.

    It contains their sources, the compiler's path and the path of ONNX Runtime's library.
    """
    sources = (*_PRELOADED, _HEADER, _FASTPATH, *_PROGRAMS, _START_STUB)
    made_by = [f"{_compiler(source)} {source.read_text('utf-8')}" for source in sources]
    return "\0".join([*made_by, str(_onnxruntime())])


def preload(backends: Path) -> None:
    """Compile `preload.so`, which the server preloads, and put the fork server in place.

    Without a compiler, do nothing: `preload.so` is then missing, and stubs start as upstream's do.

    Args:
        backends: the backend directory, with the Python backend's folder.
    """
    python = backends / "python"
    if _compile([_START_STUB], python / "bin" / "start_stub", shared=False):
        for program in _PROGRAMS:
            shutil.copyfile(program, python / program.name)
        # Without a C++ compiler, compile the C files alone.
        for sources in (_PRELOADED, [s for s in _PRELOADED if s.suffix == ".c"]):
            if _compile(sources, backends / "preload.so", "-Wl,-z,lazy"):
                break


def fastpath(python_backend: Path, tritonserver: Path) -> None:
    """Compile fastpath.cc, and replace the Python backend's own library with it.

    The server loads `libtriton_python.so`. Triton's own library of that name is renamed, and ours
    gets the name. Ours then opens Triton's library under its new name. Without a compiler or ONNX
    Runtime, nothing is changed.

    Args:
        python_backend: the folder that holds libtriton_python.so.
        tritonserver: `libtritonserver`, which has the functions that a backend calls. Our library
            is linked to it. So every program finds the functions, also a program that has opened
            `libtritonserver` with `dlopen` (server/capi.py).
    """
    onnxruntime, theirs = _onnxruntime(), python_backend / "libtriton_python.so"
    ours = python_backend / "fastpath.so"
    if onnxruntime is None:
        return
    names = (f'-DONNXRUNTIME="{onnxruntime}"', f'-DPYTHON_BACKEND="{_THEIRS}"')
    # The server's own C++ library may be older than the compiler's: link the server's library.
    alone = ("-static-libstdc++", "-static-libgcc")
    if _compile(
        [_FASTPATH], ours, "-std=c++17", "-fvisibility=hidden", *names, *alone, tritonserver
    ):
        theirs.rename(theirs.with_name(_THEIRS))
        ours.rename(theirs)


def _compiler(source: Path) -> str | None:
    names = ("cc", "g++") if source.suffix == ".c" else ("g++", "c++")
    return next(filter(None, map(shutil.which, names)), None)


def _onnxruntime() -> Path | None:
    """The library with ONNX Runtime's C interface, from its Python package; None without it."""
    spec = importlib.util.find_spec("onnxruntime")
    if spec is None or spec.origin is None:
        return None
    return next((Path(spec.origin).parent / "capi").glob("libonnxruntime.so.*"), None)


def _compile(
    sources: Sequence[Path], target: Path, *words: str | Path, shared: bool = True
) -> bool:
    """Compile a library or a program; False if there is no compiler, or if it fails."""
    compilers = [_compiler(source) for source in sources]
    if None in compilers:
        return False
    kind = ("-shared", "-fPIC") if shared else ()
    languages = {".c": "c", ".cc": "c++"}
    named = [word for s in sources for word in ("-x", languages[s.suffix], s)]
    # The C++ compiler also compiles C, and links the C++ library.
    in_cxx = (c for c, s in zip(compilers, sources, strict=True) if s.suffix == ".cc")
    compiler = next(in_cxx, compilers[0])
    command = [compiler, "-O2", *kind, "-o", target, *named, "-x", "none", *words, "-ldl"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    except (OSError, subprocess.SubprocessError):
        target.unlink(missing_ok=True)
        return False
    return True
