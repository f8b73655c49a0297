"""Read in a server's log what no endpoint shows.

The log says which processes have ended by themselves (the server's own, and its models'), and which
configs a server in poll mode refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .guard import ENDED

#: The beginning of the log line that says why a model is not loaded again (restart.py).
NOT_AGAIN = "Not loaded again: "
#: native/revive.cc writes the first two lines, guard.py the third, restart.py the fourth.
_MODEL = re.compile(
    r"^(?:\w\d{4} (?P<at>[\d:]+))?.*?The process of model '(?P<name>.+?)' has ended: (?P<how>.+?)\."
    r"(?: The model is loaded again\.)?\"$",
    re.MULTILINE,
)
_UNLOADED = re.compile(r"Model '(.+?)' is unloaded: (.+)\"$", re.MULTILINE)
_SERVER = re.compile(rf"^{ENDED}(?P<how>.+?), at (?P<at>\S+)\. It is started again", re.MULTILINE)
_NOT_AGAIN = re.compile(rf"^{NOT_AGAIN}(.+?): (.+)$", re.MULTILINE)
#: Two messages: a poll refuses a folder (the parser's own line stands before it); a load begins.
_POLLED = re.compile(
    r"(?:Error parsing text-format inference\.ModelConfig: (?P<parsed>.+)\n)?"
    r".*\"(?:Poll failed for model directory '(?P<refused>.+?)': (?P<why>.+)"
    r"|loading: (?P<loading>.+?):\d+)\"$",
    re.MULTILINE,
)
_LOADED = re.compile(r"\bsuccessfully loaded '(.+?)'\"?$", re.MULTILINE)


def sentences(log: str) -> list[str]:
    """Sentences on the processes that have ended: first on the server's own, then on each model's.

    There is one sentence for each model and each way in which its process has ended. It gives the
    time, or the number of times and the last one.

    Args:
        log: the text of the server's log.
    """
    found = [
        f"The server has ended ({how}), and was started again."
        for how in _counted((m["how"], m["at"]) for m in _SERVER.finditer(log))
    ]
    models: dict[str, list[tuple[str, str]]] = {}
    for match in _MODEL.finditer(log):
        models.setdefault(match["name"], []).append((match["how"], match["at"] or ""))
    for model, ends in models.items():
        found += [f"The process of {model} has ended ({how})." for how in _counted(ends)]
    for model, why in dict(_UNLOADED.findall(log)).items():
        found.append(f"{model} was unloaded: {why}")
    for model, why in dict(_NOT_AGAIN.findall(log)).items():
        found.append(f"{model} was not loaded again: {why}")
    return found


def how_it_ended(log: str) -> str:
    """How the server has ended, with the last lines of its log; "" if the log does not say it.

    Args:
        log: the text of the server's log.
    """
    before, _, rest = log.rpartition(ENDED)
    if not before:
        return ""
    last = "; ".join(before.strip().splitlines()[-2:])
    return f"{ENDED}{rest.splitlines()[0]}. Its log ends with: {last}"


def started_again(log: str) -> str | None:
    """How the server ended, if its guard has started it again since then; else None."""
    last = log.rfind(f"\n{ENDED}")
    found = _SERVER.match(log, last + 1)
    return f"{found['how']}, at {found['at']}" if found else None


def loaded_models(log: str) -> set[str]:
    """The models that the server has loaded since its last start."""
    return set(_LOADED.findall(log, max(log.rfind(f"\n{ENDED}"), 0)))


def refused_configs(log: str) -> dict[str, str]:
    """Why the server refused a model's folder at the last poll, by model (control mode poll)."""
    found: dict[str, str] = {}
    for match in _POLLED.finditer(log):
        if (model := match["refused"]) is not None:
            parsed = match["parsed"]
            found[model] = f"config.pbtxt, {parsed}" if parsed else match["why"]
        else:
            found.pop(match["loading"], None)
    return found


def _counted(ends: Iterable[tuple[str, str]]) -> list[str]:
    """Count the ways in which a process has ended; each with its number of times and the last time.

    Args:
        ends: pairs of a way and a time.
    """
    times: dict[str, list[str]] = {}
    for how, at in ends:
        times.setdefault(how, []).append(at)
    return [
        f"{how}{f', at {at[-1]}' if at[-1] else ''}"
        if len(at) == 1
        else f"{how}, {len(at)} times{f', last at {at[-1]}' if at[-1] else ''}"
        for how, at in times.items()
    ]
