"""Read and write the CSV files of other systems, and keep spreadsheets from obeying a cell."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from workbook.common.errors import WorkbookError

from .names import shown

_DECIMAL = re.compile(r"\d+(?:[.,]\d+)?")
#: The largest file that is read, in bytes.
MOST_BYTES = 50 << 20
#: Where a spreadsheet could take a text for a formula: at = + - or @, also in their wide and small
#: forms, at the beginning of a cell, or of what another spreadsheet takes for a cell.
_FORMULA = re.compile(
    r"""((?:^|[;,|])[\s"\ufeff\u200b-\u200d\u2060]*)"""
    r"([=+\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u207a\u207c\u208a\u208c])"
)
_BOM = "\ufeff"


@dataclasses.dataclass(frozen=True)
class Sheet:
    """A CSV file: its cells as they are, and how it is written.

    Attributes:
        file: where it lies.
        header: the first row.
        rows: the other rows, each as long as the header.
        delimiter: the character between cells.
        begins: a byte order mark, where the file has one.
        ends: what ends each line.
    """

    file: Path
    header: list[str]
    rows: list[list[str]]
    delimiter: str = ","
    begins: str = ""
    ends: str = "\n"

    def text(self, rows: Iterable[Sequence[str]], header: Sequence[str] | None = None) -> str:
        """Rows as CSV, written as the file was. Cells are written as they are: see `safe`."""
        out = io.StringIO()
        writer = csv.writer(out, delimiter=self.delimiter, lineterminator=self.ends)
        writer.writerow(self.header if header is None else header)
        writer.writerows(rows)
        return self.begins + out.getvalue()


def read(file: Path, what: str, todo: str = "") -> Sheet:
    """Read a CSV file that another system wrote.

    Args:
        file: the file: UTF-8, with commas, semicolons or tabs between its cells.
        what: what it should be, for messages, such as `Moodle's grading worksheet`.
        todo: what to do if it is not; by default, to download it again.

    Raises:
        WorkbookError: it cannot be read, or is not such a file.
    """
    todo = (
        todo or f"Download {what} again, as CSV, and do not save it with a spreadsheet in between."
    )
    try:
        size = file.stat().st_size
        content = file.read_bytes() if size <= MOST_BYTES else b""
    except OSError as error:
        raise WorkbookError(
            f"{what} cannot be read: {error.strerror}.", where=str(file), todo="Name the file."
        ) from None
    try:
        if size > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES >> 20} MiB")
        text = content.decode("utf-8")
        if "\0" in text:
            raise ValueError("it is no text")
        begins = _BOM if text.startswith(_BOM) else ""
        text = text.removeprefix(_BOM)
        head = text.partition("\n")[0]
        delimiter = max(",;\t", key=head.count)
        csv.field_size_limit(MOST_BYTES)
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except (ValueError, csv.Error) as error:
        reason = "it is no UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise WorkbookError(
            f"{what} cannot be read: {reason}.", where=str(file), todo=todo
        ) from None
    rows = [row for row in rows if row]
    if not rows or len(rows[0]) < 2:
        raise WorkbookError(f"This is not {what}: it has no columns.", where=str(file), todo=todo)
    header = rows[0]
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(header):
            raise WorkbookError(
                f"{what} is damaged: row {number} has {len(row)} cells, its header {len(header)}.",
                where=str(file),
                todo=todo,
            )
    return Sheet(file, header, rows[1:], delimiter, begins, "\r\n" if "\r\n" in text else "\n")


def column(sheet: Sheet, *names: str) -> int | None:
    """The place of the column with one of these names; None where there is none."""
    plain = [" ".join(title.split()).casefold() for title in sheet.header]
    return next((plain.index(n.casefold()) for n in names if n.casefold() in plain), None)


def safe(value: str) -> str:
    """A cell without control characters, and with an apostrophe before what looks like a formula.

    Only for cells that the other system does not read, or reads as text: an apostrophe changes an
    id. A spreadsheet of another language can take `;`, `,` or a tab inside a cell for the beginning
    of the next one, so what stands after these counts too.

    Example: `safe("=cmd()") == "'=cmd()"`, `safe("Eve; =cmd()") == "Eve; '=cmd()"`.
    """
    text = " ".join(shown(value).splitlines()).replace("\t", " ")
    return _FORMULA.sub(r"\1'\2", text)


def number(value: float, comma: bool = False) -> str:
    """A number with at most two decimals, with a decimal comma where a system writes one.

    Example: `number(12.5) == "12.50"`, `number(7, comma=True) == "7,00"`.
    """
    return f"{value:.2f}".replace(".", "," if comma else ".")


def parse_number(text: str) -> float | None:
    """The number that a cell holds, with a decimal point or comma; None if it holds none.

    Example: `parse_number(" 12,50 ") == 12.5`, `parse_number("-") is None`.
    """
    text = text.strip()
    return float(text.replace(",", ".")) if _DECIMAL.fullmatch(text) else None
