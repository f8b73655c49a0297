"""The hidden checks of a7__speed.

The loads themselves use pictures that come from the class's secret. The variants ask once more
afterwards, when a model may believe that all is over, and ask for pictures unlike those of a load.
The messages contain no expected value.
"""

from __future__ import annotations

import numpy as np

from grader.vocabulary import require
from grader.vocabulary.define import hidden
from grader.vocabulary.probe import Probe

from . import checks, facts


@hidden(
    "a7.throughput",
    "a7.latency",
    "a7.overload",
    "a7.memory",
    help="Do the answers depend on the picture alone, and not on when it comes?",
)
def still_right(server: Probe, me: str, model: str) -> None:
    """After the load, other pictures get the right scores as well."""
    pictures, _ = facts.draw(server.rng, 7)
    checks.require_scores(server, me, model, pictures, (1, 2, 1, 2, 1))


@hidden(
    "a7.same",
    help="A picture of one colour, with much contrast, or with a bright border is a picture, too. "
    "Compare with the models as they were.",
)
def unusual_pictures(server: Probe, me: str, model: str) -> None:
    """Unusual pictures get the scores that they got before."""
    random, shape = server.rng, (facts.SIDE, facts.SIDE, 3)
    noise = random.integers(0, 256, (3, *shape), dtype=np.uint8)
    plain = np.broadcast_to(random.integers(0, 256, (3, 1, 1, 3), dtype=np.uint8), (3, *shape))
    framed, _ = facts.draw(random, 2)
    framed[:, [0, -1]] = framed[:, :, [0, -1]] = 255
    faint, _ = facts.draw(random, 4)
    faint = np.uint8(100) + faint // 32
    dark, light = np.zeros((1, *shape), np.uint8), np.full((1, *shape), 255, np.uint8)
    pictures = np.concatenate([noise, plain, framed, faint, dark, light])
    checks.require_scores(server, me, model, random.permutation(pictures), (1, 8, 5))


@hidden("a7.refusals", help="What does the config of `service` say of `picture`?")
def other_bad_input(server: Probe, me: str, model: str) -> None:
    """Other bad input is refused as well."""
    picture, _ = facts.draw(server.rng, 1)
    side = int(server.rng.integers(40, 63))
    cut = np.ascontiguousarray(picture[:, :, :side])
    for bad, what in (
        (cut, "a picture that is not square"),
        (picture.astype(np.int32), "a picture in INT32"),
        (picture.reshape(1, -1), "a picture as one row"),
    ):
        require.refuses(server, model, {facts.INPUT: bad}, what, good={facts.INPUT: picture})
