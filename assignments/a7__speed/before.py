"""The deployment as it was found: the checks serve it under names of its own.

Its files are the course's, never those of a student's repository. While it is measured, none of the
student's models is loaded, so that nothing of them can slow it down.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Probe

from . import facts

#: The names under which it is served.
SERVICE = facts.BEFORE + facts.SERVICE
NAMES = (SERVICE, *(facts.BEFORE + step for step in facts.STEPS))


def place(server: Probe, me: str) -> None:
    """Put the deployment as it was found into the repository, with a student's network."""
    folder = facts.found_folder()
    for model in (facts.SERVICE, *facts.STEPS):
        home = folder / model
        files = {"1/": b""}
        for path in sorted(p for p in home.rglob("*") if p.is_file() and p.suffix != ".pyc"):
            files[path.relative_to(home).as_posix()] = path.read_bytes()
        files.pop("1/.gitkeep", None)
        text = files["config.pbtxt"].decode()
        for step in facts.STEPS:
            text = text.replace(f'model_name: "{step}"', f'model_name: "{facts.BEFORE}{step}"')
        files["config.pbtxt"] = text.encode()
        if model == facts.NETWORK:
            files["1/model.onnx"] = facts.onnx_file(facts.own_network(me))
        server.place(facts.BEFORE + model, files)


class Turns:
    """Serves the student's deployment and the one that was found in turn, never both at once.

    Example::

        with turns(server, me, "service") as serve:
            serve(before.SERVICE)       # the student's models are unloaded
            serve("service")

    Args:
        server: the check's probe.
        model: the student's model.
    """

    def __init__(self, server: Probe, model: str) -> None:
        self._server, self._served = server, model

    def __call__(self, name: str) -> None:
        """Serve this one, and not the other one.

        Raises:
            Failure: it does not load, or the other one cannot be unloaded.
        """
        if name != self._served:
            self.none()
            self._server.take_in(name)
            self._served = name

    def none(self) -> None:
        """Serve neither."""
        if self._served:
            self._server.take_out(self._served)
            self._served = ""


@contextlib.contextmanager
def turns(server: Probe, me: str, model: str) -> Iterator[Turns]:
    """Both deployments, one at a time; at the end the student's is served again."""
    server.require(model)
    place(server, me)
    serve = Turns(server, model)
    try:
        serve.none()
        yield serve
    finally:
        with contextlib.suppress(Failure):
            serve(model)
