"""Which models are being built at this moment, by whichever process.

Every process that builds models keeps two files in `.workbook/building/`: a table of its models,
and a lock that it holds until it ends for any reason. If the lock is free, the process has ended:
its table is ignored and removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Literal

from ..common import locks, paths

State = Literal["waiting", "building"]


def building(repository: Path | None = None) -> dict[str, State]:
    """The models of a repository that some process is about to build, and how far each is.

        building()      # {"digits_tf": "building", "jpeg_dali": "waiting"}

    Args:
        repository: the model repository; by default the shared one.

    Returns:
        `building` or `waiting` by model name. A model that is in place is not listed, nor is one
        that nobody builds.
    """
    home = str((repository or paths.repository()).resolve())
    found: dict[str, State] = {}
    for lock in paths.state("building").glob("*.lock"):
        table = lock.with_suffix(".json")
        if not _is_held(lock):
            lock.unlink(missing_ok=True)
            table.unlink(missing_ok=True)
            continue
        with contextlib.suppress(OSError, ValueError):
            content = json.loads(table.read_text(encoding="utf-8"))
            if content["repository"] == home:
                found |= content["models"]
    return found


class Table:
    """What one process builds; `published` makes it, and others see it through `building`."""

    def __init__(self, file: Path, repository: Path, models: Iterable[str]) -> None:
        self._file = file
        self._repository = str(repository.resolve())
        self._models: dict[str, State] = dict.fromkeys(models, "waiting")
        self._write()

    def started(self, models: Collection[str]) -> None:
        """Record that these models are being built now, and no others."""
        states: dict[str, State] = {
            model: "building" if model in models else "waiting" for model in self._models
        }
        if states != self._models:
            self._models = states
            self._write()

    def done(self, model: str) -> None:
        """Record that this model is in place."""
        self._models.pop(model, None)
        self._write()

    def _write(self) -> None:
        content = {"repository": self._repository, "models": self._models}
        aside = self._file.with_suffix(".new")
        aside.write_text(json.dumps(content), encoding="utf-8")
        aside.replace(self._file)


@contextlib.contextmanager
def published(repository: Path, models: Iterable[str]) -> Iterator[Table]:
    """Show other processes what this process builds, until the block ends.

    with published(repository, ["digits_tf", "jpeg_dali"]) as table:
        table.started(["digits_tf"])
        ...
        table.done("digits_tf")
    """
    home = paths.state("building")
    descriptor, name = tempfile.mkstemp(prefix=".", dir=home)
    locks.lock(descriptor)
    lock = home / f"{Path(name).name[1:]}.lock"
    table = lock.with_suffix(".json")
    try:
        written = Table(table, repository, models)
        Path(name).rename(lock)  # held already, so no process takes it for the lock of an ended one
        yield written
    finally:
        for file in (lock, table):
            file.unlink(missing_ok=True)
        os.close(descriptor)


def _is_held(lock: Path) -> bool:
    try:
        with lock.open() as file:
            locks.lock(file, shared=True, wait=False)
    except BlockingIOError:
        return True
    except OSError:  # removed meanwhile
        pass
    return False
