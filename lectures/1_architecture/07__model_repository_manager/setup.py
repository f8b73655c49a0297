"""For 07__model_repository_manager: the models, and a figure of what clients saw."""

from __future__ import annotations

import datetime
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from workbook.lessons.premises import Premise
from workbook.lessons.workspace import copy
from workbook.measure import style
from workbook.server import Triton

MODEL = "digits"
_PATIENCE_S = 30.0
#: What the notebook's function `ask` notes of an answer.
Answer = tuple[float, float, int, str]
#: Text in the server's log → label in the figure. The log says when an unload has ended, often a
#: second after the version's last answer, so unloads are left out.
_EVENTS = {
    r"loading: digits:(\d+)": "loads {}",
    r"successfully loaded '?digits'?": "ready",
}


def digits(models: Path) -> None:
    """Put the course's TorchScript model of the digits into a repository, as version 1."""
    copy(models, "digits_torch", MODEL, {})


def half(models: Path) -> None:
    """Write the model of the task: version 2 was copied while the disk was full."""
    copy(models, "digits_torch", "half", {})
    shutil.copytree(models / "half/1", models / "half/2")
    file = models / "half/2/model.pt"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def wait_for(version: int, answers: Sequence[Answer]) -> None:
    """Return when a version has answered, after 30 s at the latest.

    Args:
        answers: the list to which clients append their answers.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline and not (answers and answers[-1][2] == version):
        time.sleep(0.05)


@dataclass(frozen=True)
class Watched:
    """The answers that clients received while a model changed, and the server's events.

    Attributes:
        answers: one row per request: `sent_ms`, `ms`, `version`, and `error`, "" for none.
        events: milliseconds → the event in the server's log: loading, ready.
    """

    answers: pd.DataFrame
    events: Mapping[float, str]

    @property
    def failed(self) -> int:
        """The number of requests that were answered with an error."""
        return int((self.answers["error"] != "").sum())

    @property
    def versions(self) -> list[int]:
        """The versions that answered, in the order of their first answers."""
        good = self.answers[self.answers["error"] == ""]
        return [int(version) for version in good["version"].unique()]


def watched(server: Triton, answers: Sequence[Answer]) -> Watched:
    """Join what clients saw with the loads in the server's log.

    Args:
        server: the server that they asked. It is still there.
        answers: of the notebook's `clients`.
    """
    table = pd.DataFrame(answers, columns=["sent", "ms", "version", "error"])
    began = float(table["sent"].min())
    table.insert(0, "sent_ms", 1000 * (table.pop("sent") - began))
    table = table.sort_values("sent_ms", ignore_index=True)
    events = _events(server.log_text(), datetime.datetime.fromtimestamp(began))
    ended = float(table["sent_ms"].max())
    return Watched(table, {at: words for at, words in events.items() if at <= ended})


def _events(log: str, began: datetime.datetime) -> dict[float, str]:
    """Find the loads in a log, in milliseconds since `began`.

    The log may use another time zone, so only minutes and seconds are compared.
    """
    first = (began.minute * 60 + began.second) * 1000 + began.microsecond / 1000
    found = {}
    for line in log.splitlines():
        stamp = re.match(r"\w\d{4} \d\d:(\d\d):(\d\d\.\d+)", line)
        for pattern, words in _EVENTS.items():
            event = re.search(pattern, line)
            if stamp and event:
                minutes, seconds = float(stamp[1]), float(stamp[2])
                at = ((minutes * 60 + seconds) * 1000 - first) % 3_600_000
                found[at] = words.format(*event.groups())
    return found


def changed(ways: Mapping[str, Watched]) -> Premise:
    """Premise: in each way, version 2 answered in the end."""
    late = [name for name, watched in ways.items() if watched.versions[-1:] != [2]]
    return Premise(not late, f"version 2 did not answer within {_PATIENCE_S:.0f} s: {late}")


def plot(ways: Mapping[str, Watched]) -> style.Picture:
    """Draw each request's latency over the time when it was sent, one panel per way."""
    summary = "; ".join(f"{way}: {watched.failed} failed" for way, watched in ways.items())
    figure = style.Picture(
        8.6, 0.4 + 1.75 * len(ways), f"Latency while a version changes. {summary}."
    )
    panels = figure.subplots(len(ways), 1, squeeze=False)[:, 0]
    for axes, (way, watched) in zip(panels, ways.items(), strict=True):
        style.panel(axes, f"{way}: {watched.failed} of {len(watched.answers)} requests failed")
        good = watched.answers[watched.answers["error"] == ""]
        bad = watched.answers[watched.answers["error"] != ""]
        top = max(20.0, float(watched.answers["ms"].max()) * 1.25)
        for version, own in good.groupby("version"):
            colour, mark = style.COLOURS[int(version) - 1], style.MARKS[int(version) - 1]
            axes.plot(own["sent_ms"], own["ms"], mark, color=colour, markersize=3,
                      label=f"version {version}")  # fmt: skip
        axes.plot(bad["sent_ms"], bad["ms"], "x", color=style.COLOURS[3], markersize=5,
                  label="failed")  # fmt: skip
        for at, words in watched.events.items():
            side = "left" if words == "ready" else "right"
            axes.axvline(at, color=style.GREY, linestyle=":", linewidth=1)
            axes.text(at, top * 0.88, f" {words} ", ha=side, color=style.GREY, fontsize=9)
        axes.set_ylim(0, top)
        axes.set_ylabel("ms", color=style.GREY)
        style.legend(axes, loc="center left", bbox_to_anchor=(1, 0.5))
    panels[-1].set_xlabel("milliseconds since the clients began", color=style.GREY)
    return figure


def tried(index: pd.DataFrame, version: int = 3) -> Premise:
    """Premise: the server has tried to load a version, and failed.

    Args:
        index: of the repository, one row per version: `name`, `version` and `state`.
    """
    mine = index[index["name"] == MODEL]
    states = dict(zip(mine["version"].astype(str), mine["state"], strict=True))
    return Premise(
        states.get(str(version)) == "UNAVAILABLE",
        f"the server has not tried version {version}: {states}",
    )
