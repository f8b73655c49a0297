"""Install perf_analyzer: take the binary and its licence out of a wheel of tritonclient.

The wheel of tritonclient 2.51.0 carries the perf_analyzer of the 24.10 release, built for old
glibc versions. Its Python package is not needed (the course uses a newer client), so the wheel is
downloaded, the binary copied out of it, and the wheel deleted. Two libraries that the binary needs
are linked to the copies in the server's wheel.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from ..common import paths
from ..common.errors import WorkbookError
from ..server import assemble

VERSION = "2.51.0"
_WHEEL_SHA256 = "c485bb0123bdf310f90bc8b03d3489b28df2ffed55b30c7eee0b795b48113d52"
_LIBRARIES = {"libb64.so.0d": "libb64-*.so.0d", "libcudart.so.12": "libcudart-*.so.12*"}


def install() -> Path:
    """Download perf_analyzer where it is missing; a second call does nothing.

    Returns:
        The folder that holds the binary `perf_analyzer`, `LICENSE.txt` and the linked libraries.

    Raises:
        WorkbookError: no network, a wheel with another hash, or a system that it cannot run on.
    """
    home = paths.state("tools") / f"perf_analyzer-{VERSION}"
    if not (home / "perf_analyzer").is_file():
        _fetch(home)
    _link_libraries(home)
    _write_command(home)
    return home


def command() -> tuple[Path, dict[str, str]]:
    """The path of the binary, downloaded where it is missing, and its environment variables."""
    home = install()
    env = dict(os.environ)
    env["LD_LIBRARY_PATH"] = os.pathsep.join(
        [str(home), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    )
    return home / "perf_analyzer", env


def commands() -> Path:
    """A folder for `PATH` with the command `perf_analyzer`, if `install` has been called.

    The command is a shell script, since the binary does not find its libraries by itself.
    """
    return paths.state("tools") / "bin"


def _write_command(home: Path) -> None:
    """Write the script that starts the binary with its libraries."""
    script = commands() / "perf_analyzer"
    text = f"""#!/bin/sh
LD_LIBRARY_PATH="{home}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" exec "{home}/perf_analyzer" "$@"
"""
    if script.is_file() and script.read_text("utf-8") == text:
        return
    script.parent.mkdir(exist_ok=True)
    fresh = script.with_name(f".{script.name}.{os.getpid()}")
    fresh.write_text(text, "utf-8")
    fresh.chmod(0o755)
    fresh.replace(script)


def _fetch(home: Path) -> None:
    if platform.machine() != "x86_64":
        raise WorkbookError(
            "perf_analyzer comes as a binary for x86_64 only.",
            where=platform.machine(),
            todo="Run perf_analyzer from NVIDIA's SDK container, on this server's address.",
        )
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".fetch-") as scratch:
        wheel = _download(Path(scratch))
        build = Path(scratch) / home.name
        build.mkdir()
        with zipfile.ZipFile(wheel) as archive:
            data = f"tritonclient-{VERSION}.data/data"
            for member in (f"{data}/bin/perf_analyzer", f"{data}/LICENSE.txt"):
                with archive.open(member) as source, (build / Path(member).name).open("wb") as copy:
                    shutil.copyfileobj(source, copy)
        (build / "perf_analyzer").chmod(0o755)
        _link_libraries(build)
        _try(build)
        try:
            build.rename(home)
        except OSError:
            if not (
                home / "perf_analyzer"
            ).is_file():  # another process may have installed it meanwhile
                raise


def _download(folder: Path) -> Path:
    """Download the pinned wheel; pip checks its hash."""
    pins = folder / "requirements.txt"
    pins.write_text(f"tritonclient=={VERSION} --hash=sha256:{_WHEEL_SHA256}\n")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes",
         "--only-binary=:all:", "--dest", str(folder), "--requirement", str(pins)],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        message = (errors or done.stderr.strip().splitlines() or ["pip printed nothing"])[-1]
        raise WorkbookError(
            f"perf_analyzer could not be fetched (tritonclient {VERSION}, 14 MB).",
            where=f"pip: {message}",
            todo="Connect to the network once and run `make setup`, or let pip find the wheel "
            "with PIP_FIND_LINKS=FOLDER.",
        )
    return wheels[0]


def _link_libraries(home: Path) -> None:
    """Link the libraries that the binary needs; replace links whose target is gone."""
    for name, pattern in _LIBRARIES.items():
        link = home / name
        if link.exists():
            continue
        found = [f for d in assemble.find().libraries for f in sorted(d.glob(pattern))]
        if not found:
            raise WorkbookError(
                f"The library {name}, which perf_analyzer needs, is not in the server wheel.",
                where=pattern,
                todo="Run `make setup` again.",
            )
        fresh = home / f".{name}.{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        fresh.symlink_to(found[0])
        fresh.replace(link)


def _try(home: Path) -> None:
    """Start the binary once, so that a missing system library is found now, not in a lecture."""
    env = {**os.environ, "LD_LIBRARY_PATH": str(home)}
    done = subprocess.run(
        [str(home / "perf_analyzer"), "--version"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if VERSION not in done.stdout + done.stderr:  # its exit status is not 0 even then
        raise WorkbookError(
            "perf_analyzer does not start on this system.",
            where=(done.stderr or done.stdout).strip() or f"exit status {done.returncode}",
            todo="It needs the system's OpenSSL 3 and zlib: `apt install libssl3 zlib1g`.",
        )
