"""What 02__inside_the_server reads from the server's log."""

from __future__ import annotations

from workbook.common import paths
from workbook.lessons import units

setup = units.load(units.find("02__inside_the_server"), "setup")


def test_messages_have_no_time_and_no_path_of_this_machine() -> None:
    agent = f"{paths.root()}/.venv/agents/libtritonrepoagent_checksum.so"
    log = f'I1127 18:30:28.2 6887 server.cc:10] "ready"\nE1127 18:30:28.3 6887 a.cc:1] "no {agent}"'
    shown = setup.log_lines(log, "repoagent")
    assert shown == ["no .venv/agents/libtritonrepoagent_checksum.so"]
