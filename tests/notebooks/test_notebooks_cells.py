"""Compare a student's notebook with the release: what is found, and how it is restored."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from notebook_sample import tagged

from workbook.assignments import cells
from workbook.common.errors import WorkbookError

Notebook = dict[str, Any]


def kinds(notebook: Notebook, release: Notebook) -> list[tuple[str, str]]:
    return [(f.kind, f.cell) for f in cells.compare(notebook, release)]


def position(notebook: Notebook, id: str) -> int:
    return notebook["cells"].index(tagged(notebook, id))


def sources(notebook: Notebook) -> list[str]:
    return ["".join(cell["source"]) for cell in notebook["cells"]]


def work(notebook: Notebook) -> Notebook:
    """An honest student's notebook: tasks done, executed, a cell of their own."""
    mine = copy.deepcopy(notebook)
    tagged(mine, "a9.root")["source"] = ["x = 16\n", "root = 4\n"]
    tagged(mine, "a9.why")["source"] = "Because."
    for count, cell in enumerate(mine["cells"]):
        if cell["cell_type"] == "code":
            cell |= {
                "execution_count": count,
                "outputs": [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}],
            }
    place = position(mine, "a9.root_is_right")
    own = {"cell_type": "code", "id": "own", "metadata": {}, "outputs": [], "source": "root"}
    mine["cells"].insert(place, own | {"execution_count": 7})
    mine["metadata"]["language_info"]["version"] = "3.12.1"
    return mine


def test_honest_work_has_no_findings(release: Notebook) -> None:
    assert cells.compare(release, release) == []
    assert cells.compare(work(release), release) == []


def test_restoring_honest_work_keeps_answers_and_drops_outputs(release: Notebook) -> None:
    mine = work(release)
    clean = cells.restore(mine, release)
    nbformat.validate(clean)
    assert sources(clean) == sources(mine)
    assert all(not c.outputs and c.execution_count is None for c in clean.cells if "outputs" in c)
    assert clean.metadata == release["metadata"]


def edit(notebook: Notebook) -> None:
    tagged(notebook, "a9.doubled")["source"] = "pass"


def comment_out(notebook: Notebook) -> None:
    tagged(notebook, "a9.setup")["cell_type"] = "raw"


def delete(notebook: Notebook) -> None:
    notebook["cells"].remove(tagged(notebook, "a9.doubled"))


def duplicate(notebook: Notebook) -> None:
    again = copy.deepcopy(tagged(notebook, "a9.doubled")) | {"id": "copy"}
    notebook["cells"].insert(0, again)


def strip(notebook: Notebook) -> None:
    del tagged(notebook, "a9.doubled")["metadata"]["nbgrader"]


def enrich(notebook: Notebook) -> None:
    tagged(notebook, "a9.doubled")["metadata"]["nbgrader"]["points"] = 1000


def ungrade(notebook: Notebook) -> None:
    tagged(notebook, "a9.doubled")["metadata"]["nbgrader"] |= {"grade": False, "solution": True}


def rename(notebook: Notebook) -> None:
    tagged(notebook, "a9.doubled")["metadata"]["nbgrader"]["grade_id"] = "a9-tripled"


def move(notebook: Notebook) -> None:
    cell = notebook["cells"].pop(position(notebook, "a9.doubled"))
    notebook["cells"].insert(0, cell)


def invent(notebook: Notebook) -> None:
    own = copy.deepcopy(tagged(notebook, "a9.doubled")) | {"id": "new"}
    own["metadata"]["nbgrader"]["grade_id"] = "a3-other"
    notebook["cells"].append(own)


@pytest.mark.parametrize(
    ("trick", "expected"),
    [
        (edit, [("edited", "a9.doubled")]),
        (comment_out, [("edited", "a9.setup")]),
        (delete, [("deleted", "a9.doubled")]),
        (duplicate, [("copied", "a9.doubled")]),
        (strip, [("metadata", "a9.doubled")]),
        (enrich, [("metadata", "a9.doubled")]),
        (ungrade, [("metadata", "a9.doubled")]),
        (rename, [("metadata", "a9.doubled")]),
        (invent, [("foreign", "a3.other")]),
    ],
)
def test_each_trick_is_found_and_undone(
    release: Notebook, trick: Callable[[Notebook], None], expected: list[tuple[str, str]]
) -> None:
    mine = work(release)
    trick(mine)
    assert kinds(mine, release) == expected
    clean = cells.restore(mine, release)
    assert cells.compare(clean, release) == []
    assert tagged(clean, "a9.doubled")["source"] == "".join(tagged(release, "a9.doubled")["source"])
    assert tagged(clean, "a9.root")["source"] == "x = 16\nroot = 4\n"


def test_a_moved_cell_is_found_and_put_back(release: Notebook) -> None:
    mine = work(release)
    move(mine)
    assert kinds(mine, release) == [("moved", "a9.doubled")]  # and none of the cells that it passed
    clean = cells.restore(mine, release)
    assert cells.compare(clean, release) == []


def test_a_copy_above_the_original_moves_nothing(release: Notebook) -> None:
    mine = work(release)
    mine["cells"].insert(0, copy.deepcopy(tagged(mine, "a9.doubled")))
    assert kinds(mine, release) == [("copied", "a9.doubled")]


def test_a_deleted_cell_comes_back_where_it_was(release: Notebook) -> None:
    mine = copy.deepcopy(release)
    for id in ("a9.root", "a9.root_is_right", "a9.doubled", "a9.setup"):
        mine["cells"].remove(tagged(mine, id))
    assert sources(cells.restore(mine, release)) == sources(release)


def test_of_a_copied_answer_the_original_counts(release: Notebook) -> None:
    mine = work(release)
    again = copy.deepcopy(tagged(mine, "a9.root")) | {"id": "copy", "source": "root = 5"}
    mine["cells"].insert(0, again)
    clean = cells.restore(mine, release)
    assert tagged(clean, "a9.root")["source"] == "x = 16\nroot = 4\n"
    assert clean.cells[0].source == "root = 5"
    assert clean.cells[0].metadata == {}


def test_tags_that_hide_errors_or_skip_cells_are_gone(release: Notebook) -> None:
    mine = work(release)
    for cell in mine["cells"]:
        cell["metadata"]["tags"] = ["raises-exception", "skip-execution"]
    mine["metadata"]["kernelspec"] = {"name": "mine", "display_name": "mine"}
    clean = cells.restore(mine, release)
    assert not any("tags" in cell.metadata for cell in clean.cells)
    assert clean.metadata.kernelspec.name == "python3"


def test_the_notebook_of_another_assignment_is_foreign(release: Notebook) -> None:
    other = copy.deepcopy(release)
    other["metadata"]["workbook"]["assignment"] = "a3__torchscript"
    assert ("foreign", "") in kinds(other, release)
    assert kinds({**release, "cells": [], "metadata": {}}, release)[0] == ("foreign", "")


def test_what_the_course_has_changed_is_not_the_students_doing(release: Notebook) -> None:
    """Their notebook is of the version before: a text and points were changed, and a check's id."""
    mine = work(release)
    tagged(release, "a9.setup")["source"] = "import math as m\n"
    tagged(release, "a9.root_is_right")["metadata"]["nbgrader"]["points"] += 1
    cell = tagged(release, "a9.doubled")
    cell["id"] = "another"
    cell["metadata"]["nbgrader"]["grade_id"] = "a9-twice"
    release["metadata"]["workbook"] = cells.describe("a9__sample", release).to_json()
    assert kinds(mine, release) == [("other version", "")]
    mine["cells"].remove(tagged(mine, "a9.root_is_right"))
    assert kinds(mine, release) == [("other version", ""), ("deleted", "a9.root_is_right")]


def test_a_release_without_a_manifest_is_refused(release: Notebook) -> None:
    release["metadata"].pop("workbook")
    with pytest.raises(WorkbookError, match="does not say which assignment"):
        cells.compare(release, release)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "cannot be read"),
        ("[]", "not a notebook"),
        ("[" * 100_000, "nested more than 100"),
        ('{"cells": ' + "9" * 5000 + "}", "cannot be read"),
        ('"\\ud800"', "not a notebook"),
    ],
)
def test_a_file_that_is_no_notebook_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "a9.ipynb"
    path.write_text(content)
    with pytest.raises(WorkbookError, match=message):
        cells.read(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(WorkbookError, match="cannot be read"):
        cells.read(path)
    with pytest.raises(WorkbookError, match="not there"):
        cells.read(tmp_path / "missing.ipynb")


def test_an_old_format_is_refused(release: Notebook) -> None:
    old = {"metadata": {}, "nbformat": 3, "worksheets": [{"cells": []}]}
    with pytest.raises(WorkbookError, match="old format"):
        cells.restore(old, release)
    with pytest.raises(WorkbookError, match="format 4"):
        cells.restore({**release, "nbformat": 3}, release)


def test_ten_thousand_cells_and_a_huge_text(release: Notebook) -> None:
    mine = work(release)
    mine["cells"] += [copy.deepcopy(tagged(mine, "a9.doubled")) for _ in range(10_000)]
    mine["cells"].append({"cell_type": "markdown", "metadata": {}, "source": "x" * 30_000_000})
    assert [kind for kind, _ in kinds(mine, release)] == ["copied"]
    clean = cells.restore(mine, release)
    assert len(clean.cells) == len(mine["cells"])
    assert cells.compare(clean, release) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
GRADE_IDS = st.sampled_from(["a9-root", "a9-doubled", "a9.doubled", "a3-x", "", "\ud800"])
NBGRADER = st.fixed_dictionaries(
    {},
    optional={
        "grade_id": GRADE_IDS | JSON,
        "grade": st.booleans() | JSON,
        "solution": st.booleans(),
        "locked": st.booleans(),
        "points": st.integers() | JSON,
    },
)
CELL = st.fixed_dictionaries(
    {
        "cell_type": st.sampled_from(["code", "markdown", "raw"]),
        "source": st.text(st.characters(), max_size=20) | st.lists(st.text(), max_size=2),
    },
    optional={
        "metadata": st.fixed_dictionaries({}, optional={"nbgrader": NBGRADER | JSON}),
        "id": st.sampled_from(["a", "b", "ü", ""]) | JSON,
        "attachments": JSON | st.dictionaries(st.text(), st.dictionaries(st.text(), JSON)),
        "outputs": JSON,
    },
)
ALMOST = st.fixed_dictionaries(
    {"cells": st.lists(CELL | JSON, max_size=6), "nbformat": st.just(4) | JSON},
    optional={"metadata": st.dictionaries(st.text(max_size=5), JSON) | JSON},
)
SOUND = st.fixed_dictionaries(
    {"cells": st.lists(CELL, max_size=6), "nbformat": st.just(4), "metadata": st.just({})}
)
PROPERTY = settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@PROPERTY
@given(notebook=JSON | ALMOST)
def test_anything_at_all_is_compared_and_restored_or_refused(
    release: Notebook, notebook: object
) -> None:
    try:
        cells.compare(notebook, release)
        clean = cells.restore(notebook, release)
    except WorkbookError:
        with pytest.raises(WorkbookError):
            cells.manifest(notebook)
        return
    assert cells.compare(clean, release) == []
    nbformat.validate(clean)


@PROPERTY
@given(notebook=SOUND)
def test_what_is_restored_is_valid_and_stays_as_it_is(
    release: Notebook, notebook: Notebook
) -> None:
    clean = cells.restore(notebook, release)
    nbformat.validate(clean)
    assert cells.compare(clean, release) == []
    assert cells.restore(clean, release) == clean
    json.dumps(clean, ensure_ascii=False).encode("utf-8")
    assert len({cell.id for cell in clean.cells}) == len(clean.cells)


@PROPERTY
@given(data=st.data())
def test_whatever_is_shuffled_dropped_and_doubled_comes_out_complete(
    release: Notebook, data: st.DataObject
) -> None:
    mine = work(release)
    places = st.integers(0, len(mine["cells"]) - 1)
    chosen = data.draw(st.lists(places, max_size=20))
    mine["cells"] = [copy.deepcopy(mine["cells"][place]) for place in chosen]
    clean = cells.restore(mine, release)
    nbformat.validate(clean)
    assert cells.compare(clean, release) == []
    plain = sorted(c["source"] for c in clean.cells if "nbgrader" not in c.metadata)
    assert len(plain) + len(release["metadata"]["workbook"]["cells"]) == len(clean.cells)
    first = {tagged(release, c["id"])["id"] for c in release["metadata"]["workbook"]["cells"]}
    assert len(plain) == len(chosen) - len(
        {mine["cells"][i]["id"] for i in range(len(chosen))} & first
    )
