"""When a class handed in, from Moodle's grading worksheets in the inbox.

Moodle's download of all submissions does not say when they were handed in. Its grading worksheet
does (Assignment, Download grading worksheet), in `Last modified (submission)`. Its column
`Identifier`, `Participant 12`, has the number that stands in the names of the download. Moodle
gives such a number once per student and assignment (`assign_user_mapping`), so it is clear without
the assignment.
"""

from __future__ import annotations

import csv
import datetime
import io
import re
from collections.abc import Iterator
from pathlib import Path

from . import arrivals
from .unpack_submission import Refused, open_regular

_MOST_BYTES = 20 << 20
_NUMBER, _TIME = "Identifier", "Last modified (submission)"
#: As Moodle writes times in English, with and without the day of the week.
_FORMATS = [
    f"{day}{date}{time}"
    for day in ("%A, ", "")
    for date in ("%d %B %Y, ", "%B %d, %Y, ", "%Y-%m-%d ")
    for time in ("%I:%M %p", "%H:%M", "%I:%M:%S %p", "%H:%M:%S")
]


def handed_in(
    inbox: Path, zone: datetime.tzinfo
) -> tuple[dict[str, datetime.datetime], dict[str, str]]:
    """When participants handed in, by Moodle's numbers.

    Args:
        inbox: the folder in which the worksheets lie. Other tables are passed over, and those whose
            names are a submission's: a student has written them.
        zone: the time zone of the person who downloaded them: Moodle writes none.

    Returns:
        The times in UTC; and what could not be read, by the name of the table.
    """
    found: dict[str, datetime.datetime] = {}
    faults: dict[str, str] = {}
    for path in sorted(inbox.glob("*.[cC][sS][vV]")):
        if arrivals.is_named(path.name):
            continue
        unread = ""
        try:
            for number, text in _rows(path):
                if (time := _time(text, zone)) is None:
                    unread = unread or text
                else:  # of two worksheets the newer one knows of a later submission
                    found[number] = max(time, found.get(number, time))
        except (OSError, Refused, UnicodeDecodeError, csv.Error):
            continue  # it is no worksheet of Moodle's, which are in UTF-8
        if unread:
            faults[path.name] = (
                f"Its times cannot be read: {unread[:60]!r}. Set Moodle to English, and download "
                "it again."
            )
    return found, faults


def _rows(path: Path) -> Iterator[tuple[str, str]]:
    """The numbers of participants in a table, and what it says of the time.

    Raises:
        OSError, Refused, UnicodeDecodeError, csv.Error: it is no worksheet.
    """
    with open_regular(path) as stream:
        content = stream.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise Refused("It is too large.")
    for row in csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")):
        number = re.fullmatch(r"\D*([0-9]+)", row.get(_NUMBER) or "")
        text = " ".join((row.get(_TIME) or "").split())
        if number is not None and text not in ("", "-"):
            yield number[1], text


def _time(text: str, zone: datetime.tzinfo) -> datetime.datetime | None:
    for format in _FORMATS:
        try:
            time = datetime.datetime.strptime(text, format)
        except ValueError:
            continue
        return time.replace(tzinfo=zone).astimezone(datetime.UTC) if time.year >= 2000 else None
    return None
