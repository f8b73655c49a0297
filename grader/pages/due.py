"""Due dates on pages: when a submission was due, when it came, and what the days cost."""

from __future__ import annotations

import datetime

from ..classroom.lateness import Lateness

_DAY = datetime.timedelta(days=1)


def sentence(late: Lateness | None, zone: datetime.tzinfo, penalty: float) -> str:
    """What a student reads; "" where there is no due date.

    Example: `Due 20 November 2026, 23:59 (UTC). Handed in 22 November 2026, 10:00: 2 days late.
    That costs 10 points.`

    Args:
        late: how the submission stands to the due date.
        zone: the time zone that the times are shown in.
        penalty: the points that the gradebook takes off.
    """
    if late is None:
        return ""
    text = f"Due {_time(late.due, zone)} ({zone})"
    if late.extension:
        text += f", with your extension of {_days(late.extension / _DAY)}"
    text += "."
    if late.submitted is None:
        return text
    text += f" Handed in {_time(late.submitted, zone)}"
    text += f": {_days(late.days)} late." if late.days else "."
    if penalty:
        text += f" That costs {round(penalty, 2):g} points."
    return text


def short(late: Lateness | None, penalty: float) -> str:
    """The same for a cell of the class report, such as `2 days, -10` or `+2 days`."""
    if late is None:
        return ""
    parts = [f"+{_days(late.extension / _DAY)}"] if late.extension else []
    if late.days:
        parts.append(f"{_days(late.days)} late" + (f", -{round(penalty, 2):g}" * bool(penalty)))
    return "; ".join(parts)


def _days(days: float) -> str:
    count = round(days, 1)
    return f"{count:g} day{'s' * (count != 1)}"


def _time(time: datetime.datetime, zone: datetime.tzinfo) -> str:
    local = time.astimezone(zone)
    return f"{local.day} {local:%B %Y, %H:%M}"
