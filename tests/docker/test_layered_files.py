"""Models that came with a container's image, on the file system that Docker uses: overlayfs.

There, a folder of a lower layer cannot be renamed (EXDEV) or exchanged with another one.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from workbook.common import paths

pytestmark = pytest.mark.server

NAMESPACES = ("unshare", "--user", "--map-root-user", "--mount")
LAYERS = "lowerdir=$1/image,upperdir=$1/changes,workdir=$1/work,userxattr"
MOUNT = f'mount -t overlay overlay -o "{LAYERS}" "$1/seen"'
PROGRAM = """
import sys
from pathlib import Path
from workbook.server.model_folder import check_folder, locked, put, remove, stage, take_back

home = Path(sys.argv[1])
try:
    (home / "forest").rename(home / "other")
except OSError as error:
    print(error.errno)
for step in ("keep", "take back"):
    with locked(home, "forest") as staging:
        copy = stage(Path(sys.argv[2]), staging, "forest", check_folder(Path(sys.argv[2])))
        former = put(copy, home / "forest")
        print((home / "forest/1/model.py").read_text(), (former / "1/model.py").read_text())
        if step == "take back":
            take_back(home / "forest", former, staging)
with locked(home, "verdict") as staging:
    remove(home / "verdict", staging)
print(sorted(path.name for path in home.iterdir() if not path.name.startswith(".")))
"""


def model(folder: Path, text: str) -> Path:
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(text)
    (folder / "config.pbtxt").write_text('backend: "python"\n')
    return folder


def test_a_model_of_the_image_is_replaced_and_removed(tmp_path: Path) -> None:
    model(tmp_path / "image" / "repository" / "forest", "image")
    model(tmp_path / "image" / "repository" / "verdict", "image")
    mine = model(tmp_path / "mine", "mine")
    for name in ("changes", "work", "seen"):
        (tmp_path / name).mkdir()
    tried = [*NAMESPACES, "sh", "-c", MOUNT, "sh", str(tmp_path)]
    if subprocess.run(tried, capture_output=True, check=False).returncode != 0:
        pytest.skip("overlayfs cannot be mounted here: needs user namespaces and Linux 5.11")
    done = subprocess.run(
        [
            *(*NAMESPACES, "sh", "-c", f'{MOUNT} && shift && exec "$@"', "sh", str(tmp_path)),
            *(sys.executable, "-c", PROGRAM, str(tmp_path / "seen" / "repository"), str(mine)),
        ],
        cwd=paths.root(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # 18 is EXDEV: this is the file system that the test is about.
    assert done.stdout.splitlines() == ["18", "mine image", "mine mine", "['forest']"]
