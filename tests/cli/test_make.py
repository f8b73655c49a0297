"""`make lab` in this checkout: what a student runs, from the command to the models' answers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from workbook.zoo.repository import lacking

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = "--port 18889 --http-port 0 --grpc-port 0 --metrics-port 0"


ENVIRONMENT = {
    k: v
    for k, v in os.environ.items()
    if not k.startswith(("TRITON_", "WORKBOOK_", "MAKE", "MFLAGS"))
}


def status() -> dict[str, object]:
    """The status of this checkout's server from `workbook status`, whatever else runs here."""
    words = [sys.executable, "-m", "workbook.cli", "status", "--json"]
    answer = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    return dict(json.loads(answer.stdout))


@pytest.mark.server
def test_make_lab_ends_with_every_model_ready_and_jupyterlab() -> None:
    assert not status()["running"], "stop this checkout's server first"
    lab = subprocess.Popen(
        ["make", "lab", "BROWSER=no", f"OPTIONS={OPTIONS}"],
        cwd=ROOT,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert lab.stdout is not None
    printed: list[str] = []
    try:
        for line in lab.stdout:
            printed.append(line)
            if "/lab" in line and "token=" in line:
                break
        else:
            raise AssertionError("".join(printed))
        state = status()
        models = {m["name"]: m["state"] for m in state["models"]}  # type: ignore[attr-defined]
        ready = {name for name, is_ in models.items() if is_ == "READY"}
        folders = {p.parent for p in (ROOT / "model_repository").glob("*/config.pbtxt")}
        # Language models are built on request; a language model that is not built is skipped.
        assert ready == {p.name for p in folders if not lacking(p)}, "".join(printed)
        family = psutil.Process(lab.pid).children(recursive=True)
        assert any("jupyterlab" in " ".join(p.cmdline()) for p in family)
    finally:
        os.killpg(lab.pid, signal.SIGTERM)
        lab.wait(timeout=60)
    deadline = time.monotonic() + 30
    while any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in family):
        assert time.monotonic() < deadline, "a process was left behind"
        time.sleep(0.1)
    assert not status()["running"]


@pytest.mark.parametrize(
    ("machine", "words"), [("Darwin arm64", "Darwin arm64"), ("Linux x86_64", "needs Python 3.11")]
)
def test_make_lab_says_what_a_machine_lacks_before_it_installs(
    tmp_path: Path, machine: str, words: str
) -> None:
    for name in ("Makefile", "pyproject.toml", *(path.name for path in ROOT.glob("require*.txt"))):
        shutil.copy(ROOT / name, tmp_path)
    uname = tmp_path / "bin/uname"
    uname.parent.mkdir()
    uname.write_text(f"#!/bin/sh\necho {machine}\n")
    uname.chmod(0o755)
    done = subprocess.run(
        ["make", "lab", "PYTHON="],
        cwd=tmp_path,
        env={**ENVIRONMENT, "PATH": f"{uname.parent}:{ENVIRONMENT['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert words in done.stdout
    assert "docs/students.md" in done.stdout
    assert not (tmp_path / ".venv").exists()
