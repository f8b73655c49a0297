"""What tests of the compiled helpers need: a compiler."""

from __future__ import annotations

import pytest

from workbook.server.assemble import find

needs_compiler = pytest.mark.skipif(
    find().preload is None, reason="there is no C++ compiler: install g++, as `make doctor` says"
)
