"""How fast the models of a5__engine compute, compared in one run on one machine.

The server counts the time that each execution takes in the model: `compute_infer` in its
statistics. A round sends the same pictures to both models, one after the other, and the next
round in the other order. So a machine that becomes slower favours neither. Each round has new
pictures: no cache helps.

The slower model is the check's own: a copy of `own_plain` with the student's network as the course
gave it, and a config of the check's. Nothing in the submission can make it slower.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import numpy as np

from grader.vocabulary import collect
from grader.vocabulary.failure import Failure, Undecided
from grader.vocabulary.probe import Array, Probe
from grader.vocabulary.require_ratio import FEWEST, Ratio, paired_ratio

from . import facts
from .network import Network
from .serving import same_digits

#: The fewest rounds, and the most seconds for all.
_ROUNDS, _SECONDS = 2 * FEWEST, 20.0
#: Rounds before them, whose answers are compared.
_WARM = 3
#: The interval is narrow where it goes by no more than this share to either side.
_NARROW = 0.1
_OPENVINO = {"execution_accelerators": {"cpu_execution_accelerator": [{"name": "openvino"}]}}


@contextlib.contextmanager
def reference(server: Probe, network: Network, *, openvino: bool = False) -> Iterator[str]:
    """Serve the network in fp32 by ONNX Runtime, with a config of the check's.

    Args:
        server: the check's probe; it has the model `own_plain`.
        network: the student's.
        openvino: with OpenVINO as accelerator.

    Yields:
        The model's name.
    """
    ports = {
        "input": [{"name": facts.INPUT, "data_type": "TYPE_FP32", "dims": [*facts.PICTURE]}],
        "output": [{"name": facts.OUTPUT, "data_type": "TYPE_FP32", "dims": [facts.CLASSES]}],
    }
    with server.copied(
        facts.PLAIN,
        {"1/model.onnx": network.file},
        **ports,
        platform="onnxruntime_onnx",
        backend="onnxruntime",
        max_batch_size=facts.MOST,
        default_model_filename="model.onnx",
        instance_group=[{"name": "one", "count": 1, "kind": "KIND_CPU"}],
        optimization=_OPENVINO if openvino else {},
        parameters={},
        model_warmup=[],
    ) as name:
        yield name


def ratio(server: Probe, model: str, other: str, network: Network, *limits: float) -> Ratio:
    """How many times as fast one model computes 32 pictures as another.

    Rounds are repeated until the interval is narrow, or lies on one side of all limits.

    Args:
        server: the check's probe.
        model: the name of the faster one; its digits are compared with the network's.
        other: the name of the other one.
        network: the student's.
        limits: the numbers that the ratio is compared with.

    Raises:
        Failure: the model reads other digits.
        Undecided: the time is up, and the interval is neither narrow nor on one side.
    """
    sent = [facts.new_pictures(server.rng, facts.MOST) for _ in range(_WARM)]
    same_digits(
        model,
        np.concatenate([_compute(server, model, pictures)[1] for pictures in sent]),
        np.concatenate([network.logits(pictures) for pictures in sent]),
        "the pictures that were sent",
        chance=True,
        help="It must stay your network. How many digits change on your own pictures? In int8, on "
        "a processor without VNNI, reduce_range keeps sums from becoming too large.",
    )
    _compute(server, other, sent[0])
    taken: dict[str, list[float]] = {model: [], other: []}
    deadline = time.monotonic() + _SECONDS
    while True:
        pictures = facts.new_pictures(server.rng, facts.MOST)
        for name in (model, other) if len(taken[model]) % 2 else (other, model):
            taken[name].append(_compute(server, name, pictures)[0])
        if len(taken[model]) < _ROUNDS:
            continue
        found = paired_ratio(taken[model], taken[other])
        if found.is_within(_NARROW) or all(
            found.low >= limit or found.high < limit for limit in limits
        ):
            return found
        if time.monotonic() > deadline:
            raise Undecided(f"So far, {model} computes 32 pictures {found} as fast.")


def at_least(found: Ratio, limit: float) -> bool:
    """Whether a measured ratio reaches a limit. In doubt it does: the interval's end decides."""
    return found.high >= limit


def _compute(server: Probe, model: str, pictures: Array) -> tuple[float, Array]:
    """The seconds that the model computed on one request, by the server's count; and its logits."""
    count, before = _counted(server, model)
    logits = facts.one_request(server, model, pictures)
    deadline = time.monotonic() + 5
    while True:  # the server counts an execution a moment after it has answered
        now, nanoseconds = _counted(server, model)
        if now == count + 1 and nanoseconds > before:
            return (nanoseconds - before) / 1e9, logits
        if now > count + 1 or time.monotonic() > deadline:
            raise Failure(
                f"The check has sent a request to {model}, and the server has counted "
                f"{now - count}.",
                help="No other program may send requests to it meanwhile; and response_cache has "
                "to be off, since nothing is computed for a cached answer.",
            )
        time.sleep(0.002)


def _counted(server: Probe, model: str) -> tuple[int, int]:
    """How many executions the server has counted for a model, and their nanoseconds."""
    count = nanoseconds = 0
    for record in server.server.statistics(model):
        for batch in record.get("batch_stats", ()):
            count += int(batch["compute_infer"]["count"])
            nanoseconds += int(batch["compute_infer"]["ns"])
    return count, nanoseconds


def note(model: str, found: Ratio, other: str) -> None:
    """Show a ratio beside the check."""
    collect.note(f"{model} computes 32 pictures {found} as fast as {other}.")
