"""For 02__inside_the_server: the notebook's models, and lines of the server's log."""

from __future__ import annotations

from pathlib import Path

from workbook.common import paths
from workbook.lessons.files import place
from workbook.lessons.shared import digits_model

HERE = Path(__file__).parent / "models"


def digits(models: Path) -> None:
    """Copy all models of this notebook into a repository, and train the weights of three of them.

    Args:
        models: the repository's folder.
    """
    for name, source in (("digits", ""), ("careful", ""), ("neighbour", "careful")):
        add(models, name, source)
    place(models, HERE / "cascade")


def add(models: Path, name: str, source: str = "") -> None:
    """Copy a digit classifier of this notebook into a repository, and save its weights there.

    Args:
        models: the repository's folder.
        name: the model's name there.
        source: the model's name beside the notebook; by default, the same.
    """
    place(models, HERE / (source or name), name=name)
    digits_model.save_weights(models / name / "1/weights.npy")


def log_lines(log: str, words: str) -> list[str]:
    """Return the log's messages that contain `words`, without time, file and quotation marks.

    Args:
        log: from `Triton.log_text`.
        words: the text to look for.

    Example:
        log_lines(lab.log_text(), "memory pool")
    """
    home = f"{paths.root()}/"
    lines = [line.replace(home, "") for line in log.splitlines() if words in line]
    return [line.split("] ", 1)[-1].strip('"') for line in lines]
