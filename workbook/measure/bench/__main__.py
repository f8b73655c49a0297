"""`python -m workbook.measure.bench [NAME …]`: run benchmarks (see this package's docstring)."""

from __future__ import annotations

import sys

from ...errors import WorkbookError
from . import USUAL, run

if __name__ == "__main__":
    try:
        run(tuple(sys.argv[1:]) or USUAL)
    except WorkbookError as error:
        sys.exit(str(error))
