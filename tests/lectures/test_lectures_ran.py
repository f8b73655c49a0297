"""What the executed copies of the lectures show; test_lectures_run.py makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lectures import counting
from tests.lectures.course import LECTURES
from tests.lectures.site_links import broken
from workbook import site
from workbook.common import paths
from workbook.notebooks import building
from workbook.site import executed

pytestmark = pytest.mark.server

#: How far `minutes:` in a header may be from the counted minutes, without and with the time that
#: this machine took: another machine is faster or slower.
MINUTES = 3


@pytest.mark.last
def test_the_table_of_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints what each notebook costs its reader, and compares `minutes:` with it.

    The machine's time is that of the last executed copy; without one, it is 0.
    """
    lines = [
        "",
        "notebook                      cells code text harness words tasks machine minutes",
    ]
    wrong = []
    for path in LECTURES:
        counts = counting.count(building.page(path), path.parent)
        node = executed.copy_of(path)
        machine = node.metadata.workbook.get("seconds", 0.0) if node is not None else 0.0
        minutes = counts.minutes + machine / 60
        lines.append(
            f"{path.parent.name:28} {counts.cells:6} {counts.longest_code:4} "
            f"{counts.longest_text:4} {counts.harness:7.0%} {counts.words:5} {counts.tasks:5} "
            f"{machine:5.0f} s "
            f"{minutes:7.1f}"
        )
        header = building.page(path).metadata.workbook["minutes"]
        if machine and not counts.minutes - MINUTES <= header <= minutes + MINUTES:
            wrong.append(f"{path.parent.name}: its header says {header}, it is {minutes:.0f}")
    with capsys.disabled():
        print("\n".join(lines))
    assert not wrong


@pytest.mark.last
def test_the_site_of_what_ran(tmp_path: Path) -> None:
    """Executed copies become pages, without a broken link and without this machine's paths."""
    nodes = {path: node for path in LECTURES if (node := executed.copy_of(path)) is not None}
    for path, node in nodes.items():
        outputs = str([cell.outputs for cell in node.cells if cell.cell_type == "code"])
        for private in (f"{paths.root()}/", f"{Path.home()}/"):
            assert private not in outputs, path.parent.name
    index = site.build(nodes, tmp_path / "site")
    assert broken(index.parent) == []
