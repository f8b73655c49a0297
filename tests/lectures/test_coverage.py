"""What the lectures cover: every row's section exists, and items marked as run were run.

Rows of `lectures/<lecture>/COVERAGE.md`: where in the source document | item | section | depth |
proof. The depth is one of

- run: a claim or a task in this section proves it; the proof is its id. That it ran is tested
  where the lectures run (test_lectures_run.py: no claim and no task of a notebook is passed over).
  It ran on a CPU, so an item that needs a GPU cannot have this depth;
- run with vLLM: the same if vLLM is installed; otherwise another engine answers in its place;
- shown: the section has code or a picture of it;
- mentioned: the section mentions it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import sources
from tests.lectures.course import HOME, TOPICS, codes, headings, proofs

ROW = re.compile(
    r"^\| ([^|]+) \| ([^|]+) \| \[([^\]]+)\]\(([^)#]+)\)"
    r" \| (run|run with vLLM|shown|mentioned) \| (?:`([^`]+)`|–) \|$"
)
TABLES = sorted(HOME.glob("*/COVERAGE.md"))


def rows() -> list[tuple[Path, tuple[str, ...]]]:
    found = []
    for table in TABLES:
        lines = [line for line in table.read_text("utf-8").splitlines() if line.startswith("| ")]
        for line in lines:
            if line.startswith(("| where in", "| ---")):
                continue
            match = ROW.match(line)
            assert match, line
            found.append((table, match.groups(default="")))
    return found


def name(value: Path | tuple[str, ...]) -> str:
    return value.parent.name if isinstance(value, Path) else f"{value[0]}: {value[1]}"[:60]


each_row = pytest.mark.parametrize(("table", "row"), rows(), ids=name)


def cells_of(path: Path, heading: str) -> list[str]:
    """The cells of a section, as `type\\ntext`, from its heading to the next one."""
    found: list[str] = []
    inside = False
    for cell in sources.read(path).cells:
        parts = [cell.source]
        if cell.type == "markdown":
            parts = re.split(r"(?m)^(?=#+ )", cell.source)
        for part in parts:
            if cell.type == "markdown" and re.match(r"#+ ", part):
                inside = part.splitlines()[0].lstrip("# ").strip() == heading
            if inside and part.strip():
                found.append(f"{cell.type}\n{part}")
    return found


def test_every_lecture_has_its_table() -> None:
    folders = {path.parent.parent for path in TOPICS}
    assert {table.parent for table in TABLES} == folders


@each_row
def test_a_row_names_a_section_and_its_proof(table: Path, row: tuple[str, ...]) -> None:
    _, item, heading, notebook, depth, proof = row
    path = (table.parent / notebook).resolve().with_name("lesson.py")
    assert heading in headings(path), f"{path.parent.name} has no heading {heading!r}"
    cells = cells_of(path, heading)
    assert bool(proof) == depth.startswith("run"), item
    if proof:
        assert proof in proofs(path), f"{path.parent.name} has no claim and no task {proof!r}"
        made = [f'id="{proof}"', f'task("{proof}"']
        assert any(call in cell for call in made for cell in cells), (
            f"{proof} is not in {heading!r}"
        )
        assert "GPU" not in item, "nothing of the lectures was run on a GPU"
    if depth == "shown":
        assert any(cell.startswith("code") or "![" in cell or "```" in cell for cell in cells), item


def test_a_proof_is_not_used_for_everything() -> None:
    """One claim proves three items at most."""
    used = [row[5] for _, row in rows() if row[5]]
    assert not [proof for proof in set(used) if used.count(proof) > 3]


def test_what_needs_vllm_says_so() -> None:
    """Without vLLM, these claims hold for another engine."""
    for _, (_, item, _, notebook, depth, proof) in rows():
        of_vllm = "11__llm_backends" in notebook and proof != "llm.engine"
        if proof and (of_vllm or "vLLM" in item):
            assert depth == "run with vLLM", item


def test_every_notebook_with_code_proves_something() -> None:
    named = {(table.parent / row[3]).resolve().stem for table, row in rows() if row[5]}
    missing = {path.parent.name for path in TOPICS if codes(path)} - named
    assert not missing, "Add a row with a claim or a task of it to the lecture's COVERAGE.md"
