"""A full /dev/shm and a full disk: what does not fit fails with a message, all else goes on.

Both are small file systems in a mount namespace of their own: no other program is disturbed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workbook.common import paths

pytestmark = pytest.mark.server

PROGRAM = Path(__file__).with_name("full_places.py")
NAMESPACES = ("unshare", "--user", "--map-root-user", "--mount")
SHM = "mount -t tmpfs -o size=12m tmpfs /dev/shm"
#: The server's log and its run folder lie on the full disk, too.
DISK = 'mount -t tmpfs -o size=96m tmpfs "$1" && mkdir "$1/run" && mount --bind "$1/run" "$2"'


def run_in(mount: str, folder: Path, *words: str) -> Any:
    """Run `mount` in a shell ($1: the folder, $2: run folders), then the program; its output."""
    shell = [*NAMESPACES, "sh", "-c"]
    given = ["sh", str(folder), str(paths.state("run"))]
    if subprocess.run([*shell, mount, *given], capture_output=True, check=False).returncode != 0:
        pytest.skip("a file system cannot be mounted here: needs user namespaces")
    done = subprocess.run(
        [*shell, f'{mount} && shift 2 && exec "$@"', *given, sys.executable, str(PROGRAM), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_dev_shm_is_full(tmp_path: Path) -> None:
    """A request or model that does not fit is refused; the next that fits is served at once."""
    seen = run_in(SHM, tmp_path, "shm", str(tmp_path / "models"))
    for error in seen["too large"]:
        assert "Failed to increase the shared memory pool size" in error
        assert "No space left on device" in error
    assert seen["afterwards"]
    assert "did not load. The shared memory is used up." in seen["refused"]
    assert not seen["refused is served"]
    assert seen["loaded"] > 2
    assert seen["loaded then"], "an unload makes room for another model"
    assert seen["busy"] > 0
    assert seen["failures"] == []
    assert seen["left"] == []


def test_the_disk_is_full_while_deploying(tmp_path: Path) -> None:
    """The old model serves every request; when there is space again, a deploy succeeds."""
    place = tmp_path / "disk"
    place.mkdir()
    seen = run_in(DISK, place, "disk", str(place))
    assert seen["no space to spare"].startswith("The disk has 0 MiB free; the model needs 0 MiB")
    assert seen["filled meanwhile"].startswith("The disk is full.\n")
    assert "The model that was there is unchanged." in seen["filled meanwhile"]
    assert seen["still the old one"]
    assert seen["answers"]
    assert seen["then deployed"]
    assert seen["answers then"]
    assert seen["staged"] == []
    assert seen["busy"] > 0
    assert seen["failures"] == []
