"""The premise of 12__fleet, its picture, and the lines of the manifest that it shows."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

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
