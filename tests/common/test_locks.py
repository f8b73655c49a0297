"""Locks on files: exclusive, shared, and released when the last holder has ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbook.common import locks


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "lock").touch()
    return tmp_path / "lock"


def test_a_lock_keeps_others_out_also_in_the_same_process(path: Path) -> None:
    with path.open("w") as first, path.open("w") as second:
        locks.lock(first)
        with pytest.raises(BlockingIOError):
            locks.lock(second, wait=False)
        with path.open() as third, pytest.raises(BlockingIOError):
            locks.lock(third, shared=True, wait=False)
    with path.open("w") as again:
        locks.lock(again, wait=False)


def test_shared_locks_go_together(path: Path) -> None:
    with path.open() as first, path.open() as second, path.open("w") as third:
        locks.lock(first, shared=True)
        locks.lock(second, shared=True)
        with pytest.raises(BlockingIOError):
            locks.lock(third, wait=False)


@pytest.mark.server
def test_a_process_that_inherited_the_file_keeps_the_lock(path: Path) -> None:
    """The guard of a server gets its lock in this way; the lock ends with the guard."""
    descriptor = os.open(path, os.O_RDWR)
    locks.lock(descriptor)
    keeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1, pass_fds=[descriptor])
    os.close(descriptor)
    with path.open("w") as other:
        with pytest.raises(BlockingIOError):
            locks.lock(other, wait=False)
        keeper.kill()
        keeper.wait()
        locks.lock(other, wait=False)
    if keeper.stdin is not None:
        keeper.stdin.close()


def test_a_file_that_may_only_be_read_is_not_locked_for_oneself(path: Path) -> None:
    with path.open() as file, pytest.raises(OSError, match="Bad file descriptor"):
        locks.lock(file)
