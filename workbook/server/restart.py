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

restart_progress.py tells commands whether a server is being started again.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..common.errors import ServerError
from . import endings, loading
from .connection import Server
from .guard import EXPLICIT
from .restart_progress import applied, models

TIMEOUT = 3600.0  # seconds for one model


class _Loading:
    """The loads of one process, noted in the file `loading`."""

    def __init__(self, orders: Mapping[str, Any], server: Server) -> None:
        self._orders, self._server = orders, server
        self._file = Path(orders["loading"])
        self._interrupted = list(applied(self._file, {}))
        self._lost = False
        self._file.write_bytes(b"")

    def run(self) -> bool:
        """Load the models; returns whether the server has lived on."""
        late = self._interrupted
        if len(late) == 1:
            self._leave_out(late[0])
        names = [name for name in models(self._orders) if name not in late]
        ensembles = [n for n in names if loading.is_ensemble(self._server.repository / n)]
        others = [name for name in names if name not in ensembles]
        for group in (others, ensembles, late if len(late) > 1 else []):
            with ThreadPoolExecutor(1 if late else loading.AT_ONCE) as pool:
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
        error = loading.load(self._server, name, timeout=TIMEOUT)
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
