"""What a server does when /dev/shm or the disk is full: programs for test_faults_full.py.

    python full_places.py shm FOLDER      in a mount namespace with a small /dev/shm
    python full_places.py disk FOLDER     with a small file system at FOLDER

They print what they saw as JSON. Each keeps another model busy meanwhile.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from fault_models import Asking, ask, regions, write

from workbook.common.errors import WorkbookError
from workbook.server import Triton, deploy

MIB = 2**18  # values of 4 bytes
MODELS = [f"m{number}" for number in range(40)]


def error_of(function: Any, *words: Any) -> str:
    """The message of the error that a call raises; "" if it raises none."""
    try:
        function(*words)
    except Exception as error:
        return str(error)
    return ""


def shared_memory(folder: Path) -> dict[str, Any]:
    """Requests that do not fit, then loads until nothing fits, then unloads."""
    write(folder, *MODELS)
    seen: dict[str, Any] = {}
    with Triton(folder, models=["m0", "m1"]) as server, Asking(server, "m0") as busy:
        seen["too large"] = [
            error_of(ask, server, "m1", [1.0] * 16 * MIB, k) for k in ("http", "grpc")
        ]
        seen["afterwards"] = ask(server, "m1", [1.0])
        for name in MODELS[2:]:
            if refused := error_of(server.load, name):
                break
        seen["refused"], seen["loaded"] = refused, len(regions(server))
        seen["refused is served"] = server.ready(name)
        server.unload("m2")
        server.unload("m3")
        server.load(name)
        seen["loaded then"] = ask(server, name, [1.0])
    seen["busy"], seen["failures"] = busy.answered, busy.failures
    seen["left"] = [path.name for path in Path("/dev/shm").iterdir()]
    return seen


def disk(folder: Path) -> dict[str, Any]:
    """A deploy on a full disk, one that fills it, and one after there is space again."""
    source = write(folder.with_name("sources"), "m1")
    repository, filler = folder / "models", folder / "filler"
    write(repository, "m0", "m1")
    seen: dict[str, Any] = {}
    with Triton(repository, models=["m0", "m1"]) as server, Asking(server, "m0") as busy:
        (source / "1" / "model.py").open("a").write("VERSION = 2\n")
        seen["no space to spare"] = _refused_on_full_disk(server, source, filler)
        enough = shutil.disk_usage
        shutil.disk_usage = lambda path: enough("/")  # the disk fills after the look at it
        try:
            seen["filled meanwhile"] = _refused_on_full_disk(server, source, filler)
        finally:
            shutil.disk_usage = enough
        seen["still the old one"] = "VERSION" not in (repository / "m1/1/model.py").read_text()
        seen["answers"] = ask(server, "m1", [1.0])
        deploy(source, server=server)
        seen["then deployed"] = "VERSION" in (repository / "m1/1/model.py").read_text()
        seen["answers then"] = ask(server, "m1", [1.0])
        seen["staged"] = [path.name for path in folder.glob(".models.staging/*@*")]
    seen["busy"], seen["failures"] = busy.answered, busy.failures
    return seen


def _refused_on_full_disk(server: Triton, source: Path, filler: Path) -> str:
    """The error of a deploy while the disk has no free byte."""
    with filler.open("wb", buffering=0) as file:
        while not error_of(file.write, bytes(1 << 16)):
            pass
    try:
        deploy(source, server=server)
    except WorkbookError as error:
        return str(error)
    finally:
        filler.unlink()
    return ""


if __name__ == "__main__":
    print(json.dumps({"shm": shared_memory, "disk": disk}[sys.argv[1]](Path(sys.argv[2]))))
