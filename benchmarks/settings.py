"""How thoroughly a benchmark measures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Settings:
    """What every benchmark is given.

    Attributes:
        rounds: how often the sides of a comparison alternate.
        seconds: how long each side is measured in a round.
        say: called with what is being measured, for the terminal.
        minutes, loads, deploys: of endurance: how long its load is, and how many loads and
            redeploys it makes.
    """

    rounds: int
    seconds: float
    say: Callable[[str], None]
    minutes: float = 30.0
    loads: int = 1000
    deploys: int = 200
