"""Load the models of a server that its guard has started again.

The guard (guard.py) starts `python -m workbook.server.restart ORDERS.json` beside such a server.
With the model control mode "explicit" the server has started without models and answers at once.
This process then loads the models that the server had, in the order in which they were ready
before; ensembles come last. It skips a model that is ready again, or that somebody has unloaded. If
a model was loaded with a config in the request, it is now loaded with the config of its folder.

The file `loading` of the run folder lists the loads: a line "+NAME" is the begin of a load, "-NAME"
its end. If the server ends during a load, the next process reads there which models were being
loaded. It then loads one model at a time, and these models last. If it was a single model, that
model is not loaded again. So a model that always ends the server does so at most twice.

restart_progress.py shows commands how far the loads are.
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
from . import loading, server_log
from .connection import Server
from .guard import EXPLICIT
from .restart_progress import applied, models

TIMEOUT = 3600.0  # seconds for one model


class _Loading:
    """The loads of this process. It records each of them in the file `loading`."""

    def __init__(self, orders: Mapping[str, Any], server: Server) -> None:
        self._orders, self._server = orders, server
        self._file = Path(orders["loading"])
        self._interrupted = list(applied(self._file, {}))
        self._lost = False
        self._file.write_bytes(b"")

    def run(self) -> bool:
        """Load the models; returns whether the server still runs."""
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
        """Load a model, unless it is ready or was unloaded, or the server has ended."""
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
            self._lost = True  # this load or another one ended it: the file has no "-NAME" for it
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
    """Write into the log why a model is not loaded again."""
    print(f"{server_log.NOT_AGAIN}{name}: {' '.join(why.split())}", file=sys.stderr, flush=True)


def main(words: Sequence[str]) -> int:
    """Wait until the server answers, and load its models; returns 1 if it has ended again."""
    orders = json.loads(Path(words[0]).read_text(encoding="utf-8"))
    with Server(
        orders["url"], repository=orders["repository"], control="explicit", log=Path(orders["log"])
    ) as server:
        while not server.live():
            time.sleep(0.05)  # if the server ends first, the guard ends this process
        if EXPLICIT not in orders["argv"]:
            return 0
        return 0 if _Loading(orders, server).run() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
