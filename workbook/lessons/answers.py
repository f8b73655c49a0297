"""The reader's predictions, kept on this machine.

They are saved in `.workbook/predictions/`, one file per prediction, so that they are still there
after the kernel is restarted. If `WORKBOOK_UNATTENDED` is set, there is no reader, and no
prediction is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..common import paths
from ..common.unattended import unattended
from .workspace import checked_name

#: What this kernel draws again when the reader answers later, by the key of the prediction.
_redraws: dict[str, Callable[[], None]] = {}


def load(key: str) -> Any:
    """The saved prediction; None without one, and where `WORKBOOK_UNATTENDED` is set."""
    if unattended():
        return None
    try:
        return json.loads(_file(key).read_text("utf-8"))
    except (OSError, ValueError):
        return None


def save(key: str, value: Any) -> None:
    """Save a prediction, and draw the comparison that shows it again.

    Args:
        key: the prediction's name.
        value: a text, a number, or a curve as a dictionary.
    """
    _file(key).write_text(json.dumps(value), "utf-8")
    if key in _redraws:
        _redraws[key]()


def when_saved(key: str, redraw: Callable[[], None] | None) -> None:
    """Call a function whenever the prediction is saved; None ends that.

    Args:
        key: the prediction's name.
        redraw: takes the place of an earlier function.
    """
    _redraws.pop(key, None)
    if redraw is not None:
        _redraws[key] = redraw


def _file(key: str) -> Path:
    return paths.state("predictions") / f"{checked_name(key)}.json"
