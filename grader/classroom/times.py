"""Times as nbgrader writes them: of handing in, in `timestamp.txt` and in the gradebook."""

from __future__ import annotations

import contextlib
import datetime
import re
import zoneinfo

_TIME = re.compile(
    r"(?P<moment>\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)"
    r"(?: ?(?P<offset>[+-]\d\d:?\d\d)| ?(?P<zone>[A-Za-z][\w+/-]{0,40}))?",
    re.ASCII,
)
#: Years in which a submission may have been handed in. Others are taken for a mistake.
_YEARS = range(2000, 2100)


def parse(text: str) -> datetime.datetime | None:
    """The time in a text as nbgrader writes it; None if there is none, or not one of this century.

    A zone that this machine does not know is taken for UTC, as nbgrader does.

    Example: `parse("2026-11-20 10:00:00.000000 UTC")`.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None or int(match["moment"][:4]) not in _YEARS:
        return None
    try:
        moment = datetime.datetime.fromisoformat(match["moment"])
        zone: datetime.tzinfo = datetime.UTC
        if match["offset"]:
            zone = datetime.datetime.strptime(match["offset"], "%z").tzinfo or zone
        elif match["zone"]:
            with contextlib.suppress(zoneinfo.ZoneInfoNotFoundError, OSError):
                zone = zoneinfo.ZoneInfo(match["zone"])
        return moment.replace(tzinfo=zone).astimezone(datetime.UTC)
    except ValueError:  # such as a 13th month
        return None


def format_utc(time: datetime.datetime) -> str:
    """A time with a zone, as nbgrader writes it: in UTC.

    Example: `2026-11-20 10:00:00.000000 UTC`.
    """
    return f"{time.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S.%f} UTC"
