"""A server that its guard has started again: load the models that it had, and say how far that is.

The guard (guard.py) starts `python -m workbook.server.restart ORDERS.json` beside such a server.
With the model control mode "explicit" the server has started without models and answers at once.
This process loads its models behind, in the order in which they were ready before; ensembles come
last. A model that is ready meanwhile, or that was unloaded meanwhile, is left alone. A model that
had been loaded with a config in the request comes back with the config of its folder.

In the file `loading` of the run folder stand the models that are being loaded: "+NAME" is a
begin, "-NAME" an end. If the server ends meanwhile, the next process reads there which models were
under way. Then it loads one model at a time, and those last. Where a single one was under way, it
is not loaded again: so one that always ends the server does so at most twice.

`progress(server)` tells commands whether a server is being started again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..common.errors import ServerError
from . import all_models, endings, run_folders
from .connection import Server
from .guard import EXPLICIT, LOAD

NOTICED = 1.0  # seconds until the guard has seen a server's end and has written it down
TIMEOUT = 3600.0  # seconds for one model


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a server is that is being started again.

        print(restart.progress(server))

    Attributes:
        why: how it ended.
        loaded: how many of its models are ready.
        waiting: the others.
    """

    why: str
    loaded: int
    waiting: tuple[str, ...]

    def models(self) -> str:
        """A sentence on its models."""
        return f"{self.loaded} of {self.loaded + len(self.waiting)} models are loaded."

    def __str__(self) -> str:
        return f"The server has ended ({self.why}) and is being started again: {self.models()}"


def progress(server: Server) -> Progress | None:
    """How far a server is that is being started again; None where it is not, or is not known."""
    orders = run_folders.orders_of(server.log)
    if server.log is None or orders is None:
        return None
    log = server.log_text()
    why = endings.started_again(log)
    live = _listens(server)
    explicit = EXPLICIT in orders["argv"]
    behind = explicit and run_folders.is_locked(Path(orders["loading"]))
    if why is None or (live and not behind):
        return None
    if explicit:
        names = models(orders)
        with contextlib.suppress(ServerError):
            waiting = all_models.missing(server, names) if live else names
            return Progress(why, len(names) - len(waiting), tuple(waiting))
        return Progress(why, 0, tuple(names))
    names = all_models.names(server.repository)
    loaded = endings.loaded(log)
    return Progress(
        why, len(loaded & set(names)), tuple(name for name in names if name not in loaded)
    )


def progress_after_failure(server: Server) -> Progress | None:
    """The same where a request has just failed: the guard has perhaps not seen the end yet."""
    deadline = time.monotonic() + NOTICED
    while run_folders.orders_of(server.log) is not None:
        if (found := progress(server)) is not None or time.monotonic() > deadline:
            return found
        time.sleep(0.05)
    return None


def _listens(server: Server) -> bool:
    """Whether a server listens at its HTTP port: Triton opens it when it can be asked."""
    place = urlsplit(server.url)
    with contextlib.suppress(OSError):
        socket.create_connection((place.hostname, place.port), timeout=5.0).close()
        return True
    return False


def models(orders: Mapping[str, Any]) -> list[str]:
    """The models of a server in explicit mode: those that it began with, and its loads since.

    Args:
        orders: the guard's. They name the file `loaded`, which has lines "+NAME" for a load and
            "-NAME" for an unload.
    """
    words = orders["argv"]
    names = dict.fromkeys(word.removeprefix(LOAD) for word in words if word.startswith(LOAD))
    return list(_applied(Path(orders["loaded"]), names))


def _applied(file: Path, names: dict[str, None]) -> dict[str, None]:
    """Names with those that the lines of a file add (+) and take away (-)."""
    with contextlib.suppress(OSError):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("+"):
                names[line[1:]] = None
            else:
                names.pop(line[1:], None)
    return names


class _Loading:
    """The loads of one process, noted in the file `loading`."""

    def __init__(self, orders: Mapping[str, Any], server: Server) -> None:
        self._orders, self._server = orders, server
        self._file = Path(orders["loading"])
        self._interrupted = list(_applied(self._file, {}))
        self._lost = False
        self._file.write_bytes(b"")

    def run(self) -> bool:
        """Load the models; returns whether the server has lived on."""
        late = self._interrupted
        if len(late) == 1:
            self._leave_out(late[0])
        names = [name for name in models(self._orders) if name not in late]
        ensembles = [n for n in names if all_models.is_ensemble(self._server.repository / n)]
        others = [name for name in names if name not in ensembles]
        for group in (others, ensembles, late if len(late) > 1 else []):
            with ThreadPoolExecutor(1 if late else all_models.AT_ONCE) as pool:
                list(pool.map(self._load, group))
        if self._lost:
            return False
        self._file.write_bytes(b"")
        return True

    def _load(self, name: str) -> None:
        """Load a model, if it still is to be loaded and the server is there."""
        if self._lost:
            return
        try:
            states = {m.get("state") for m in self._server.index() if m["name"] == name}
        except ServerError:
            self._lost = True
            return
        if name not in models(self._orders) or states & {"READY", "LOADING"}:
            return
        self._note("+", name)
        error = all_models.load(self._server, name, timeout=TIMEOUT)
        if error is not None and not self._server.live():
            self._lost = True  # by this model or another one: it stays noted as under way
            return
        self._note("-", name)
        if error is not None:
            _say(name, error.what)

    def _leave_out(self, name: str) -> None:
        with Path(self._orders["loaded"]).open("a", encoding="utf-8") as file:
            file.write(f"-{name}\n")
        _say(name, "the server ended while it was loaded.")

    def _note(self, sign: str, name: str) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"{sign}{name}\n")


def _say(name: str, why: str) -> None:
    """Write into the log why a model does not come back."""
    print(f"{endings.NOT_AGAIN}{name}: {' '.join(why.split())}", file=sys.stderr, flush=True)


def main(words: Sequence[str]) -> int:
    """Wait until the server answers, and load its models; 1 where the server has ended again."""
    orders = json.loads(Path(words[0]).read_text(encoding="utf-8"))
    with Server(
        orders["url"], repository=orders["repository"], control="explicit", log=Path(orders["log"])
    ) as server:
        while not server.live():
            time.sleep(0.05)  # the guard ends this process where the server ends first
        if EXPLICIT not in orders["argv"]:
            return 0
        return 0 if _Loading(orders, server).run() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
