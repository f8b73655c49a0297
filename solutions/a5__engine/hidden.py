"""The hidden checks of a5__engine: the same questions, with pictures that no student has seen.

What must come out is computed from the network of the student's id. Of a variant that fails the
student reads its docstring and its help, and no word of its message.
"""

from __future__ import annotations

from typing import Any

from grader.vocabulary.define import hidden
from grader.vocabulary.failure import Failure, Undecided
from grader.vocabulary.probe import Array, Probe

from . import checks, facts, files, half, serving, speed
from .network import own_network

#: How many secret pictures are asked for, and how many are computed with fp16 arithmetic.
_MANY, _FEW = 300, 3
#: The ratio of two shortest times may be this many times as large, or as small, as the one that is
#: measured here: with two threads, a busy machine doubles ONNX Runtime's time.
_APART = 4.0
#: Up to this many times it may be the machine, and the submission is graded again. At each of 25
#: operators one of ONNX Runtime's threads may wait for a time slice of 6 ms, and the computation
#: takes twice its 20 ms: (25 x 6 + 2 x 20) / 20 is about 10.
_BUSY = 10.0


@hidden("a5.fp16", help="Does the file compute the logits from the picture, and only that?")
def secret_in_half(server: Probe, me: str, fp16: Array) -> None:
    """In fp16 arithmetic the logits of other pictures are right, too."""
    pictures = facts.new_pictures(server.rng, _FEW)
    found = half.logits(files.content("fp16", fp16), "`fp16`", pictures)
    serving.near("the logits of `fp16`", found, own_network(me).logits(pictures), "fp16")


@hidden(
    "a5.int8",
    help="Were the ranges measured on pictures of the camera, and on enough of them? Does the file "
    "compute the logits from the picture, and only that?",
)
def secret_in_int8(server: Probe, me: str, model: str) -> None:
    """On other pictures the int8 model reads the same digits as fp32, but for 4 in 100."""
    _reads_the_same(server, me, model)


@hidden("a5.fast", "a5.bonus", help="A faster model that reads other digits is no use.")
def secret_and_fast(server: Probe, me: str, model: str) -> None:
    """On other pictures the fast model reads the same digits as fp32, but for 4 in 100."""
    _reads_the_same(server, me, model)


def _reads_the_same(server: Probe, me: str, model: str) -> None:
    pictures = facts.new_pictures(server.rng, _MANY)
    found, expected = facts.ask(server, model, pictures), own_network(me).logits(pictures)
    serving.same_digits(model, found, expected, "the secret pictures", chance=True)


@hidden("a5.engine", help="Are fp16 and int8 the files of tasks 1 and 2?")
def are_the_files(server: Probe, me: str, fp16: Array, int8: Array) -> None:
    """The engines are those of your network, in fp16 and in int8."""
    network = own_network(me)
    files.in_fp16(files.content("fp16", fp16), network)
    files.in_int8(files.content("int8", int8), "`int8`", network)


@hidden("a5.accelerated", help="Does the file compute the logits from the picture, and only that?")
def secret_accelerated(server: Probe, me: str, model: str) -> None:
    """Other pictures, alone and many, get the logits of your network in fp32."""
    server.allow_batches(model, facts.MOST)
    pictures = facts.new_pictures(server.rng, facts.TOO_MANY)
    serving.answers(server, model, own_network(me), pictures, "fp32")


@hidden("a5.ir", help="Does the file compute the logits from the picture, and only that?")
def secret_ir(server: Probe, me: str, model: str) -> None:
    """Other pictures, alone and many, get the logits of your network, within bf16's rounding."""
    server.allow_batches(model, facts.MOST)
    pictures = facts.new_pictures(server.rng, facts.TOO_MANY)
    serving.answers(server, model, own_network(me), pictures, "bf16")


@hidden("a5.costs", help="Let cost(…) measure, and hand over what it returns.")
def measured(server: Probe, me: str, model: str, costs: Any) -> None:
    """By the reported times, OpenVINO is about as fast as it is here."""
    serving.is_served(server, model, "onnxruntime")
    table, network = checks.times(costs), own_network(me)
    reported = table[facts.PLAIN]["full"] / table[facts.ACCELERATED]["full"]
    limits = reported / _APART, reported * _APART
    with speed.reference(server, network) as reference:
        found = speed.ratio(server, model, reference, network, *limits)
    if not limits[0] <= found.high or not found.low <= limits[1]:
        if reported / _BUSY <= found.high and found.low <= reported * _BUSY:
            raise Undecided
        raise Failure(f"The reported ratio is ×{reported:.2f}; measured is {found}.")
