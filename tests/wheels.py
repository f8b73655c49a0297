"""Wheels that a test reads files from, without installing them."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


def unpack(
    requirement: str, hashes: tuple[str, ...], folder: Path, target: Path | None = None
) -> Path:
    """Download one wheel, compare its SHA-256, and unpack it; skip the test if this is impossible.

        unpack("check-jsonschema==0.39.0", ("3c23…",), tmp_path)

    Args:
        hashes: of the wheels of this version, e.g. one for each version of Python.
        folder: exists already, and holds no wheel yet.
        target: where the wheel's files go; by default into `folder`.
    """
    wanted = folder / "wanted.txt"
    wanted.write_text(requirement + "".join(f" --hash=sha256:{value}" for value in hashes) + "\n")
    options = ("--no-deps", "--only-binary=:all:", "--quiet", "-r", wanted.name)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if "DO NOT MATCH" in done.stderr:
        pytest.fail(done.stderr)
    if done.returncode:
        pytest.skip(f"needs a package index that has {requirement}: {done.stderr.strip()}")
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        files = [name for name in wheel.namelist() if "/include/" not in name]  # C++ headers
        wheel.extractall(target or folder, files)
    return target or folder
