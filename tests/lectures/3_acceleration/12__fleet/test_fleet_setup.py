"""The premise of 12__fleet, its picture, the manifest's lines that it shows, and how_many.py."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from workbook.common import paths
from workbook.lessons import units

HOME = units.find("12__fleet")
setup, fleet = units.load(HOME, "setup"), units.load(HOME, "fleet")


def test_late_requests_spoil_the_comparison() -> None:
    quiet, busy = pd.DataFrame({"late": [0.001] * 99 + [0.4]}), pd.DataFrame({"late": [0.2] * 100})
    assert setup.calm({"round_robin": quiet})
    found = setup.calm({"round_robin": quiet, "by_kind": busy})
    assert not found
    assert "more than 200 ms late" in found.differs


def test_the_picture_shows_how_many_servers_a_fleet_had() -> None:
    run = fleet.simulate(np.arange(0, 86_400, 60.0), np.full(1440, 0.1), servers=4)
    picture = setup.draw_day(lambda second: 0 * second + 1, {"always 4": run})
    (line,) = picture.axes[1].lines
    assert set(line.get_ydata()[:-1]) == {4}
    assert line.get_label() == "always 4"


def test_the_excerpts_are_those_of_the_manifest() -> None:
    manifest = (paths.root() / "docker/hub/kubernetes/triton.yaml").read_text("utf-8")
    text = (HOME / "lesson.py").read_text("utf-8")
    excerpts = re.findall(r"(?s)# ```yaml\n(.*?)# ```", text)
    assert len(excerpts) == 2
    for excerpt in excerpts:
        for part in re.sub(r"(?m)^# ", "", excerpt).split("…\n"):
            assert part in manifest, part


def how_many(folder: Path, monkeypatch: pytest.MonkeyPatch, arrival: Any, slo: str) -> None:
    """Run how_many.py for 100 requests per second, of 50 ms each."""
    log = pd.DataFrame({"arrival": arrival, "kind": "preview", "seconds": 0.05})
    log.to_csv(folder / "log.csv", index=False)
    monkeypatch.setattr(sys, "argv", ["how_many.py", str(folder / "log.csv"), "preview", slo])
    monkeypatch.setattr(sys, "path", [*sys.path])
    runpy.run_path(str(HOME / "at_work/how_many.py"))


def test_the_log_may_have_a_clock_s_times_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arrival = fleet.arrivals(lambda second: 100, until=30, seed=1)
    how_many(tmp_path, monkeypatch, arrival, "0.1")
    expected = capsys.readouterr().out
    assert expected.startswith(("5 servers", "6 servers"))  # five are busy on average
    how_many(tmp_path, monkeypatch, 1.8e9 + arrival[::-1], "0.1")
    assert capsys.readouterr().out == expected


def test_a_promise_shorter_than_the_computing_has_no_number_of_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match="more servers do not help"):
        how_many(tmp_path, monkeypatch, np.arange(0, 9, 0.01), "0.04")
