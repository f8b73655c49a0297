"""The hidden checks of a4__production.

They ask the served models for pictures that no student has seen: the student's camera takes them of
digits drawn at random, with new noise. What must come out is computed from the weights that the
student handed over. The messages contain no expected value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.vocabulary.define import hidden
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe

from . import engine as engines
from . import facts, fp16
from . import serving as models

#: How many secret pictures are used where the public checks use the 6,000.
MANY = 2_000
#: How many are computed with fp16 arithmetic, which takes long without a GPU.
FEW = 60


def secret(server: Probe, me: str, count: int) -> tuple[Array, Array]:
    """New pictures of a student's camera, and which of them show an eight."""
    return facts.own_camera(me).take(server.rng, count)


@hidden(
    "a4.weights",
    help="The weights come from trained(me), and nothing is trained after that.",
)
def other_pictures(server: Probe, me: str, pth: Array) -> None:
    """The network finds eights in pictures that it was not chosen by."""
    known = models.known(me, pth)
    pictures, is_eight = secret(server, me, MANY)
    found = models.found_at(known.network.logits(pictures), is_eight)
    if found < 0.5 * models.found_at(known.logits, known.camera.is_eight):
        raise Failure(
            "In other pictures of your camera the network finds hardly any eights.",
        )


@hidden(
    "a4.fp32",
    help="The answers are compared with those of the weights that you handed over. Does the "
    "file compute the logits from the picture, and only that, in batches of any size?",
)
def secret_batches(server: Probe, me: str, pth: Array, model: str) -> None:
    """Requests of any size are answered as the network does."""
    known = models.known(me, pth)
    pictures, _ = secret(server, me, facts.REQUEST)
    models.answers(server, model, known, pictures, "other pictures")


@hidden(
    "a4.fp16",
    help="The answers are compared with those of the weights that you handed over, in fp16. "
    "Does the file compute the logits from the picture, and only that?",
)
def secret_batches_in_half(server: Probe, me: str, pth: Array, model: str) -> None:
    """Requests of any size are answered as the network with weights in fp16 does."""
    known = models.known(me, pth)
    pictures, _ = secret(server, me, facts.REQUEST)
    models.answers_in_half(server, model, known, pictures, "other pictures")


@hidden("a4.engine", help="Does the file compute the logits from the picture, and only that?")
def secret_logits_of_the_file(server: Probe, me: str, pth: Array, typed: Any) -> None:
    """The file of the engine, computed with fp16 arithmetic, has the network's logits."""
    known = models.known(me, pth)
    pictures, _ = secret(server, me, FEW)
    exact = known.network.logits(pictures)
    half = known.network.in_half(pictures, everything=True)
    found = fp16.logits("eights_fp16", engines.content(typed), pictures)
    if found.shape != exact.shape or not (
        np.abs(found - exact).mean() <= 4 * np.abs(half - exact).mean()
    ):
        raise Failure("On other pictures of your camera the file computes other logits.")


@hidden(
    "a4.logits",
    "a4.changed",
    "a4.figures",
    "a4.closest",
    help="Does the file of each deployed model compute the logits from the picture?",
)
def look_at_the_picture(server: Probe, me: str, model_fp32: str, model_fp16: str) -> None:
    """Both models answer other pictures with other logits."""
    pictures, _ = secret(server, me, 100)
    for model in (model_fp32, model_fp16):
        models.looks(model, facts.ask(server, model, pictures))


@hidden(
    "a4.threshold",
    help="Was the threshold chosen on all 6,000 pictures, with the logits of this network?",
)
def threshold_elsewhere(server: Probe, me: str, pth: Array, threshold: float) -> None:
    """On other pictures of the camera the threshold has about the same precision."""
    known = models.known(me, pth)
    pictures, is_eight = secret(server, me, MANY)
    called = known.network.logits(pictures)[:, facts.EIGHT] > float(np.ravel(threshold)[0])
    right, all_called = int(is_eight[called].sum()), int(called.sum())
    # Five standard deviations of a share of 0.9, and the choice on 6,000 pictures flatters it.
    least = facts.PRECISION - 5 * np.sqrt(0.1 * 0.9 / max(all_called, 1)) - 0.02
    if right < least * all_called:
        raise Failure(
            "On other pictures of your camera the precision at your threshold is far below 0.9.",
        )


@hidden(
    "a4.mended",
    help="Does the file compute the logits from the picture, and only that?",
)
def secret_deviation(server: Probe, me: str, pth: Array, model: str) -> None:
    """The logits of other pictures deviate as little."""
    known = models.known(me, pth)
    pictures, _ = secret(server, me, facts.REQUEST)
    models.deviates_less(server, model, known, pictures, "other pictures")


@hidden(
    "a4.production",
    help="Does the file compute the logits from the picture, and only that?",
)
def secret_verdicts(
    server: Probe, me: str, pth: Array, threshold: float, model: str, chosen: float
) -> None:
    """On other pictures, one alone and many, the verdicts follow from the logits as well."""
    known = models.known(me, pth)
    own, limit = float(np.ravel(chosen)[0]), float(np.ravel(threshold)[0])
    differ = 0
    for count in (1, facts.REQUEST, facts.REQUEST):
        pictures, _ = secret(server, me, count)
        verdicts = models.decided(server, model, known, pictures, own)
        differ += int((verdicts != (known.network.logits(pictures)[:, facts.EIGHT] > limit)).sum())
    # Twice what is allowed, and three standard deviations of a rare event.
    expected = 2 * facts.ALLOWED * MANY / 1_000
    if differ > expected + 3 * np.sqrt(expected):
        raise Failure(
            "On other pictures of your camera more verdicts differ from PyTorch's than the "
            "customer accepts.",
        )
