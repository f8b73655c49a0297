"""3/06: who computes which operators, times in turns, perf_analyzer's reports, the log."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from workbook.common.errors import WorkbookError
from workbook.lessons import formats, units

pytestmark = pytest.mark.server  # in a fresh clone the network is trained first, in a process

setup = units.load(units.find("06__accelerators"), "setup")

LINE = "\"onnxruntime stand-in: '{}' version 1 on cpu: threads 1, providers {}, requests here"
TABLE = pd.DataFrame({"gain": [0.95, 4.6], "spread": [1.0, 1.1]}, index=["plain", "mish"])


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network as exported, and as ONNX Runtime joins its operators."""
    home = tmp_path_factory.mktemp("models")
    for name in ("compiled", "night"):
        (home / name / "1").mkdir(parents=True)
    with pytest.raises(WorkbookError, match="compiled is not there"):
        setup.night(home)
    formats.save_onnx(home / "compiled/1/model.onnx")
    setup.night(home)
    return home


def test_openvino_takes_the_whole_exported_file_and_parts_of_the_joined_one(models: Path) -> None:
    whole = setup.parts(models / "compiled/1/model.onnx")
    assert list(whole["computed by"]) == ["OpenVINO"]
    assert whole["operators"][0].split().count("Conv") == 4
    found = setup.parts(models / "night/1/model.onnx")
    kept = found[found["computed by"] == "ONNX Runtime"]["operators"]
    assert list(kept) == 4 * ["FusedConv"]


def test_the_two_files_answer_like_the_network(models: Path) -> None:
    for name in ("compiled", "night"):
        file = models / name / "1/model.onnx"
        for accelerated in (False, True):
            session = setup._session(file, accelerated=accelerated)
            logits = session.run(None, {"image": formats.pictures()[:8]})[0]
            np.testing.assert_allclose(logits, formats.reference()[:8], rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("cores", "taken"),
    [({0}, [0]), ({3, 5}, [3, 5]), ({2, 3, 4}, [2, 4]), (set(range(8)), [0, 2])],
)
def test_the_notebook_takes_two_cores(
    cores: set[int], taken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[int, list[int]]] = []
    monkeypatch.setattr("os.sched_getaffinity", lambda _: cores)
    monkeypatch.setattr("os.sched_setaffinity", lambda *call: calls.append(call))
    setup.take_two_cores()
    assert calls == [(0, taken)]


def test_a_file_of_the_reader_s_is_kept(models: Path) -> None:
    file = models / "night/1/model.onnx"
    before = file.stat().st_mtime_ns
    setup.night(models)
    assert file.stat().st_mtime_ns == before


def test_a_gain_is_the_time_without_over_the_time_with(models: Path) -> None:
    times = setup.in_process(models / "compiled/1/model.onnx", models / "night/1/model.onnx")
    assert list(times.index) == ["compiled", "night"]
    np.testing.assert_allclose(times["gain"], times[setup.WITHOUT] / times[setup.WITH])
    assert (times["spread"] >= 1).all()
    saved = times[setup.WITHOUT] - times[setup.WITH]
    cost = times["opened with, ms"] - times["opened without, ms"]
    wanted = np.where(saved > 0, cost / saved, np.inf)
    np.testing.assert_allclose(times["requests to earn it"], wanted)


def test_the_premise_needs_openvino_and_times_that_agree(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = models / "compiled/1/model.onnx"
    assert setup.compared(file, TABLE)
    assert setup.compared(file, TABLE, limit=1.5)
    assert not setup.compared(file, TABLE, limit=4.4)
    assert not setup.compared(file, TABLE.assign(spread=2.0))
    monkeypatch.setattr(setup, "parts", lambda _: pd.DataFrame({"computed by": ["ONNX Runtime"]}))
    assert "computes nothing here" in str(setup.compared(file, TABLE))


def test_the_best_of_the_turns_counts(tmp_path: Path) -> None:
    times = [f"p{n} latency" for n in (50, 90, 95, 99)]
    times += [f"Server {part}" for part in ("Queue", "Compute Input", "Compute Output")]
    head = ["Concurrency", "Inferences/Second", "Server Compute Infer", "Avg latency", *times]
    for turn, (speed, compute) in enumerate([(100, 900), (120, 1100)], 1):
        rows: list[list[Any]] = [head, [1, speed, compute, *8 * [1000]]]
        text = "\n".join(",".join(map(str, row)) for row in rows)
        (tmp_path / f"m.{turn}.csv").write_text(text)
    assert list(setup.served(tmp_path, ["m"], turns=2).loc["m"]) == [0.9, 120]


def test_the_last_load_s_providers_are_read_from_the_log() -> None:
    lines = [LINE.format("m", "CPUExecutionProvider"), LINE.format("m", "OpenVINO, CPU")]
    server: Any = SimpleNamespace(log_text=lambda: "\n".join(lines))
    assert setup.providers(server, "m") == "OpenVINO, CPU"
    assert setup.providers(server, "other") == ""


@pytest.mark.parametrize(("kind", "holds"), [("KIND_CPU", True), ("KIND_GPU", False)])
def test_a_server_with_a_gpu_is_known_by_the_kind_that_it_chose(kind: str, holds: bool) -> None:
    server: Any = SimpleNamespace(config=lambda _: {"instance_group": [{"kind": kind}]})
    assert bool(setup.no_gpu(server)) is holds
