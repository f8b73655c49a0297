"""A check cell that uses a missing name, and a request that fails, get a message."""

from __future__ import annotations

import nbclient
import pytest
from nbformat import v4

#: What the server says where a line of a student's raises in the code of a library.
FAILED = (
    "Failed to process the request(s) for model 'm_0_0', message: TritonModelException: NumPy "
    "dtype is not supported\n\nAt:\n  /lib/library.py(12): made\n"
    "  /models/m/1/model.py(67): answer\n"
)


@pytest.mark.server
def test_a_name_that_no_cell_has_made() -> None:
    cells = [
        "from grader.vocabulary.notebook import check",
        'check("a2.forest", model=forest)',
        "forest",
        "def f():\n    return forest\n\nf()",
        "print(6 * 7)",
        "from tritonclient.utils import InferenceServerException\n"
        f"raise InferenceServerException({FAILED!r})",
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
    request = "\n".join(done[5].outputs[0]["traceback"])
    assert request.startswith("✗ m gives a tensor an array whose dtype Triton does not have.")
    assert "where: 1/model.py, line 67, in answer" in request
    assert "np.array([text.encode() for text in texts], object)" in request
    assert "library.py" not in request
    assert "Traceback" not in request
