"""What a benchmark found, as a table on the terminal and as a section of a Markdown file."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from workbook.common.errors import WorkbookError

TIMES = "\N{MULTIPLICATION SIGN}"

_HEAD = """\
# Benchmarks

Written by `workbook bench` (or `make bench`) and `make bench-peers`: each section is replaced when
it is measured again, and says when and on what. Ratios are taken within one run, from medians of
rounds that alternate between the two sides, on the same cores, with the same client, after the
answers were checked against the model run in this process.
"""


@dataclasses.dataclass(frozen=True)
class Goal:
    """A figure that is to be reached: `value` at least (or, with `at_most`, at most) `target`."""

    what: str
    value: float
    target: float
    unit: str = TIMES
    at_most: bool = False
    judged: bool = True  # False where the machine was too crowded to say

    @property
    def reached(self) -> bool:
        """Whether the figure reaches its target."""
        return self.value <= self.target if self.at_most else self.value >= self.target

    def cells(self) -> tuple[str, str, str, str]:
        """The cells of its row: what, measured, target, yes or no."""
        bound = "at most" if self.at_most else "at least"
        if self.unit == TIMES:
            measured, target = f"{TIMES}{self.value:.2f}", f"{TIMES}{self.target:g}"
        else:
            value = f"{self.value}" if isinstance(self.value, int) else f"{self.value:.2f}"
            measured, target = (
                f"{value} {self.unit}".strip(),
                f"{self.target:g} {self.unit}".strip(),
            )
        verdict = ("yes" if self.reached else "**no**") if self.judged else "not judged"
        return self.what, measured, f"{bound} {target}", verdict


@dataclasses.dataclass(frozen=True)
class Section:
    """One benchmark's result.

    Attributes:
        key: the name by which `workbook bench KEY` measures it again.
        how: what was measured, in a few sentences.
        columns, rows: the table of what was seen.
        goals: the figures that are to be reached.
        picture: a file that shows it, as a path from the project's folder; "" for none.
        timed: whether what other programs took of the processor is counted, and decides whether the
            goals are judged. Not where figures do not depend on it, or judge that themselves.
    """

    key: str
    title: str
    how: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    goals: Sequence[Goal] = ()
    picture: str = ""
    timed: bool = True


def show(section: Section, console: Console) -> None:
    """Print a section."""
    console.print(f"\n[bold]{section.title}[/bold]")
    console.print(f"{section.how}\n", markup=False)  # a link has square brackets
    table = Table(box=box.SIMPLE_HEAD)
    for number, name in enumerate(section.columns):
        table.add_column(name, justify="left" if number == 0 else "right")
    for row in section.rows:
        table.add_row(*row)
    console.print(table)
    for goal in section.goals:
        what, measured, target, verdict = goal.cells()
        answer = {"yes": "reached", "**no**": "not reached"}.get(verdict, verdict)
        colour = {"yes": "green", "**no**": "red"}.get(verdict, "yellow")
        console.print(f"  {what}: {measured} ({target}) [{colour}]{answer}[/{colour}]")


def write(section: Section, file: Path, machine: str) -> None:
    """Write a section into the Markdown file: it replaces the older one, or goes to the end.

    Raises:
        WorkbookError: the file cannot be written.
    """
    begin, end = f"<!-- {section.key}: begin -->", f"<!-- {section.key}: end -->"
    block = f"{begin}\n{_markdown(section, machine)}\n{end}"
    try:
        text = file.read_text(encoding="utf-8") if file.exists() else _HEAD
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        if pattern.search(text):
            text = pattern.sub(lambda _: block, text, count=1)
        else:
            text = f"{text.rstrip()}\n\n{block}\n"
        fresh = file.with_name(f".{file.name}.new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(file)
    except OSError as error:
        raise WorkbookError(
            f"The results could not be written: {error.strerror}.",
            where=str(file),
            todo="Give another place with --output FILE.",
        ) from None


def _markdown(section: Section, machine: str) -> str:
    today = datetime.date.today().isoformat()
    parts = [f"## {section.title}", section.how, _table(section.columns, section.rows)]
    if section.goals:
        goals = [goal.cells() for goal in section.goals]
        parts.append(_table(("figure", "measured", "target", "reached"), goals))
    if section.picture:
        parts.append(f"![{section.title}]({section.picture})")
    parts.append(f"*{today}; {machine}.*")
    return "\n\n".join(parts)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(columns) - 1)]
    lines = [columns, rule, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
