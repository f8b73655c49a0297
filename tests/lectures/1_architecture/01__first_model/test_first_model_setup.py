"""What 01__first_model reads from the server's log."""

from __future__ import annotations

from workbook.lessons import units

setup = units.load(units.find("01__first_model"), "setup")

LOG = """\
E1127 18:30:27.100000 6887 repository_manager.cc:1460] "name 'old', folder 'copied'"
E1127 18:30:28.100000 6887 repository_manager.cc:1460] "name 'add_sub', folder 'copied'"
I1127 18:30:28.200000 6887 model.py:10] "weights read"
"""


def test_the_last_message_with_a_word_is_returned_without_its_time() -> None:
    assert setup.last_line(LOG, "copied") == "name 'add_sub', folder 'copied'"


def test_a_word_that_is_not_in_the_log_gives_an_empty_text() -> None:
    assert setup.last_line(LOG, "guarded") == ""
