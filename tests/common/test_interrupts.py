"""Ctrl-C while a program imports its modules."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.server


@pytest.mark.parametrize("name", ["workbook", "grader"])
@pytest.mark.parametrize("module", ["typer", "rich.console"])
def test_ctrl_c_during_the_imports_prints_no_traceback(name: str, module: str) -> None:
    code = f"from {name}.start import main; main()"
    command = [sys.executable, "-X", "importtime", "-c", code, "--help"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stderr is not None
        for line in program.stderr:  # a line per module, when its import has ended
            if line.split("|")[-1].strip() == module:
                break
        program.send_signal(signal.SIGINT)
        rest = program.stderr.read()
    assert "Traceback" not in rest
    assert rest.endswith("Stopped.\n")
    assert program.returncode == 130
