"""The benchmarks run and write their tables; their results are not judged here."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

import benchmarks
from benchmarks import lab, machine, peers, services, tables, wrk
from benchmarks.tables import Goal, Section
from workbook.common import paths
from workbook.common.errors import WorkbookError

pytestmark = pytest.mark.server


def test_benchmarks_write_their_sections(tmp_path: Path) -> None:
    file = tmp_path / "results.md"
    cores = os.sched_getaffinity(0)
    screen = io.StringIO()
    done = benchmarks.run(
        ("start", "memory"),
        output=file,
        rounds=1,
        console=Console(file=screen, width=120),
    )
    assert [section.key for section in done] == ["start", "memory"]
    text = file.read_text()
    for section in done:
        assert section.title in text
        assert section.title in screen.getvalue()
    for process in ("tritonserver, no models", "instance scale_0_0", "instance cnn_0_1"):
        assert process in text
    assert "deploy of a changed Python model" in text
    assert text.count("other programs took") == 2
    assert os.sched_getaffinity(0) == cores


def test_our_own_work_is_no_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    spin = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    clock = iter([100.0, 100.0 + 0.4 + 1.0])  # the seconds of all processes on the cores
    monkeypatch.setattr(machine.Crowd, "_busy_seconds", lambda _: next(clock))
    crowd = machine.Crowd()
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", spin], check=True)
    others = crowd.share() * (time.monotonic() - began) * len(os.sched_getaffinity(0))
    assert 0 < others <= 1.4 - 0.3


def test_what_cannot_run_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no wrk there
    monkeypatch.setitem(benchmarks.BENCHMARKS, "batching", lambda _: wrk.check())  # type: ignore[arg-type,return-value]
    monkeypatch.setitem(
        benchmarks.BENCHMARKS, "start", lambda _: Section("start", "T", "", ("a",), [])
    )
    screen = io.StringIO()
    with pytest.raises(WorkbookError, match="Not measured: batching"):
        benchmarks.run(
            ("batching", "start"), output=tmp_path / "r.md", console=Console(file=screen)
        )
    assert "apt-get install wrk" in screen.getvalue()
    assert "## T" in (tmp_path / "r.md").read_text()


def test_unknown_benchmarks_are_named() -> None:
    with pytest.raises(WorkbookError, match="'speed'") as caught:
        benchmarks.run(("speed",))
    assert "fastapi" in caught.value.todo


def test_a_section_takes_the_place_of_its_former_self(tmp_path: Path) -> None:
    file = tmp_path / "r.md"
    for value in ("1", "2"):
        tables.write(Section("a", "A", "how", ("x", "y"), [("row", value)]), file, "here")
    tables.write(Section("b", "B", "how", ("x",), [("other",)]), file, "here")
    tables.write(Section("a", "A", r"how \1", ("x", "y"), [("row", "3")]), file, "here")
    text = file.read_text()
    assert "| row | 3 |" in text
    assert "| row | 1 |" not in text
    assert text.count("## A") == text.count("## B") == 1
    assert text.index("## A") < text.index("## B")
    with pytest.raises(WorkbookError, match="could not be written"):
        tables.write(Section("a", "A", "", ("x",), []), tmp_path / "no" / "r.md", "here")


def test_goals_say_whether_they_are_reached() -> None:
    assert Goal("a", 2.01, 2.0).reached
    assert not Goal("a", 1.99, 2.0).reached
    assert Goal("a", 1.9, 2.0, "s", at_most=True).cells() == ("a", "1.90 s", "at most 2 s", "yes")
    assert Goal("a", 1.9, 2.0).cells()[3] == "**no**"


@pytest.mark.parametrize(("others", "verdict"), [(0.01, "| yes |"), (0.6, "| not judged |")])
def test_a_crowded_machine_reaches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: float, verdict: str
) -> None:
    section = Section("start", "T", "", ("a",), [], [Goal("g", 3.0, 2.0)])
    monkeypatch.setitem(benchmarks.BENCHMARKS, "start", lambda _: section)
    monkeypatch.setattr(machine.Crowd, "share", lambda _: others)
    benchmarks.run(("start",), output=tmp_path / "r.md", console=Console(file=io.StringIO()))
    assert verdict in (tmp_path / "r.md").read_text()


@pytest.mark.parametrize(
    "peer", [peers.FASTAPI, peers.MLSERVER, peers.BENTOML, peers.LITSERVE], ids=lambda p: p.name
)
def test_nothing_in_a_peer_s_environment_is_left_to_chance(
    peer: peers.Peer, tmp_path: Path
) -> None:
    text = (services.apps(tmp_path) / f"{peer.program}.txt").read_text()
    packages = [line for line in text.splitlines() if not line.startswith("#")]
    assert set(peer.pins) <= set(packages)
    assert all(package.count("==") == 1 for package in packages)


def test_a_service_is_ended_with_all_its_processes(tmp_path: Path) -> None:
    port = services.free_port()
    program = (
        "import http.server, subprocess, sys; "
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], "
        "start_new_session=True); "
        "print(child.pid, flush=True); "
        f"http.server.HTTPServer(('127.0.0.1', {port}), http.server.SimpleHTTPRequestHandler)"
        ".serve_forever()"
    )
    argv = [sys.executable, "-c", program]
    with services.running("site", argv, port=port, env={}, cwd=tmp_path) as process:
        child = int((tmp_path / "site.log").read_text().split()[0])
        assert Path(f"/proc/{child}").exists()
        with pytest.raises(WorkbookError, match="501"):  # it answers, but not to POST
            services.wait_for_answer(f"http://127.0.0.1:{port}/", "{}", timeout=1)
    assert process.poll() is not None
    stat = Path(f"/proc/{child}/stat")
    deadline = time.monotonic() + 30  # it was killed, which takes a moment on a busy machine
    while stat.exists() and stat.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline, "a process was left behind"
        time.sleep(0.05)


def test_a_service_that_ends_says_its_last_words(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "raise SystemExit('no model here')"]
    with (
        pytest.raises(WorkbookError, match="no model here"),
        services.running("site", argv, port=services.free_port(), env={}, cwd=tmp_path),
    ):
        pass


def test_make_lab_is_timed_from_the_command_to_the_last_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test's Makefile replaces the course's: it serves one model at once, one later."""
    monkeypatch.setattr(lab, "MODELS", ("square", "late"))
    (tmp_path / "serve.py").write_text(
        "import sys, time\n"
        "from pathlib import Path\n"
        "from workbook.server import Triton\n"
        "port = int(sys.argv[sys.argv.index('--http-port') + 1])\n"
        f"home = Path({str(tmp_path / 'models')!r})\n"
        "server = Triton(home, http=port).start()\n"
        "server.load('square')\n"
        "time.sleep(3)\n"
        "server.load('late')\n"
        "time.sleep(600)\n"
    )
    for name in ("square", "late"):
        shutil.copytree(paths.root() / "model_repository" / "square", tmp_path / "models" / name)
    (tmp_path / "Makefile").write_text(f"lab:\n\t{sys.executable} serve.py $(OPTIONS)\n")
    first, everything = lab._seconds(tmp_path)
    assert 0 < first < everything - 2
