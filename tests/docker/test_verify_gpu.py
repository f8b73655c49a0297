"""docker/verify_gpu.sh says why it cannot run, and its rows' code runs on the CPU."""

from __future__ import annotations

import importlib.util
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from workbook import assignments, zoo
from workbook.common import paths
from workbook.notebooks import building
from workbook.server import Triton
from workbook.zoo import engines
from workbook.zoo.repository import ENGINES, MODELS

SCRIPT = paths.root() / "docker" / "verify_gpu.sh"
COMMITTED = paths.root() / "docker" / "gpu" / "VERIFIED.md"
NOT_YET = "**Not run yet on a machine with a GPU.**"


def verify(*options: str) -> subprocess.CompletedProcess[str]:
    """Run the script with this environment's Python."""
    return subprocess.run(
        ["env", f"PYTHON={sys.executable}", SCRIPT, *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )


def cells(table: str) -> dict[str, tuple[str, str]]:
    """Row → its cells: verified or not, and what was seen."""
    found = re.findall(r"^\| (.+?) \| (\S.*?) \| (.*) \|$", table, re.MULTILINE)
    return {name: (verdict, seen) for name, verdict, seen in found if name != "what"}


@pytest.fixture(scope="module")
def module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verify_gpu", SCRIPT.with_suffix(".py"))
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found  # dataclasses look their module up
    spec.loader.exec_module(found)
    return found


@pytest.mark.server
def test_without_a_gpu_every_row_says_so(tmp_path: Path) -> None:
    if engines.gpu():
        pytest.skip("this machine has a GPU: run docker/verify_gpu.sh")
    output = tmp_path / "table.md"
    done = verify("--output", str(output))
    assert done.returncode == 0, done.stderr
    assert output.read_text() in done.stdout
    assert NOT_YET in done.stdout
    assert "- device: no GPU here" in done.stdout
    rows = cells(done.stdout)
    for name, (verdict, seen) in rows.items():
        assert verdict == "not run"
        assert seen.startswith("no container" if name.startswith("container") else "no GPU here")
    wanted = {
        f"lecture {x.source.parent.parent.name}/{x.name}"
        for x in building.lectures()
        if x.name != "00__start"
    }
    wanted |= {f"assignment {a.short}" for a in assignments.find()}
    wanted |= {f"container: {model}" for model in (*MODELS, *ENGINES)}
    assert wanted <= set(rows)


@pytest.mark.server
def test_rows_that_were_not_asked_for_are_in_a_file_too(tmp_path: Path) -> None:
    output = tmp_path / "table.md"
    done = verify("--only", "container: square", "--only", "redis", "--output", str(output))
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[1].strip() for line in done.stderr.splitlines()] == [
        "square",
        "the redis cache",
    ]
    found = cells(output.read_text())
    assert len(found) > len(MODELS)
    assert {verdict for verdict, _ in found.values()} == {"not run"}
    assert verify("--only", "no such row").returncode == 2


@pytest.mark.server
def test_the_rows_code_runs_on_the_cpu(tmp_path: Path) -> None:
    output = tmp_path / "table.md"
    done = verify("--trial", "--only", "Python model, two", "--output", str(output))
    assert done.returncode == 0, done.stdout + done.stderr
    ((verdict, seen),) = cells(done.stdout).values()
    assert verdict == "yes"
    assert seen == "answers differ by 0.0e+00 of the largest"
    assert not output.exists()  # a trial is no verification


@pytest.mark.server
def test_a_failing_row_says_why_and_the_rest_goes_on() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{probe.getsockname()[1]}"
    done = verify("--container", nobody, "--only", "container: running_sum")
    assert done.returncode == 1, done.stderr
    assert cells(done.stdout) == {
        "container: running_sum": ("**no**", f"AssertionError: no server answers at {nobody}")
    }
    done = verify("--container", nobody, "--only", "container: digits", "--jobs", "3")
    assert done.returncode == 1
    digits = [f"container: {m}" for m in (*MODELS, *ENGINES) if "digits" in m]
    assert list(cells(done.stdout)) == digits  # in the table's order, in whatever order they ended


@pytest.mark.server
def test_a_lecture_that_fails_says_which_cells_do(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "1_chapter" / "01__failing" / "lesson.py"
    source.parent.mkdir(parents=True)
    source.write_text("# %%\nx = 1\n# %%\nassert x == 2, 'x is one'\n# %%\nx / 0\n# %%\nx + 1\n")
    monkeypatch.setenv(module.KEEP, str(tmp_path / "kept"))
    with pytest.raises(AssertionError) as failed:
        module.lecture(source)()
    assert str(failed.value) == "cell 2 of 4: AssertionError: x is one (and after it: 3)"
    kept = (tmp_path / "kept/1_chapter/01__failing.ipynb").read_text("utf-8")
    assert "ZeroDivisionError" in kept
    assert '"text/plain": [\n       "2"' in kept  # the last cell's


@pytest.mark.server
def test_a_row_whose_process_dies_is_told(module: ModuleType) -> None:
    verdict, seen = module.run(module.Row("no such row", print), {})
    assert verdict == "**no**"
    assert "ended with 1: StopIteration" in seen


def test_answers_that_are_too_far_apart_fail(module: ModuleType) -> None:
    import numpy as np

    wanted = np.array([[1.0, -2.0]])
    assert module.agree(wanted * 1.001, wanted) == "answers differ by 1.0e-03 of the largest"
    with pytest.raises(AssertionError, match=r"differ by 1\.0e-02"):
        module.agree(wanted * 1.01, wanted)
    module.agree(wanted * 1.01, wanted, "fp16")
    with pytest.raises(AssertionError, match="differ by nan"):
        module.agree(wanted * np.nan, wanted)


@pytest.mark.server
def test_a_laptop_server_is_not_taken_for_nvidias_container(tmp_path: Path) -> None:
    zoo.repository.build(tmp_path, ["digits_onnx"], bar=False)
    with Triton(tmp_path, models=[]) as server:
        done = verify("--container", server.url, "--only", "container: it is")
    assert done.returncode == 1
    ((verdict, seen),) = cells(done.stdout).values()
    assert verdict == "**no**"
    assert "is a laptop server: a stand-in serves digits_onnx" in seen


@pytest.mark.server
def test_without_an_environment_the_script_says_what_to_do(tmp_path: Path) -> None:
    copy = tmp_path / "docker" / "verify_gpu.sh"
    copy.parent.mkdir()
    shutil.copy(SCRIPT, copy)
    done = subprocess.run(
        ["env", "-u", "PYTHON", copy], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "to do: make setup" in done.stderr


def test_the_committed_table_does_not_claim_what_did_not_run() -> None:
    table = COMMITTED.read_text("utf-8")
    without_gpu = "- device: no GPU here" in table
    assert (NOT_YET in table) is without_gpu
    if without_gpu:
        assert {verdict for verdict, _ in cells(table).values()} == {"not run"}
