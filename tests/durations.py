"""Record how long tests take, and which failed once and then passed alone: tests/durations.csv.

`make test ALL=yes` writes the table, and maintainers commit it. A row is a group of tests that one
worker runs (scheduling.py), with its seconds while other workers run too. A row of a single test
also has the days on which the test failed beside others and then passed alone. On the third such
day tests/test_durations.py fails: fix or rewrite the test, and remove the days from the table.
"""

from __future__ import annotations

import collections
import csv
import datetime
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.scheduling import group

TABLE = Path(__file__).with_name("durations.csv")
COLUMNS = ("test", "seconds", "failed once, passed alone")
#: What a run does with the table: write it anew, add to it, or record what has passed now.
MODES = ("first", "more", "again")


def read(table: Path = TABLE) -> dict[str, tuple[float, list[str]]]:
    """The seconds of each row, and the days on which the test failed once and passed alone."""
    with table.open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return {test: (float(seconds), days.split()) for test, seconds, days in rows}


def write(rows: Mapping[str, tuple[float, Iterable[str]]], table: Path = TABLE) -> None:
    """Write the table; what takes longest comes first."""
    with table.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        for test, (seconds, days) in sorted(rows.items(), key=lambda row: (-row[1][0], row[0])):
            out.writerow([test, f"{seconds:.1f}", " ".join(days)])


class Recorder:
    """Pytest's plugin that writes the table when a run has ended.

    Args:
        mode: one of `MODES`.
        table: where to write.
    """

    def __init__(self, mode: str, table: Path = TABLE) -> None:
        self._mode, self._table = mode, table
        self._seconds: dict[str, float] = collections.defaultdict(float)
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up a test's set-up, call and end."""
        name = report.nodeid if self._mode == "again" else group(report.nodeid)
        self._seconds[name] += report.duration
        if report.failed:
            self._failed.add(name)

    def pytest_sessionfinish(self) -> None:
        rows = read(self._table)
        if self._mode == "first":
            rows = {name: row for name, row in rows.items() if row[1]}
        today = datetime.date.today().isoformat()
        for name, seconds in self._seconds.items():
            before, days = rows.get(name, (0.0, []))
            if self._mode == "first":
                rows[name] = seconds, days
            elif self._mode == "more":
                rows[name] = before + seconds, days
            elif name not in self._failed:
                rows[name] = before or seconds, sorted({*days, today})
                print(f"\nIt failed once and passed alone, as {self._table.name} says now: {name}")
        write(rows, self._table)
