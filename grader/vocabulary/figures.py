"""Figures of a classifier with two classes, as functions of its scores.

Each function returns a `Figure`: it takes the scores of all rows, and returns one number. A check
gives them to `require.metrics_table`, which applies them to the scores of the served models::

    figures.recall(truth, above=0.5)(scores)        # 0.93
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from .requests import Array

Figure = Callable[[Array], float]
Cell = Literal["true positive", "false positive", "true negative", "false negative"]


def count(truth: Array, above: float, cell: Cell) -> Figure:
    """One cell of the confusion matrix.

    Example::

        figures.count(truth, above=0.5, cell="false negative")

    Args:
        truth: 1 for each row of the positive class, else 0.
        above: the threshold: rows with a greater score are called positive.
        cell: which cell.
    """
    is_right, called = cell.split()
    actual = (called == "positive") == (is_right == "true")

    def figure(scores: Array) -> float:
        chosen = (scores > above) == (called == "positive")
        return float((chosen & ((truth == 1) == actual)).sum())

    return figure


def accuracy(truth: Array, above: float) -> Figure:
    """The share of rows that are called what they are.

    Example::

        figures.accuracy(truth, above=0.5)

    Args:
        truth: 1 for each row of the positive class, else 0.
        above: the threshold: rows with a greater score are called positive.
    """
    return lambda scores: float(((scores > above) == (truth == 1)).mean())


def precision(truth: Array, above: float) -> Figure:
    """The share of the rows called positive that are; 0 where none is called so.

    Example::

        figures.precision(truth, above=0.5)

    Args:
        truth: 1 for each row of the positive class, else 0.
        above: the threshold: rows with a greater score are called positive.
    """
    return lambda scores: _share((truth == 1)[scores > above])


def recall(truth: Array, above: float) -> Figure:
    """The share of the positive rows that are called so; 0 where there are none.

    Example::

        figures.recall(truth, above=0.5)

    Args:
        truth: 1 for each row of the positive class, else 0.
        above: the threshold: rows with a greater score are called positive.
    """
    return lambda scores: _share((scores > above)[truth == 1])


def deviation(reference: Array, kind: Literal["mean", "largest", "smallest"]) -> Figure:
    """How far the scores are from those of another model, row by row and without the sign.

    Example::

        figures.deviation(scores("classifier_fp32"), "largest")

    Args:
        reference: the other model's scores.
        kind: the mean, the largest or the smallest difference.
    """

    def figure(scores: Array) -> float:
        off = np.abs(scores - reference)
        return float({"mean": off.mean, "largest": off.max, "smallest": off.min}[kind]())

    return figure


def _share(are: Array) -> float:
    return float(are.mean()) if are.size else 0.0
