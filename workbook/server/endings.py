"""What a server's log says that no endpoint does: which processes have ended by themselves, the
server's own and its models', and which configs a server in poll mode refuses."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .guard import ENDED

#: How a line of the log begins that says why a model is not loaded again (restart.py).
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
#: A poll that refuses a folder, after the line of the parser; or the begin of a load.
_POLLED = re.compile(
    r"(?:Error parsing text-format inference\.ModelConfig: (?P<parsed>.+)\n)?"
    r".*\"(?:Poll failed for model directory '(?P<refused>.+?)': (?P<why>.+)"
    r"|loading: (?P<loading>.+?):\d+)\"$",
    re.MULTILINE,
)
_LOADED = re.compile(r"\bsuccessfully loaded '(.+?)'\"?$", re.MULTILINE)


def sentences(log: str) -> list[str]:
    """One sentence per model whose process has ended, and per way in which; the server's first.

    Each says when that was; where there were several, the last time.

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


def started_again(log: str) -> str | None:
    """How the server ended, if its guard has started it again since; None where it has not."""
    last = log.rfind(f"\n{ENDED}")
    found = _SERVER.match(log, last + 1)
    return f"{found['how']}, at {found['at']}" if found else None


def loaded(log: str) -> set[str]:
    """The models that the server has loaded since it was started the last time."""
    return set(_LOADED.findall(log, max(log.rfind(f"\n{ENDED}"), 0)))


def refused_configs(log: str) -> dict[str, str]:
    """By model why the server has refused its folder at the last poll (control mode poll)."""
    found: dict[str, str] = {}
    for match in _POLLED.finditer(log):
        if (model := match["refused"]) is not None:
            parsed = match["parsed"]
            found[model] = f"config.pbtxt, {parsed}" if parsed else match["why"]
        else:
            found.pop(match["loading"], None)
    return found


def _counted(ends: Iterable[tuple[str, str]]) -> list[str]:
    """Each way in which a process has ended, how often, and when it did so last."""
    times: dict[str, list[str]] = {}
    for how, at in ends:
        times.setdefault(how, []).append(at)
    return [
        f"{how}{f', at {at[-1]}' if at[-1] else ''}"
        if len(at) == 1
        else f"{how}, {len(at)} times{f', last at {at[-1]}' if at[-1] else ''}"
        for how, at in times.items()
    ]
