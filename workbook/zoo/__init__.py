"""The zoo: data sets and checkpoints that are built here, offline, the same on every machine.

    from workbook import zoo

    split = zoo.data.digits()
    path = zoo.checkpoint("digits_cnn")     # built at the first call, found at every later one
    zoo.build()                             # everything at once, with a progress bar
    zoo.repository.build()                  # the weights of the demonstration models
    zoo.building()                          # {"digits_tf": "building"}: in any process, now

Importing it costs nothing: frameworks are imported when something is built.
"""

from __future__ import annotations

from . import data, engines, repository
from .builder import BuildError, build
from .checkpoint import checkpoint
from .progress import building
from .registry import RECIPES

__all__ = [
    "RECIPES",
    "BuildError",
    "build",
    "building",
    "checkpoint",
    "data",
    "engines",
    "repository",
]
