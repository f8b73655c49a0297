"""What a server's log says of processes that have ended by themselves: its own, and its models'."""

from __future__ import annotations

import re
from collections import Counter

from .guard import ENDED

#: native/revive.cc writes the first two lines, guard.py the third.
_MODEL = re.compile(
    r"The process of model '(.+?)' has ended: (.+?)\.(?: The model is loaded again\.)?\"$",
    re.MULTILINE,
)
_UNLOADED = re.compile(r"Model '(.+?)' is unloaded: (.+)\"$", re.MULTILINE)
_SERVER = re.compile(rf"^{ENDED}(.+?)\. It is started again", re.MULTILINE)


def sentences(log: str) -> list[str]:
    """One sentence per model whose process has ended, and per way in which; the server's first.

    Args:
        log: the text of the server's log.
    """
    found = [
        f"The server has ended ({how}{_times(count)}), and was started again."
        for how, count in Counter(_SERVER.findall(log)).items()
    ]
    for (model, how), count in Counter(_MODEL.findall(log)).items():
        found.append(f"The process of {model} has ended ({how}{_times(count)}).")
    for model, why in dict(_UNLOADED.findall(log)).items():
        found.append(f"{model} was unloaded: {why}")
    return found


def _times(count: int) -> str:
    return "" if count == 1 else f", {count} times"
