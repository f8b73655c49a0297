"""The task of 03__python_environments: a model whose environment has the wrong version."""

from __future__ import annotations

from pathlib import Path

import setup
from workbook.common.errors import Refusal
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server


@define(
    "environments.strict",
    hints=(
        "What does a request to strict say? Which version of sharpness knows that argument?",
        "The environment is the folder models/strict/env. Pip installs into another environment "
        "with --python ENVIRONMENT/bin/python.",
        "Run `!python3 -m pip --python $TRITON_MODELS/strict/env/bin/python install --no-index "
        "--find-links $TRITON_MODELS.wheels sharpness==2.0`, and load strict again.",
    ),
)
def strict(server: Server) -> None:
    """The model strict grades pictures with version 2.0 of the package, from an environment of its
    own; grade_1 still has 1.0."""
    for name, wanted in (("strict", "2.0"), ("grade_1", "1.0")):
        if not server.ready(name):
            raise NotYet(f"{name} is not ready.")
        try:
            package, _, prefix = setup.environment_of(server, name)
        except Refusal as error:
            raise NotYet(f"A request to {name} fails: {_last(error.message)}") from None
        if package != wanted:
            raise NotYet(f"{name} has version {package} of sharpness.")
        if name == "strict" and not _own(server):
            raise NotYet(f"strict uses an environment outside of its folder: {prefix}.")


def _own(server: Server) -> bool:
    """Return whether the config of strict names an environment in the model's own folder."""
    given = server.config("strict").get("parameters", {}).get("EXECUTION_ENV_PATH", {})
    path = str(given.get("string_value", ""))
    home = (server.repository / "strict").resolve()
    path = path.replace("$$TRITON_MODEL_DIRECTORY", str(home))
    return Path(path).resolve().is_relative_to(home)


def _last(message: str) -> str:
    """Return the line of a message that names the exception."""
    lines = [line for line in message.splitlines() if "Error" in line]
    return lines[0] if lines else message


def start(folder: Path) -> Server:
    """Start a server with the models as the notebook has them."""
    setup.repository(folder)
    setup.strict(folder)
    return laboratory(folder, only=["grade_1", "strict"])
