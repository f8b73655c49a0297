"""nbgrader's formgrader in JupyterLab."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from workbook.common import paths


def run(arguments: Sequence[str]) -> NoReturn:
    """Become JupyterLab with formgrader, whichever folder the command is given in.

    Args:
        arguments: further arguments of JupyterLab.
    """
    program = Path(sys.executable).parent / "jupyter"
    config = Path(__file__).parents[1]  # nbgrader_config.py is there
    before = os.environ.get("JUPYTER_CONFIG_PATH", "")
    environment = {
        **os.environ,
        "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, (str(config), before))),
        "PATH": os.pathsep.join((str(program.parent), os.environ.get("PATH", os.defpath))),
    }
    words = ["lab", f"--ServerApp.root_dir={paths.root()}", "--LabApp.default_url=/formgrader"]
    os.execve(program, [str(program), *words, *arguments], environment)
