"""The program `workbook`."""

from __future__ import annotations

from .common.interrupts import end_at_once


def main() -> None:
    """Run the command line (cli.py)."""
    with end_at_once():
        from . import cli
    cli.main()
