"""What the checks of a5__engine ask of the models that are served: sizes, logits, digits.

Students get this file: it holds nothing that a task asks for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.vocabulary import require
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe

from . import facts
from .network import DEPTH, TERMS, Network

#: How far logits may be from those of the network, as a share of the largest: `DEPTH` operators in
#: a row, each of which rounds. In fp32 the order of a sum counts as well: the
#: roundings of n terms have both signs, and grow with the root of n.
SHARES = {
    "fp32": (
        DEPTH * TERMS**0.5 * 2.0**-24,
        f"{DEPTH} sums of up to {TERMS} products in fp32, in any order",
    ),
    "fp16": (DEPTH * 2.0**-11, f"{DEPTH} operators that each round to the 11 bits of fp16"),
    "bf16": (DEPTH * 2.0**-8, f"{DEPTH} operators that each round to the 8 bits of bf16"),
}


def of_task(model: Any, wanted: str) -> None:
    """Fail if the model of another task was handed over. A student's own name for a model passes.

    Args:
        model: what was handed over.
        wanted: the model that the task is about.
    """
    if isinstance(model, str) and model in facts.MODELS and model != wanted:
        raise Failure(
            f"This task is about models/{wanted}, and {model} was handed over.",
            help=f'Deploy that folder, and hand over its name: deploy("models/{wanted}").name.',
        )


def near(what: str, found: Array, expected: Array, type: str, *, help: str = "") -> None:
    """Fail unless logits are near those of the network.

    Args:
        what: for the message: "the logits of accelerated".
        found: the logits, (n, 10).
        expected: those of the network in fp32.
        type: in which they may be computed: a key of `SHARES`.
        help: what to look at.

    Raises:
        Failure: they differ by more than rounding explains, or are no finite numbers.
    """
    share, because = SHARES[type]
    allowed = share * float(np.abs(expected).max())
    off = np.abs(found - expected)
    wrong = ~(off <= allowed)  # also where it is no number
    if wrong.any():
        many = int(wrong.any(axis=1).sum())
        by = f"by up to {np.nanmax(off):.2g}" if np.isfinite(off).any() else "in every number"
        numbers = " Some are infinite or no numbers." if not np.isfinite(found).all() else ""
        raise Failure(
            f"{what[0].upper()}{what[1:]} differ from your network's in {many} of {len(found)} "
            f"pictures, {by}.{numbers} Allowed is {allowed:.2g}: {because}.",
            help=help,
        )


def answers(server: Probe, model: str, network: Network, pictures: Array, type: str) -> None:
    """Fail unless a model answers requests of 1, 3 and 32 pictures, and refuses one of 33.

    Args:
        server: the check's probe.
        model: its name.
        network: whose logits are expected.
        pictures: 33 or more.
        type: as for `near`.

    Raises:
        Failure: for 33 pictures that are answered, half of the points remain.
    """
    whole, expected = facts.TOO_MANY, network.logits(pictures[: facts.TOO_MANY])
    for size in facts.SIZES:
        found = facts.one_request(server, model, pictures[:size])
        near(
            f"the logits of {model}, asked for {size} picture{'s' * (size > 1)},",
            found,
            expected[:size],
            type,
            help="Is it made from network.onnx, with the pictures as the camera gives them?",
        )
    if not server.refusal(model, {facts.INPUT: pictures[:whole]}):
        raise Failure(
            f"{model} answers a request of {whole} pictures.",
            help="The largest request has 32: which line of the config says so? The server "
            "refuses more before the model sees them.",
            credit=0.5,
        )


def is_served(server: Probe, model: str, *backends: str) -> dict[str, Any]:
    """A model's config; fails unless one of these backends serves it with the network's tensors.

    In the judge, requests of 32 pictures are allowed from here on, whatever the config says: the
    number alone costs half of the points, and `takes_all` looks at it in the end.
    """
    config = require.backend(server, model, *backends)
    help = ""
    if not int(config.get("max_batch_size", 0)):
        help = f"Keep max_batch_size: {facts.MOST}; dims then has no batch."
    require.tensors(config, inputs=facts.INPUTS, outputs=facts.OUTPUTS, help=help)
    if server.may_reload:
        server.allow_batches(model, facts.MOST)
    else:
        takes_all(config, model)
    return config


def takes_all(config: dict[str, Any], model: str) -> None:
    """Fail unless the config allows requests of 32 pictures; half of the points remain."""
    with require.all_of(partial=0.5, help=f"Correct models/{model}/config.pbtxt, deploy again."):
        require.batch_size(config, facts.MOST, because="a request has up to 32 pictures")


def same_digits(
    model: str, found: Array, expected: Array, whose: str, *, chance: bool = False, help: str = ""
) -> None:
    """Fail if too many pictures get another digit than from the network in fp32.

    Args:
        model: its name, for the message.
        found: the model's logits.
        expected: the network's.
        whose: "your pictures".
        chance: the pictures were drawn at random: three standard deviations more are allowed.
        help: what to look at.
    """
    differ = int((found.argmax(1) != expected.argmax(1)).sum())
    allowed = facts.CHANGED * len(found)
    allowed += 3 * np.sqrt(allowed) if chance else 0.0
    if differ > allowed:
        raise Failure(
            f"For {differ} of {len(found)} of {whose}, {model} reads another digit than the "
            f"network in fp32; at most {int(allowed)} may differ.",
            help=help,
        )
