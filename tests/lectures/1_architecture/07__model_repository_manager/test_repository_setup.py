"""What 07__model_repository_manager reads from the answers and from the server's log."""

from __future__ import annotations

import datetime

import pandas as pd

from workbook.lessons import units

setup = units.load(units.find("07__model_repository_manager"), "setup")
BEGAN = datetime.datetime(2026, 1, 1, 12, 0, 10).timestamp()


class Lab:
    """A server with a log: a load before the clients came, one meanwhile, and one after."""

    def log_text(self) -> str:
        lines = [f"I0101 12:00:{at} 1 model_lifecycle.cc:472] loading: digits:{version}"
                 for at, version in (("09.5", 1), ("10.5", 2), ("12.5", 3))]  # fmt: skip
        return "\n".join(lines)


def test_events_are_those_that_clients_saw() -> None:
    answers = [(BEGAN + 1, 5.0, 0, "no version"), (BEGAN, 5.0, 1, ""), (BEGAN + 2, 5.0, 2, "")]
    watched = setup.watched(Lab(), answers)
    assert watched.events == {500.0: "loads 2"}
    assert (watched.failed, watched.versions) == (1, [1, 2])
    assert list(watched.answers["sent_ms"]) == [0, 1000, 2000]
    assert setup.changed({"poll": watched})


def test_a_version_was_tried_if_it_is_unavailable() -> None:
    index = pd.DataFrame({"name": ["digits"] * 2, "version": ["2", "3"], "state": ["READY"] * 2})
    assert not setup.tried(index)
    index.loc[1, "state"] = "UNAVAILABLE"
    assert setup.tried(index)
