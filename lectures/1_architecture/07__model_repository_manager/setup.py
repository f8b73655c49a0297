"""For 07__model_repository_manager: versions of a model, clients in a loop, and a figure."""

from __future__ import annotations

import datetime
import functools
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from tritonclient.grpc import InferInput
from tritonclient.utils import InferenceServerException

from workbook import zoo
from workbook.lessons.premises import Premise
from workbook.lessons.workspace import copy, laboratory
from workbook.measure import style
from workbook.server import Server, Triton
from workbook.server.connection import Control

MODEL = "digits"
CLIENTS, PAUSE_S = 4, 0.004  # the pause leaves time for the server on two cores
_AROUND_S = 0.7  # how long clients ask before and after a change
_PATIENCE_S = 30.0
#: Text in the server's log → label in the figure.
_EVENTS = {
    r"loading: digits:(\d+)": "loads {}",
    r"successfully loaded '?digits'?": "ready",
    r"successfully unloaded '?digits'? version (\d+)": "unloaded {}",
}


def digits(models: Path) -> Path:
    """Put the course's TorchScript model of the digits into a repository, as version 1.

    Returns:
        The model's folder.
    """
    copy(models, "digits_torch", MODEL, {})
    return models / MODEL


def add_version(home: Path, version: str | int, *, cut: bool = False) -> None:
    """Copy version 1 to a place beside the repository, then move the copy into the model's folder.

    The copy stands for a model that was trained anew.

    Args:
        home: the model's folder.
        version: the new folder's name.
        cut: whether only half of the file is there, as after a copy to a full disk.
    """
    new = home.parent.parent / f"{home.name}-{version}"
    for old in (new, home / str(version)):
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(home / "1", new)
    if cut:
        file = new / "model.pt"
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    new.rename(home / str(version))


def keep_version_1(home: Path) -> None:
    """Remove all other versions from a model's folder."""
    for path in home.iterdir():
        if path.is_dir() and path.name != "1":
            shutil.rmtree(path)


def tree(home: Path) -> None:
    """Print the files of a model's folder with their sizes."""
    for file in sorted(path for path in home.rglob("*") if path.is_file()):
        print(f"{file.relative_to(home.parent)!s:32}{file.stat().st_size:>9,} bytes")


def time_request(server: Server) -> tuple[int, float]:
    """Send one picture; returns the version that answered, and the time in milliseconds."""
    client = server.grpc_client()
    _picture()
    try:
        client.is_server_live()
        began = time.perf_counter()
        version = _send(client)
        return version, (time.perf_counter() - began) * 1000
    finally:
        client.close()


@functools.cache
def _picture() -> Any:
    picture = zoo.data.digits().x_test[:1]
    return InferInput("INPUT__0", list(picture.shape), "FP32").set_data_from_numpy(picture)


def _send(client: Any) -> int:
    return int(client.infer(MODEL, [_picture()]).get_response().model_version)


@dataclass(frozen=True)
class Watched:
    """The answers that clients received while a model changed, and the server's events.

    Attributes:
        answers: one row per request: `sent_ms`, `ms`, `version`, and `error`, "" for none.
        events: milliseconds → the event in the server's log: loading, ready, unloaded.
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


def from_version_1(models: Path, control: Control, change: Callable[[Triton], Any]) -> Watched:
    """Start a server with version 1 alone, and let clients ask while version 2 takes its place.

    Args:
        models: the repository.
        control: the server's model control mode.
        change: changes the repository or the server.
    """
    keep_version_1(models / MODEL)
    with laboratory(models, control=control, poll_seconds=1) as server:
        return under_load(server, lambda: change(server), wait_for=2)


def under_load(server: Triton, change: Callable[[], Any], *, wait_for: int = 0) -> Watched:
    """Let clients send requests in a loop while something changes.

    Args:
        server: a server of this notebook, with the model of `digits`.
        change: called while the clients send requests.
        wait_for: a version: the clients go on until it has answered.
    """
    for _ in range(CLIENTS):  # the first requests to a TorchScript model are slow
        time_request(server)
    rows: list[tuple[float, float, int, str]] = []
    stop, began, clock = threading.Event(), time.perf_counter(), datetime.datetime.now()
    start = server.log_size()

    def run() -> None:
        client = server.grpc_client()
        while not stop.is_set():
            sent = time.perf_counter()
            version, error = 0, ""
            try:
                version = _send(client)
            except InferenceServerException as problem:
                error = str(problem.message())
            ended = time.perf_counter()
            rows.append(((sent - began) * 1000, (ended - sent) * 1000, version, error))
            time.sleep(PAUSE_S)
        client.close()

    with ThreadPoolExecutor(CLIENTS) as pool:
        for _ in range(CLIENTS):
            pool.submit(run)
        try:
            time.sleep(_AROUND_S)
            change()
            deadline = time.monotonic() + _PATIENCE_S
            while wait_for and time.monotonic() < deadline:
                if rows and rows[-1][2] == wait_for:
                    break
                time.sleep(0.05)
            time.sleep(_AROUND_S)
        finally:
            stop.set()
    table = pd.DataFrame(rows, columns=["sent_ms", "ms", "version", "error"])
    table = table.sort_values("sent_ms", ignore_index=True)
    return Watched(table, _events(server.log_text(start), clock))


def _events(log: str, began: datetime.datetime) -> dict[float, str]:
    """Find the loads and unloads in a log, in milliseconds since `began`.

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
        for place, (at, words) in enumerate(sorted(watched.events.items())):
            axes.axvline(at, color=style.GREY, linestyle=":", linewidth=1)
            axes.text(
                at, top * (0.9 - 0.17 * (place % 4)), f" {words}", color=style.GREY, fontsize=9
            )
        axes.set_ylim(0, top)
        axes.set_ylabel("ms", color=style.GREY)
        style.legend(axes, loc="center left", bbox_to_anchor=(1, 0.5))
    panels[-1].set_xlabel("milliseconds since the clients began", color=style.GREY)
    return figure


def tried(server: Server, version: int = 3) -> Premise:
    """Premise: the server has tried to load a version, and failed."""
    states = {
        str(entry.get("version")): entry.get("state")
        for entry in server.index()
        if entry["name"] == MODEL
    }
    return Premise(
        states.get(str(version)) == "UNAVAILABLE",
        f"the server has not tried version {version}: {states}",
    )


def versions(server: Server, folders: list[str]) -> dict[str, str]:
    """Return which version folders of the model are ready."""
    ready = {
        str(entry["version"]) for entry in server.index(ready_only=True) if entry["name"] == MODEL
    }
    return {folder: "ready" if folder in ready else "–" for folder in folders}


def half(models: Path) -> None:
    """Write the model of the task: version 2 was copied while the disk was full."""
    copy(models, "digits_torch", "half", {})
    add_version(models / "half", 2, cut=True)
