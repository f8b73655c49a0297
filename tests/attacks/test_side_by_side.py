"""Two submissions that are graded at the same time, or that could get the same result key."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from grader import sandbox
from grader.judge.grade_submission import Settings, key
from grader.sandbox import cgroup
from grader.sandbox.mounts import course
from tests.attacks import submissions as s

pytestmark = pytest.mark.server

PYTHON = [sys.executable, "-I", "-c"]

#: Uses the processor in many sessions: without a cgroup, Linux gives each session a share.
BUSY = """
import os, time
for _ in range(150):
    if os.fork() == 0:
        os.setsid()
        while True:
            pass
print("busy", flush=True)
time.sleep(60)
"""
#: Prints how many seconds some work takes.
WORK = """
import time
began, total = time.monotonic(), 0
for number in range(5_000_000):
    total += number
print(time.monotonic() - began)
"""
#: Takes every name that two programs on one machine could both need.
TAKES = """
import fcntl, os, socket, sys, time
held = []
for port in (8000, 8001, 8002):
    held.append(socket.create_server(("127.0.0.1", port)))
for name in ("\\0workbook", "/tmp/socket"):
    one = socket.socket(socket.AF_UNIX)
    one.bind(name)
    held.append(one)
for path in ("/dev/shm/triton_python_backend_shm_region_1", "/tmp/lock", "/tmp/kernel-x"):
    one = open(path, "x")
    fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
    held.append(one)
print("taken", len(held), os.listdir("/dev/shm"), flush=True)
time.sleep(float(sys.argv[1]))
"""


def wait_for(running: sandbox.Running, word: str) -> None:
    deadline = time.monotonic() + 30
    while word not in running.log():
        assert running.alive(), running.log()
        assert time.monotonic() < deadline, running.log()
        time.sleep(0.05)


def seconds() -> float:
    bound, environment = course()
    ended = sandbox.run([*PYTHON, WORK], read_only=bound, environment=environment)
    return float(ended.stdout)


def test_many_processes_get_no_more_time_than_one() -> None:
    """Hundreds of busy processes would take the time of the submission beside them."""
    group = cgroup.make(64, 64 << 20)
    shares = group is not None and "cpu" in group.folders
    if group is not None:
        group.close()
    if not shares:
        pytest.skip("this account may make no group with the controller cpu")
    bound, environment = course()
    with sandbox.start([*PYTHON, BUSY], read_only=bound, environment=environment) as busy:
        wait_for(busy, "busy")
        beside = seconds()
        assert busy.alive()
    alone = min(seconds() for _ in range(3))
    # With a fair share it takes about twice as long on one core; without, 75 times on two cores.
    assert beside < 12 * alone, (beside, alone)


def test_no_name_is_taken_for_others() -> None:
    bound, environment = course()
    first = [*PYTHON, TAKES, "60"]
    with sandbox.start(first, read_only=bound, environment=environment) as holding:
        wait_for(holding, "taken 8")
        ended = sandbox.run([*PYTHON, TAKES, "0"], read_only=bound, environment=environment)
    assert ended.stdout == b"taken 8 ['triton_python_backend_shm_region_1']\n", ended.stderr


# -- the key of a result ---------------------------------------------------------------------------

Change = Callable[[Path], object]
#: Changes of a submission that change no file's content.
CHANGES: dict[str, Change] = {
    "an empty folder": lambda folder: (folder / "models/forest/7").mkdir(),
    "an empty folder beside the notebook": lambda folder: (folder / "signal").mkdir(),
    "a run bit": lambda folder: (folder / "models/forest/labels.txt").chmod(0o755),
    "another name": lambda folder: (folder / "models/forest/labels.txt").rename(
        folder / "models/forest/Labels.txt"
    ),
    "a time in another folder": lambda folder: (folder / "models/timestamp.txt").write_text("x"),
    "contents exchanged": lambda folder: exchange(folder / "one.txt", folder / "two.txt"),
}


def exchange(one: Path, other: Path) -> None:
    texts = one.read_text(), other.read_text()
    one.write_text(texts[1])
    other.write_text(texts[0])


@pytest.mark.parametrize("what", CHANGES)
def test_no_other_submission_has_the_same_result(tmp_path: Path, what: str) -> None:
    """Whoever has the files of another one could else get that one a result of their own.

    Of two submissions with one key, only one is graded. An empty folder in a model's folder is a
    version that does not load.
    """
    keys = []
    for name in ("honest", "hostile"):
        folder = s.release(tmp_path / name)
        (folder / "one.txt").write_text("1")
        (folder / "two.txt").write_text("2")
        if name == "hostile":
            CHANGES[what](folder)
        keys.append(key(folder, s.ASSIGNMENT, Settings()))
    assert keys[0] != keys[1]


def test_what_no_program_sees_changes_no_key(tmp_path: Path) -> None:
    folder = s.release(tmp_path / "anna")
    before = key(folder, s.ASSIGNMENT, Settings())
    (folder / "timestamp.txt").write_text("2026-11-20 10:00:00 UTC")
    (folder / "__pycache__").mkdir()
    (folder / "models/.DS_Store").write_bytes(b"x")
    os.utime(folder / "models/forest/labels.txt", (1e9, 1e9))
    assert key(folder, s.ASSIGNMENT, Settings()) == before
