"""Build the missing models and load each of them, while JupyterLab is open."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from ..common import paths
from ..common.errors import WorkbookError
from ..server import Server, loading
from ..zoo import repository


class BackgroundBuild:
    """Builds the missing models of the shared repository, and then perf_analyzer.

        with BackgroundBuild(server, say=print, complain=print):
            ...     # work with the server; at the end of the block, building stops

    A thread of this process starts one process per missing artefact. These processes end when this
    process ends, for any reason (zoo/worker.py). The next `make lab` builds what is still missing.
    A second thread loads each model when it is built; meanwhile the next one is being built.

    Args:
        server: where models are loaded, if it serves the shared repository.
        say: called with a line of progress.
        complain: called with an error. The other models are built all the same.
    """

    def __init__(
        self,
        server: Server,
        *,
        say: Callable[[str], None],
        complain: Callable[[WorkbookError], None],
    ) -> None:
        self._server = server
        self._say = say
        self._complain = complain
        self._ended = threading.Event()
        self._loads = ThreadPoolExecutor(1, thread_name_prefix="load")  # does not delay building
        self._builds = threading.Thread(target=self._work, name="build", daemon=True)

    def __enter__(self) -> Self:
        self._builds.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()  # show no more messages: a server that is being stopped refuses loads
        self._loads.shutdown(wait=False, cancel_futures=True)

    def _work(self) -> None:
        from ..measure.perf_install import install  # imports pandas, which takes long

        try:
            built = repository.build(ready=self._ready, bar=False, background=True)
            self._loads.shutdown(wait=True)
            if built and not self._ended.is_set():
                self._say(f"All models are built: {len(built)} were missing.")
            install()
        except WorkbookError as error:
            if not self._ended.is_set():
                self._complain(error)

    def _ready(self, model: str) -> None:
        if not self._ended.is_set():
            self._loads.submit(self._load, model)

    def _load(self, model: str) -> None:
        if self._server.repository != paths.repository().resolve():
            return
        error = loading.load(self._server, model)
        if self._ended.is_set():
            return
        if error is not None:
            self._complain(error)
        else:
            self._say(f"{model} is built, and ready.")
