"""What 10__security takes for a result, and the files that its server needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbook.common.errors import WorkbookError
from workbook.lessons import units

setup = units.load(units.find("10__security"), "setup")


def test_who_gets_an_answer_is_an_option() -> None:
    assert setup.who_gets_in({"A": "yes: a 3", "B": "no: UNAVAILABLE"}) == "A alone"
    assert setup.who_gets_in({"A": "yes", "B": "yes", "C": "yes", "D": "yes"}) == "all"
    assert setup.who_answers({"HTTP": False, "gRPC": True}) == "gRPC only"
    assert setup.who_answers({"HTTP": False, "gRPC": False}) == "neither"
    assert setup.who_answers({"HTTP": True, "gRPC": True}) == "both"


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    door = setup.Door(tmp_path)
    missing = f"--grpc-server-cert={tmp_path}/server.pem"
    with pytest.raises(WorkbookError, match="not there") as caught:
        door.restart(options=["--grpc-use-ssl=true", missing])
    assert caught.value.where == missing
