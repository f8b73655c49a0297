"""For 12__fleet: three servers and Caddy before them, deaths, a premise, a day's worst hour."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

from workbook.common.errors import WorkbookError
from workbook.lessons import files, one_server
from workbook.lessons.premises import Premise
from workbook.lessons.workspace import set_addresses
from workbook.measure import style
from workbook.server import Triton, ports

HOME = Path(__file__).parent
_MODEL = "draw"
_current: list[First] = []


class First(Triton):
    """The first server of the fleet; when it stops, the other two and the proxy stop, too."""

    fleet: tuple[Triton, ...] = ()  # all three
    proxy: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """Stop the proxy and the three servers."""
        proxy, self.proxy = self.proxy, None
        if proxy is not None and proxy.stdin is not None:
            proxy.stdin.close()  # so its shell ends it
            proxy.wait(10)
        for other in self.fleet[1:]:
            other.stop()
        super().stop()


def start(models: Path) -> First:
    """Start three servers on one repository, and the proxy; those of an earlier call stop."""
    while _current:
        _current.pop().stop()
    files.place(models, HOME / "models" / _MODEL)
    for file in (HOME / "clients").glob("*Caddyfile"):
        shutil.copy(file, models)
    options: dict[str, Any] = {"options": ["--strict-readiness=true"]}
    for name, port in ports.choose({"HTTP": 0, "gRPC": 0, "metrics": 0}, "127.0.0.2").items():
        options[name.lower()] = port
    first = First(models, address="127.0.0.2", **options)
    first.fleet = (first, *(Triton(models, address=f"127.0.0.{n}", **options) for n in (3, 4)))
    _current.append(first)
    for server in first.fleet:
        server.start(lecture=one_server.lecture())
        one_server.follow(server)
        server.load(_MODEL)
    set_addresses(first)
    _set_variables(first.fleet)
    first.proxy = _start_proxy(models / "bare.Caddyfile")
    return first


def _set_variables(fleet: Sequence[Triton]) -> None:
    """Set the variables that the Caddyfiles read, and put Caddy on the PATH."""
    for number, server in enumerate(fleet, 1):
        os.environ[f"TRITON_{number}"] = urlsplit(server.url).netloc
        os.environ[f"TRITON_{number}_GRPC"] = server.grpc_url
    os.environ["TRITON_FLEET"] = " ".join(urlsplit(server.url).netloc for server in fleet)
    for name, port in ports.choose({"TRITON_PROXY": 0, "TRITON_ADMIN": 0}, "127.0.0.1").items():
        os.environ[name] = f"localhost:{port}"
    if (scripts := sysconfig.get_path("scripts")) not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] += f"{os.pathsep}{scripts}"


def _start_proxy(config: Path) -> subprocess.Popen[bytes]:
    """Start Caddy, under a shell that ends it when this process ends (its input is closed then)."""
    script = 'caddy run -c "$0" -a caddyfile 2> "$0.log" & read -r _; kill $!; wait'
    words = ["sh", "-c", script, str(config)]
    proxy = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
    port = int(os.environ["TRITON_ADMIN"].partition(":")[2])
    for _ in range(200):
        if not ports.is_free(port, "127.0.0.1"):
            return proxy
        time.sleep(0.05)
    proxy.kill()
    raise WorkbookError("Caddy did not start.", where=Path(f"{config}.log").read_text("utf-8"))


def reload(file: Path) -> None:
    """Let the running proxy read a file."""
    words = ["caddy", "reload", "-c", str(file), "-a", "caddyfile", "--address"]
    subprocess.run([*words, os.environ["TRITON_ADMIN"]], check=True, capture_output=True)


def kill_later(server: Triton, seconds: float) -> None:
    """Kill a server after some seconds, as a crash would end it."""
    subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -9 {server.pid}"])


def restart(server: Triton) -> None:
    """Start a killed server again, with its model."""
    server.stop()
    server.start(lecture=one_server.lecture())
    server.load(_MODEL)


def spoil(first: First) -> None:
    """On each server, a new model is refused; and the third server loses the model `draw`."""
    home = first.repository / "report"
    shutil.copytree(first.repository / _MODEL, home, dirs_exist_ok=True)
    (home / "config.pbtxt").write_text((home / "config.pbtxt").read_text().split("parameters")[0])
    for server in first.fleet:
        with contextlib.suppress(WorkbookError):
            server.load("report")
    first.fleet[2].unload(_MODEL)


def calm(served: Mapping[str, pd.DataFrame]) -> Premise:
    """Premise: nearly all requests were sent in time, in each of these tables of `visit`."""
    late = 1000 * max(table["late"].quantile(0.98) for table in served.values())
    return Premise(late < 60, f"of 100 requests, 2 were sent more than {late:.0f} ms late")


def worst_hour(run: Any) -> float:
    """The highest p99 of previews within an hour of the day, in seconds."""
    previews = run.requests[run.requests["kind"] == "preview"]
    waits = previews["end"] - previews["arrival"]
    return float(waits.groupby(previews["arrival"] // 3600).quantile(0.99).max())


def draw_day(rate: Any, runs: Mapping[str, Any]) -> style.Picture:
    """The day's traffic, and how many servers each simulated fleet had; `rate` is per second."""
    seconds = np.arange(0, 86_400, 60)
    figure = style.Picture(8.4, 3.6, "Requests per second, and servers over a day")
    upper, lower = figure.subplots(2, 1, sharex=True)
    style.panel(upper, "Requests per second")
    upper.plot(seconds / 3600, rate(seconds), color=style.GREY)
    style.panel(lower, "Servers that are paid", below="hour")
    for colour, (name, run) in zip(style.COLOURS, runs.items(), strict=False):
        since, until = (run.servers[name].to_numpy()[:, None] for name in ("since", "until"))
        count = ((since <= seconds) & (seconds < until)).sum(axis=0)
        lower.step(seconds / 3600, count, color=colour, label=name)
    lower.set(xticks=range(0, 25, 3), ylim=(0, 13))  # above ten servers there is the legend
    style.legend(lower, ncols=3)
    return figure
