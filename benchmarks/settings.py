"""How thoroughly a benchmark measures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Settings:
    """What every benchmark is told.

    Attributes:
        rounds: how often the sides alternate. seconds: how long each is measured in a round.
        say: tells the reader what is being done.
    """

    rounds: int
    seconds: float
    say: Callable[[str], None]
