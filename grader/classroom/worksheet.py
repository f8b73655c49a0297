"""When a class handed in, from Moodle's grading worksheets in the inbox.

Moodle's download of all submissions does not say when they were handed in. Its grading worksheet
does (Assignment, Download grading worksheet). The first column has the number that stands in the
names of the download: `Participant 12`. Moodle gives such a number once per student and assignment
(`assign_user_mapping`), so it is clear without the assignment.

Moodle writes a worksheet in the language of whoever downloads it, and no language in it. Read in
`mod/assign/gradingtable.php` and in the language packs (`assign.php`, `langconfig.php`):

- The identifier is the first column (`recordid`), in every language.
- Two columns have times: `Last modified (submission)` and, behind it, `Last modified (grade)`. In
  the languages below their names differ only in the brackets: `Zuletzt geändert (Abgabe)`.
- A time has a form of its own in each language (`strftimedaydatetime`): `Friday, 20 November 2026,
  11:59 PM`, `Freitag, 20. November 2026, 23:59`, `2026年11月20日 星期五 23:59`. A time is read only
  if one of the languages explains each word of it.
"""

from __future__ import annotations

import datetime
import functools
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from babel.dates import get_day_names, get_month_names, get_period_names

from workbook.common.errors import WorkbookError

from . import arrivals, spreadsheet
from .spreadsheet import Sheet

_WHAT = "Moodle's grading worksheet"
_ENGLISH = "Last modified (submission)"
_LANGUAGES = (
    *("en", "de", "de_AT", "fr", "es", "pt", "ru", "zh", "zh_Hant"),
    *("ca", "gl", "it", "ja", "nl", "pl", "ro", "sv", "tr", "uk"),
)
#: Words in Moodle's times beside the names of days and months: `20 de noviembre`, `às 23:59`.
_BETWEEN = {"de", "às", "年", "月", "日"}
_CLOCK = re.compile(r"(?<!\d)(\d{1,2}):(\d\d)(?::(\d\d))?(?!\d)")
_WORD = re.compile(r"[^\W\d_]+")


def handed_in(
    inbox: Path, zone: datetime.tzinfo
) -> tuple[dict[str, datetime.datetime], dict[str, str]]:
    """When participants handed in, by Moodle's numbers.

    Args:
        inbox: the folder in which the worksheets lie. A table whose name is a submission's is
            passed over: a student has written it.
        zone: the time zone of the person who downloaded them: Moodle writes none. Of an hour that
            comes twice, where clocks are set back, the first is taken.

    Returns:
        The times in UTC; and why a table, or some of its times, could not be read, by its name.
    """
    found: dict[str, datetime.datetime] = {}
    faults: dict[str, str] = {}
    for path in sorted(inbox.glob("*.[cC][sS][vV]")):
        if arrivals.is_named(path.name):
            continue
        try:
            cells = list(_submitted(path))
        except WorkbookError as error:
            faults[path.name] = (
                f"{error.what} So no time is taken from it. If it should be one, download it again "
                "with Moodle set to English. If it is the class list, move it into the folder "
                "above, as students.csv. If it is another table, take it out of the inbox."
            )
            continue
        unread = [text for _, text in cells if parse(text) is None]
        if unread:
            faults[path.name] = (
                f"{len(unread)} of its {len(cells)} times were not understood, such as "
                f"{unread[0][:60]!r}. Set Moodle to English, and download it again."
            )
        for number, text in cells:
            if (local := parse(text)) is not None:
                time = local.replace(tzinfo=zone).astimezone(datetime.UTC)
                # Of two worksheets the newer one knows of a later submission.
                found[number] = max(time, found.get(number, time))
    return found, faults


def parse(text: str) -> datetime.datetime | None:
    """A time as Moodle writes it, without a time zone; None if it is not clear.

    Example: `parse("samedi 3 juillet 2026, 09:05") == datetime.datetime(2026, 7, 3, 9, 5)`.
    """
    plain = re.sub(r"\b([ap])\. ?m\.", r"\1m", _fold(text))
    clocks = list(_CLOCK.finditer(plain))
    if len(clocks) != 1:
        return None
    date = _CLOCK.sub(" ", plain)
    numbers, words = re.findall(r"\d+", date), _WORD.findall(date)
    read = {_read(numbers, words, clocks[0], language) for language in _LANGUAGES} - {None}
    return read.pop() if len(read) == 1 else None


def _submitted(path: Path) -> Iterator[tuple[str, str]]:
    """The numbers of participants in a worksheet, and what it says of the time.

    Raises:
        WorkbookError: it cannot be read, or is no worksheet.
    """
    if path.is_symlink() or not path.is_file():  # opening a pipe would wait
        raise WorkbookError("It is no file, and so no worksheet.")
    sheet = spreadsheet.read(path, _WHAT)
    place = _place(sheet)
    ids = [re.fullmatch(r"\D*([0-9]{1,18})", row[0].strip()) for row in sheet.rows]
    if place is None or not all(ids):
        raise WorkbookError(f"This is not {_WHAT}: it has other columns.")
    for id, row in zip(ids, sheet.rows, strict=True):
        if id is not None and (text := " ".join(row[place].split())) not in ("", "-"):
            yield id[1], text


def _place(sheet: Sheet) -> int | None:
    """The column that says when work was handed in; None if that is not clear."""
    if (place := spreadsheet.column(sheet, _ENGLISH)) is not None:
        return place
    titles = [unicodedata.normalize("NFKC", title) for title in sheet.header]
    matches = [re.fullmatch(r"(.+?) ?\(.+\)", title.strip()) for title in titles]
    names = [match[1].casefold() if match else "" for match in matches]
    return next((n for n, name in enumerate(names) if name and name in names[n + 1 :]), None)


@functools.cache
def _names(language: str) -> tuple[dict[str, int], dict[str, str], set[str]]:
    """A language's months, names of the halves of a day (`am`, `pm`), and words without meaning."""
    months: dict[str, int] = {}
    plain = set(_BETWEEN)
    for width in ("wide", "abbreviated"):
        for context in ("format", "stand-alone"):
            for number, name in get_month_names(width, context, language).items():
                *before, last = _WORD.findall(_fold(name)) or [""]
                plain |= {*before}  # of a month such as `de novembre`
                if not re.search(r"\d", name):
                    months[last] = number
    for name in get_day_names("wide", "format", language).values():
        plain |= {*_WORD.findall(_fold(name))}
    periods = get_period_names("abbreviated", "format", language)
    halves = {"".join(_WORD.findall(_fold(periods[half]))): half for half in ("am", "pm")}
    return months, {**halves, "am": "am", "pm": "pm"}, plain


def _fold(text: str) -> str:
    """A text in one spelling: small letters, plain spaces and digits, one kind of apostrophe."""
    return unicodedata.normalize("NFKC", text).casefold().replace("\u02bc", "'")


def _read(
    numbers: list[str], words: list[str], clock: re.Match[str], language: str
) -> datetime.datetime | None:
    """The time, if a language explains each word. Without a month's name the year comes first."""
    months, halves, plain = _names(language)
    named = [months[word] for word in words if word in months]
    half = [halves[word] for word in words if word in halves and word not in months]
    if any(word not in months and word not in halves and word not in plain for word in words):
        return None
    hour = int(clock[1])
    if len(half) == 1 and hour <= 12:
        hour = hour % 12 + 12 * (half[0] == "pm")
    years = [number for number in numbers if len(number) == 4]
    rest = [int(number) for number in numbers if len(number) <= 2]
    if len(half) > 1 or len(years) != 1 or len(rest) + len(years) != len(numbers):
        return None
    if len(named) == 1 and len(rest) == 1:
        month, day = named[0], rest[0]
    elif not named and len(rest) == 2 and numbers[0] == years[0]:
        month, day = rest
    else:
        return None
    try:
        time = datetime.datetime(int(years[0]), month, day, hour, int(clock[2]), int(clock[3] or 0))
    except ValueError:  # such as 30 February
        return None
    return time if time.year >= 2000 else None
