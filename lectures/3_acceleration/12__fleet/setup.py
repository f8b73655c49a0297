"""For 12__fleet: three servers and Caddy before them, deaths, a premise, the day's picture."""

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

import numpy as np
import pandas as pd
import psutil

from workbook.common.errors import WorkbookError
from workbook.lessons import files, one_server, scoreboard
from workbook.lessons.premises import Premise
from workbook.lessons.workspace import set_addresses
from workbook.measure import style
from workbook.server import Triton, ports

HOME = Path(__file__).parent
_MODEL = "draw"
_current: list[First] = []


class First(Triton):
    """The first server of the fleet; when it stops, the other two and the proxy stop, too."""

    others: tuple[Triton, ...] = ()
    proxy: subprocess.Popen[bytes] | None = None

    @property
    def fleet(self) -> tuple[Triton, ...]:
        """All three servers."""
        return (self, *self.others)

    def stop(self) -> None:
        """Stop the proxy and the three servers."""
        if self.proxy is not None and self.proxy.stdin is not None:
            self.proxy.stdin.close()  # so its shell ends it
            self.proxy.wait(10)
            self.proxy = None
        for other in self.others:
            other.stop()
        super().stop()


def start(models: Path) -> First:
    """Start three servers on one repository, at addresses of their own, and the proxy before them.

    Servers and proxy of an earlier call are stopped. All end with this process.
    """
    while _current:
        _current.pop().stop()
    files.place(models, HOME / "models" / _MODEL)
    for file in (HOME / "clients").glob("*Caddyfile"):
        shutil.copy(file, models)
    chosen = ports.choose({"HTTP": 0, "gRPC": 0, "metrics": 0}, "127.0.0.2")
    where = {"http": chosen["HTTP"], "grpc": chosen["gRPC"], "metrics": chosen["metrics"]}
    options = ["--strict-readiness=true"]
    first = First(models, address="127.0.0.2", options=options, **where)
    first.others = tuple(
        Triton(models, address=f"127.0.0.{number}", options=options, **where) for number in (3, 4)
    )
    _current.append(first)
    for server in first.fleet:
        server.start(lecture=one_server.lecture())
        one_server.follow(server)
        server.load(_MODEL)
    set_addresses(first)
    _set_fleet(first.fleet, chosen)
    first.proxy = _start_proxy(models / "bare.Caddyfile")
    return first


def _set_fleet(fleet: Sequence[Triton], chosen: Mapping[str, int]) -> None:
    """Set the variables that the Caddyfiles read, and put Caddy on the PATH."""
    own = ports.choose({"HTTP": 0, "gRPC": 0, "metrics": 0}, "127.0.0.1")
    hosts = [f"127.0.0.{number}" for number in (2, 3, 4)]
    for number, host in enumerate(hosts, 1):
        os.environ[f"TRITON_{number}"] = f"{host}:{chosen['HTTP']}"
        os.environ[f"TRITON_{number}_GRPC"] = f"{host}:{chosen['gRPC']}"
    os.environ["TRITON_FLEET"] = " ".join(f"{host}:{chosen['HTTP']}" for host in hosts)
    os.environ["TRITON_FLEET_GRPC"] = " ".join(f"h2c://{host}:{chosen['gRPC']}" for host in hosts)
    os.environ["TRITON_PROXY"] = f"localhost:{own['HTTP']}"
    os.environ["TRITON_PROXY_GRPC"] = f"localhost:{own['gRPC']}"
    os.environ["TRITON_ADMIN"] = f"localhost:{own['metrics']}"
    rows = list(scoreboard.rows().values())
    os.environ["TRITON_PICTURES_PER_S"] = f"{rows[-1].after:.0f}" if rows else ""
    scripts = sysconfig.get_path("scripts")
    if scripts not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] += f"{os.pathsep}{scripts}"


def _start_proxy(config: Path) -> subprocess.Popen[bytes]:
    """Start Caddy, under a shell that ends it when this process ends (its input is closed then)."""
    script = 'caddy run -c "$0" -a caddyfile 2> "$0.log" & read -r _; kill $!; wait'
    proxy = subprocess.Popen(
        ["sh", "-c", script, str(config)], stdin=subprocess.PIPE, start_new_session=True
    )
    port = os.environ["TRITON_ADMIN"].partition(":")[2]
    for _ in range(200):
        if not ports.is_free(int(port), "127.0.0.1"):
            return proxy
        time.sleep(0.05)
    proxy.kill()
    raise WorkbookError("Caddy did not start.", where=Path(f"{config}.log").read_text("utf-8"))


def proxy_address() -> str:
    """Where the proxy listens for HTTP."""
    return os.environ["TRITON_PROXY"]


def reload(file: Path) -> None:
    """Let the running proxy read a file."""
    words = ["caddy", "reload", "-c", str(file), "-a", "caddyfile"]
    subprocess.run(
        [*words, "--address", os.environ["TRITON_ADMIN"]], check=True, capture_output=True
    )


# -- what happens to servers ----------------------------------------------------------------------


def kill_later(server: Triton, seconds: float) -> subprocess.Popen[bytes]:
    """Kill a server after some seconds, as a crash would end it."""
    assert server.pid is not None
    return subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -9 {server.pid}"])


def restart(server: Triton) -> None:
    """Start a killed server again, with its models."""
    for _ in range(100):
        if server.pid is None or not psutil.pid_exists(server.pid):
            break
        time.sleep(0.05)
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
    first.others[1].unload(_MODEL)


# -- whether the machine was quiet ----------------------------------------------------------------


def calm(served: Mapping[str, pd.DataFrame]) -> Premise:
    """Premise: requests were sent in time, and the model slept about as long as it was told.

    Args:
        served: tables of `visit`.
    """
    late = 1000 * max(table["late"].max() for table in served.values())
    if late > 50:
        return Premise(False, f"a request was sent {late:.0f} ms late")
    shortest = 1000 * max(table["took"].median() for table in served.values())
    return Premise(
        shortest < 45, f"half of the requests took the model more than {shortest:.0f} ms"
    )


# -- a picture ------------------------------------------------------------------------------------


def draw_day(rate: Any, runs: Mapping[str, Any]) -> style.Picture:
    """The day's traffic, and how many servers each fleet had.

    Args:
        rate: requests per second, a function of the seconds.
        runs: fleets of `simulate`, by their names.
    """
    seconds = np.arange(0, 86_400, 60)
    words = "; ".join(f"{name}: up to {servers(run, seconds).max()}" for name, run in runs.items())
    figure = style.Picture(8.4, 3.6, f"Servers over a day. {words}")
    upper, lower = figure.subplots(2, 1, sharex=True)
    style.panel(upper, "Requests per second")
    upper.plot(seconds / 3600, rate(seconds), color=style.GREY)
    style.panel(lower, "Servers that are paid", below="hour")
    for colour, (name, run) in zip(style.COLOURS, runs.items(), strict=False):
        lower.step(seconds / 3600, servers(run, seconds), color=colour, label=name)
    lower.set_ylim(bottom=0)
    lower.set_xticks(range(0, 25, 3))
    style.legend(lower)
    return figure


def servers(run: Any, seconds: Any) -> Any:
    """How many servers a simulated fleet had, at each of these seconds."""
    since, until = (run.servers[name].to_numpy()[:, None] for name in ("since", "until"))
    return ((since <= seconds) & (seconds < until)).sum(axis=0)
