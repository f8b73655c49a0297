"""A check cell that uses a missing name gets a message."""

from __future__ import annotations

import nbclient
import pytest
from nbformat import v4


@pytest.mark.server
def test_a_name_that_no_cell_has_made() -> None:
    cells = [
        "from grader.vocabulary.notebook import check",
        'check("a2.forest", model=forest)',
        "forest",
        "def f():\n    return forest\n\nf()",
        "print(6 * 7)",
    ]
    notebook = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in cells])
    client = nbclient.NotebookClient(notebook, allow_errors=True, kernel_name="python3")
    done = client.execute().cells
    checked, *others = ["\n".join(cell.outputs[0]["traceback"]) for cell in done[1:4]]
    assert checked.startswith("✗ `forest` is not there yet")
    assert "Traceback" not in checked
    assert [cell.outputs[0]["ename"] for cell in done[1:4]] == ["NameError"] * 3
    assert all("Traceback" in other for other in others)
    assert done[4].outputs[0]["text"] == "42\n"
