"""The table of durations is written correctly, and no test has failed on three days."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from tests import durations
from tests.durations import Recorder

TEST = "tests/a/test_few.py::test_1[x, y]"
TODAY = datetime.date.today().isoformat()


def test_no_test_failed_on_three_days_and_passed_alone() -> None:
    often = {test: days for test, (_, days) in durations.read().items() if len(days) >= 3}
    assert not often, "Correct or rewrite these tests; then take the days out of the table."


def run(mode: str, table: Path, outcome: str, seconds: float) -> dict[str, object]:
    """Run TEST, and return the table afterwards."""
    recorder = Recorder(mode, table)
    for when in ("setup", "call", "teardown"):
        recorder.pytest_runtest_logreport(
            pytest.TestReport(
                TEST,
                ("", None, ""),
                {},
                outcome if when == "call" else "passed",  # type: ignore[arg-type]
                None,
                when,  # type: ignore[arg-type]
                duration=seconds,
            )
        )
    recorder.pytest_sessionfinish()
    return dict(durations.read(table))


def test_the_table(tmp_path: Path) -> None:
    table, file = tmp_path / "durations.csv", "tests/a/test_few.py"
    durations.write({"tests/gone.py": (9.0, []), TEST: (1.0, ["2026-01-01"])}, table)
    known = {TEST: (1.0, ["2026-01-01"])}
    assert run("first", table, "failed", 1.0) == {file: (3.0, [])} | known
    assert run("more", table, "passed", 2.0) == {file: (9.0, [])} | known
    assert run("again", table, "failed", 1.0) == {file: (9.0, [])} | known
    known = {TEST: (1.0, ["2026-01-01", TODAY])}
    assert run("again", table, "passed", 1.0) == {file: (9.0, [])} | known
    assert run("again", table, "passed", 1.0) == {file: (9.0, [])} | known
