"""Run a lecture's cells with the tag `triton` as at work: in a Python that lacks the course.

    python -I -S portable_cells.py SITE_PACKAGES CELLS.json

`-S` leaves out the `.pth` files of the environment, and with them the course, which is installed as
a link to the checkout. `-I` leaves out the current folder, and with it the notebook's `setup.py`.
The folder of the packages is added. A cell finds the addresses of a running server in the
environment variables TRITON_HTTP, TRITON_GRPC, TRITON_METRICS and TRITON_MODELS. As in the
notebook, `models` is the path of the model repository.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.append(sys.argv[1])

from IPython.core.interactiveshell import InteractiveShell


def main() -> None:
    shell = InteractiveShell.instance()
    start = """
import importlib.util, os
from pathlib import Path
assert not importlib.util.find_spec("workbook"), "the course can be imported"
models = Path(os.environ["TRITON_MODELS"])
"""
    for code in [start, *json.loads(Path(sys.argv[2]).read_text("utf-8"))]:
        if not shell.run_cell(code).success or shell.user_ns.get("_exit_code"):
            sys.exit(f"This cell failed:\n{code}")


main()
