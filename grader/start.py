"""The program `grader`."""

from __future__ import annotations

from workbook.common.interrupts import end_at_once


def main() -> None:
    """Run the command line (cli.py)."""
    with end_at_once():
        from . import cli
    cli.main()
