"""What a lecture asks of its reader: a prediction, a look at the result, a claim that must hold."""

from .lesson import (
    UNATTENDED,
    Card,
    claim,
    compare,
    folder,
    laboratory,
    predict,
    remembered,
    unattended,
    write,
)

__all__ = [
    "UNATTENDED",
    "Card",
    "claim",
    "compare",
    "folder",
    "laboratory",
    "predict",
    "remembered",
    "unattended",
    "write",
]
