"""A second checkout of the course with an environment of its own, for tests that add files to it.

The sandbox sees the packages of the environment that runs, so `PYTHONPATH` alone is not enough.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workbook.common import paths


@contextmanager
def checkout() -> Iterator[Path]:
    """Yield a copy of the working tree, on the same disk, with a copy of the environment.

    The environment's files are hard links, which takes seconds and no space. Only those that say
    where the course's packages and its Python are, are written anew.
    """
    root = paths.root()
    for left in paths.state("checkouts").iterdir():  # left by a test run that was killed
        if time.time() - left.stat().st_mtime > 6 * 3600:
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=paths.state("checkouts")) as folder:
        home = Path(folder) / "course"
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=root,
            capture_output=True,
            check=True,
        ).stdout
        for name in filter(None, map(os.fsdecode, listed.split(b"\0"))):
            if (root / name).is_file():
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(root / name, home / name)
        environment = home / ".venv"
        subprocess.run(["cp", "-al", f"{Path(sys.prefix).resolve()}/.", environment], check=True)
        named = [
            *environment.glob("lib/python*/site-packages/__editable__*"),
            *(p for p in environment.glob("bin/*") if p.is_file() and p.stat().st_size < 100_000),
        ]
        for file in named:  # those that name a checkout: its packages, its Python
            old, mode = file.read_bytes(), file.stat().st_mode
            new = old.replace(os.fsencode(root), os.fsencode(home))
            if new != old:
                file.unlink()  # the link; the other environment keeps its file
                file.write_bytes(new)
                file.chmod(mode)
        yield home


def run(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the course, such as `grader try a8`, in another checkout."""
    away = ("WORKBOOK_HOME", "TRITON_REPOSITORY", "GRADER_WORK", "PYTHONPATH")
    environment = {name: text for name, text in os.environ.items() if name not in away}
    return subprocess.run(
        [home / ".venv/bin/python", "-m", f"{words[0]}.cli", *words[1:]],
        cwd=home,
        env={**environment, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
