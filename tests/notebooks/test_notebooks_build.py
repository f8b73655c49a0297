"""py:percent → ipynb: the result is always the same, and mistakes are refused."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from notebook_sample import SOURCE

from workbook import notebooks
from workbook.common.errors import WorkbookError
from workbook.notebooks import building
from workbook.notebooks.hide_words import carried


def write(folder: Path, text: str, name: str = "a9.py") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def built(folder: Path, text: str) -> nbformat.NotebookNode:
    return notebooks.notebook(notebooks.read(write(folder, text)))


def test_tags_become_nbgraders_metadata(tmp_path: Path) -> None:
    node = built(tmp_path, SOURCE)
    held = {
        c.metadata.nbgrader.grade_id: c.metadata.nbgrader
        for c in node.cells
        if "nbgrader" in c.metadata
    }

    def flags(id: str) -> tuple[object, ...]:
        return tuple(held[id].get(k) for k in ("grade", "solution", "locked", "task", "points"))

    assert flags("a9-setup") == (False, False, True, False, None)
    assert flags("a9-root") == (False, True, False, False, None)
    assert flags("a9-root_is_right") == (True, False, True, False, 60)
    assert flags("a9-why") == (True, True, False, False, 10)
    assert {m.schema_version for m in held.values()} == {3}
    assert node.metadata.kernelspec.name == "python3"
    assert node.metadata.workbook == {"title": "A sample", "minutes": 5, "modules": ["words"]}
    assert (node.nbformat, node.nbformat_minor) == (4, 5)
    nbformat.validate(node)


def test_a_plain_cell_has_no_metadata_and_tags_are_kept(tmp_path: Path) -> None:
    node = built(tmp_path, '# %%\n1\n\n# %% tags=["hide-input"]\n2\n')
    assert node.cells[0].metadata == {}
    assert node.cells[1].metadata == {"tags": ["hide-input"]}


def test_equal_cells_get_ids_of_their_own(tmp_path: Path) -> None:
    node = built(tmp_path, "# %%\nx\n\n# %%\nx\n\n# %% [markdown]\n# x\n")
    assert len({cell.id for cell in node.cells}) == 3


def test_a_new_cell_leaves_the_ids_of_the_others(tmp_path: Path) -> None:
    before = built(tmp_path, "# %%\nx\n\n# %%\ny\n")
    after = built(tmp_path, "# %%\nnew\n\n# %%\nx\n\n# %%\ny\n")
    assert [c.id for c in before.cells] == [c.id for c in after.cells[1:]]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["# %%", "# %% [markdown]"]), st.text("abc #%'\"\n\\é", max_size=40)
        )
    )
)
def test_any_text_of_cells_is_built_the_same_twice_or_refused(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    text = "".join(f"{head}\n{body}\n" for head, body in parts)
    try:
        first = notebooks.text(built(folder, text))
    except WorkbookError:
        return
    assert notebooks.text(built(folder, text)) == first


HEAD = '# %% kind="solution" id="a9.x"\n'


@pytest.mark.parametrize(
    ("text", "line", "field", "what", "todo"),
    [
        ('# %%\n1\n# %% kind="chek" id="a9.x"\n', 3, "kind", '"chek" is not a kind', "check"),
        ('# %% kind="check" points=1\n', 1, "id", "has no id", 'id="a2.train"'),
        ('# %% kind="given" id="A9-x"\n', 1, "id", "'A9-x' is not an id", 'id="a2.train"'),
        ('# %% kind="given" id="a9.x"\n1\n# %% kind="given" id="a9.x"\n', 3, "id", "taken", "own"),
        ('# %% kind="given" id="a9.x" points=3\n', 1, "points", "no points", "check cell"),
        ('# %% kind="check" id="a9.x"\n', 1, "points", "no points", "above 0"),
        ('# %% kind="check" id="a9.x" points=-1\n', 1, "points", "-1 are no points", "above 0"),
        ('# %% [markdown] kind="written" id="a9.x" points=0\n', 1, "points", "0 are no", "above 0"),
        ('# %% kind="check" id="a9.x" points=true\n', 1, "points", "True are", "above 0"),
        ('# %% kind="check" id="a9.x" points=NaN\n', 1, "points", "nan are", "above 0"),
        ('# %% kind="check" id="a9.x" points="5"\n', 1, "points", "'5' are", "above 0"),
        ('# %% id="a9.x"\n', 1, "kind", "no kind", "check, solution"),
        ('# %% kind=check id="a9.x"\n', 1, "cell header", "no tag", "quotes"),
        ('# %% kind="given" id="a9.x" point=3\n', 1, "cell header", "point", "points"),
        ("# %% A title\n1\n", 1, "cell header", "A title", "points"),
        ('# %% [markdown] kind="check" id="a9.x" points=1\n', 1, "kind", "markdown", "code"),
        ('# %% kind="written" id="a9.x" points=1\n', 1, "kind", "a code cell", "markdown"),
        (HEAD + "1\n", 1, "solution marker", "has no solution region", "BEGIN SOLUTION"),
        (HEAD + "### BEGIN SOLUTION\n1\n", 1, "solution marker", "does not end", "END SOLUTION"),
        (HEAD + "### END SOLUTION\n", 2, "solution marker", "not begun", "BEGIN"),
        (HEAD + "1\n### BEGIN SOLUTION\n### BEGIN SOLUTION\n", 4, "solution marker", "inside", ""),
        (HEAD + "1\n### begin solution\n", 3, "solution marker", "misspelt", "### BEGIN SOLUTION"),
        (HEAD + "### STUB x\n", 2, "solution marker", "outside", "between"),
        ("# %%\n1\n### BEGIN SOLUTION\n", 3, "solution marker", "not a solution", "kind="),
        ('# %% kind="check" id="a9.x" points=1\n1 +\n', 2, "check", "not Python", 'check("a9.x"'),
        ('# %% kind="check" id="a9.x" points=1\n1\n', 1, "check", "0 times", 'check("a9.x"'),
        (
            '# %% kind="check" id="a9.x" points=1\ncheck("a9.x")\ncheck("a9.x")\n',
            1,
            "check",
            "2 times",
            'check("a9.x"',
        ),
        ('# %% kind="check" id="a9.x" points=1\ncheck("a9.y")\n', 1, "check", "a9.y", "a9.x"),
        (
            '# %% kind="check" id="a9.x" points=1\ncheck(name)\n',
            1,
            "check",
            "without an id",
            "a9.x",
        ),
        ("# ---\n# title: x\n\n# %%\n", 3, "header", "does not end", "# ---"),
        ("# ---\n# title: [\n# ---\n# %%\n", 2, "header", "not YAML", "title"),
        ("# ---\n# just words\n# ---\n# %%\n", 2, "header", "no fields", "title"),
        ("# ---\n# a: 1\n# minutes: soon\n# ---\n", 3, "minutes", "above 0", "minutes: 20"),
        ("# ---\n# minutes: 0\n# ---\n", 2, "minutes", "above 0", "minutes: 20"),
        ("# ---\n# title: 5\n# ---\n", 2, "title", "not a text", "title"),
        ("# ---\n# day: 2026-01-01\n# ---\n", 2, "day", "has to be", "quotes"),
        ("# ---\n# jupyter:\n#   kernelspec: x\n# ---\n", 2, "jupyter", "not a field", "out"),
    ],
)
def test_what_is_wrong_is_said_with_file_line_field_and_remedy(
    tmp_path: Path, text: str, line: int, field: str, what: str, todo: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(WorkbookError) as caught:
        notebooks.read(path)
    error = caught.value
    assert error.where.startswith(f"{path}, line {line}, ")
    assert field in error.where
    assert what in error.what
    assert todo in error.todo


def test_a_cell_marker_inside_a_string_does_not_shift_the_lines(tmp_path: Path) -> None:
    text = 'x = """\n# %% [markdown]\n"""\n\n# %% kind="chek" id="a9.x"\n1\n'
    with pytest.raises(WorkbookError) as caught:
        notebooks.read(write(tmp_path, "# %%\n" + text))
    assert re.search("line 6,", caught.value.where)


def test_a_check_may_stand_below_magics(tmp_path: Path) -> None:
    text = '# %% kind="check" id="a9.x" points=1\n# %%time\n# %matplotlib inline\ncheck("a9.x")\n'
    assert built(tmp_path, text).cells[0].source.startswith("%%time\n%matplotlib inline\n")


def test_tags_that_are_no_list_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkbookError, match="not py:percent: 'x' is not of type 'array'"):
        notebooks.read(write(tmp_path, '# %% tags="x"\n1\n'))


def test_a_source_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a9.py"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(WorkbookError, match="cannot be read"):
        notebooks.read(path)


LECTURE = "# ---\n# title: Start\n# minutes: 10\n# ---\n\n# %%\nprint(1)\n\n# %%\nprint(2)\n"


def executed(path: Path) -> None:
    """Leave a notebook as JupyterLab saves it after a run."""
    node = nbformat.read(path, as_version=4)
    for count, cell in enumerate(node.cells, 1):
        cell.execution_count = count
        cell.metadata["execution"] = {"iopub.execute_input": "2026-01-01T00:00:00Z"}
        cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=f"{count}\n")]
    node.metadata["language_info"]["version"] = "3.11.2"
    nbformat.write(node, path)


def test_a_lecture_is_built_without_outputs(home: Path) -> None:
    """This holds even if a developer has run the built notebook and saved it."""
    folder = home / "lectures/1_architecture/01__start"
    folder.mkdir(parents=True)
    write(folder, LECTURE, "lesson.py")
    (lecture,) = building.lectures(home)
    target = folder / "01__start.ipynb"
    assert building.build(lecture) == [target]
    kept = target.read_bytes()
    executed(target)
    assert building.build(lecture, dry=True) == [target]
    assert target.read_bytes() != kept
    assert building.build(lecture) == [target]
    assert target.read_bytes() == kept
    assert building.build(lecture) == []
    node = nbformat.read(target, as_version=4)
    assert [(c.outputs, c.execution_count) for c in node.cells] == [([], None)] * 2


ASKING = """\
# %%
from workbook.lessons import predict, predict_curve

predict(
    "a.sky",
    "Which colour?",
    {"blue": None, "green": "You thought of grass."},
)
# !curl -s localhost
predict_curve("a.load", "How does it grow?", x=[1, 2], y_range=(0, 9), unit="ms")
x = 1
claim(x == 1, f"It is {x}.", "Run it again.", id="a.one")
claim(x == 1, "It is one.", "Run it again.")
claim(
    x == 1  # one
    and x < 2,
    "It is one.",
    "Run it again.",
    premise=x,
    id="a.two",
)
"""


def test_a_built_lecture_does_not_tell_the_answers(home: Path) -> None:
    """A question's code would: the right option is the one without an explanation."""
    folder = home / "lectures/01__asking"
    folder.mkdir(parents=True)
    source = write(folder, ASKING, "lesson.py")
    assert building.page(source).cells[0].source == (
        "from workbook.lessons import predict, predict_curve\n\n"
        'predict("a.sky")\n!curl -s localhost\npredict_curve("a.load")\nx = 1\n'
        'claim("a.one", x=x)\nclaim(x == 1, "It is one.", "Run it again.")\n'
        'claim("a.two", x=x)'
    )


DECIDING = """\
# %%
x, y = measure(), measure()

# %%
options = ["more", "less"]
seen = options[x < y]
calm = steady(x)
compare("a.sky", seen, premise=calm)
faster = x / y
claim(faster > 1 and seen != "less", f"×{faster}", "Again.", premise=calm, id="a.sky")

# %%
both = x > 1
print(both)
claim(both, "Both.", "Again.", id="a.both")
"""


def test_what_decides_an_answer_is_hidden_with_it(home: Path) -> None:
    """Conditions, options and premises that nothing else reads; what was measured is seen."""
    folder = home / "lectures/01__asking"
    folder.mkdir(parents=True)
    node = building.page(write(folder, DECIDING, "lesson.py"))
    assert [cell.source for cell in node.cells] == [
        "x, y = measure(), measure()",
        'compare("a.sky", x=x, y=y)\nclaim("a.sky", x=x, y=y)',
        'both = x > 1\nprint(both)\nclaim("a.both", both=both)',
    ]
    words = carried(node)
    assert words["compare"]["a.sky"].splitlines() == [
        "options = ['more', 'less']",
        "seen = options[x < y]",
        "calm = steady(x)",
        "compare('a.sky', seen, premise=calm)",
    ]


def test_a_cell_of_answers_alone_is_collapsed(home: Path) -> None:
    folder = home / "lectures/01__asking"
    folder.mkdir(parents=True)
    code = '# %%\nx = 1\n\n# %%\nhigh = x > 1\nclaim(high, "High.", "Again.", id="a.b")\n'
    first, second = building.page(write(folder, code, "lesson.py")).cells
    assert first.metadata == {}
    assert (second.source, second.metadata) == (
        'claim("a.b", x=x)',
        {"jupyter": {"source_hidden": True}},
    )


def test_the_name_of_a_comprehension_is_no_value(home: Path) -> None:
    """It does not exist in the notebook's cell, so the call cannot pass it on."""
    folder = home / "lectures/01__asking"
    folder.mkdir(parents=True)
    code = (
        "# %%\nrows = [row for row in measure()]\n\n# %%\n"
        'claim(all(row > 1 for row in rows), "High.", "Again.", id="a.b")\n'
    )
    second = building.page(write(folder, code, "lesson.py")).cells[1]
    assert second.source == 'claim("a.b", rows=rows)'


def test_a_question_that_is_put_together_is_an_error(home: Path) -> None:
    folder = home / "lectures/01__asking"
    folder.mkdir(parents=True)
    source = write(folder, 'x = 1\npredict("a.sky", f"Which of {x}?")\n', "lesson.py")
    with pytest.raises(WorkbookError, match="is computed"):
        building.page(source)
