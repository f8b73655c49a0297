"""What the checks of a4__production ask of the weights and of the served models."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from grader.vocabulary import collect, onnx_file, own, require
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe
from grader.vocabulary.tolerance import Tolerance
from grader.vocabulary.values import array

from . import facts, files, fp16
from .network import Network

#: At a precision of 0.9 the network of the recipe finds more than this share of the eights. A
#: network for another camera finds hardly any, nor does one that gets counts, not brightness.
LEAST_FOUND = 0.3
#: On how many pictures a mean deviation is measured.
_TELLING = 1_500
#: The same where fp16 is computed without a GPU: these pictures take a fifth of a second.
_FEW = 60
#: Task 10: the largest mean deviation, as a share of the mean deviation of plain fp16.
SHARE = 0.1
#: More than this many times the allowed mean deviation is not explained by rounding.
_ASTRAY = 100
#: The mean size of the first layer's trained weights lies between these numbers: it is about 0.2.
_TRAINED = (0.05, 1.0)
#: The least share of logits that are the served model's to the last bit.
_EQUAL = 0.9
#: What is left where another program has computed right logits: the checks after it can use them.
_LEFT = 0.1
#: The beginning of a message about a first layer with only its weight, or only its bias, folded.
_HALF = "The network of `pth` finds hardly any eights in your camera's counts:"
#: The logits of a network that looks at its input are apart by more than this many times what
#: rounding explains.
_APART = 20
_SAME = "The network of `pth` answers the same to every picture: it does not look at them."
_BEGIN = "Begin with net = trained(me), change the first layer only, and save the network."


@dataclasses.dataclass(frozen=True)
class Known:
    """What the grader knows of a student's network.

    Attributes:
        camera: the student's.
        network: with the weights of the student's file.
        logits: without rounding, of the camera's pictures: float64, (6000, 2).
        rounding: how far those of a float32 program may be from them.
    """

    camera: facts.Camera
    network: Network
    logits: Array
    rounding: Tolerance

    @property
    def pictures(self) -> Array:
        """The camera's pictures: float32 counts, (6000, 1, 8, 8)."""
        return self.camera.pictures


def read(me: str, pth: Any) -> Known:
    """The network in a student's file, whatever it answers.

    Args:
        me: the student's id.
        pth: the bytes of the file, as the notebook handed them over.

    Raises:
        Failure: `me` is no id, or the file is no state dict of this network.
    """
    Network.read("pth", pth)
    return _read(own.name(me), pth.tobytes())


def known(me: str, pth: Any) -> Known:
    """The network in a student's file; the arguments are those of `read`.

    It may be a wrong one: what is made of it is compared with it all the same.

    Raises:
        Failure: as `read`; or the network answers the same to every picture. A model that does not
            look at its input would agree with it.
    """
    found = read(me, pth)
    if np.ptp(found.logits, axis=0).max() <= _APART * found.rounding.allowed:
        raise Failure(_SAME, help=_BEGIN)
    return found


def finds_eights(known: Known) -> None:
    """Fail unless a network finds eights in this student's pictures, and say what is wrong."""
    camera, network = known.camera, known.network
    if found_at(known.logits, camera.is_eight) >= LEAST_FOUND:
        return
    brightness = (camera.pictures - camera.black) / camera.gain
    if found_at(network.logits(brightness), camera.is_eight) >= LEAST_FOUND:
        raise Failure(
            "The network of `pth` finds eights if it gets brightness. Your camera gives counts, "
            "and in these it finds hardly any.",
            help="Fold black and gain into the first layer, and save the network after that.",
        )
    _half_folded(camera, network)
    if np.ptp(known.logits, axis=0).max() <= _APART * known.rounding.allowed:
        raise Failure(_SAME, help=_BEGIN)
    raise Failure(
        "The network of `pth` finds hardly any eights in your camera's counts.",
        help="Is it trained(me), with your id? After a change of `me` run all cells below it "
        "again: else the weights are those of the former id. If that is not it, begin with net = "
        "trained(me) again, and compare net(counts) with what the network answered to (counts - "
        "camera.black) / camera.gain before you changed it.",
    )


def _half_folded(camera: facts.Camera, network: Network) -> None:
    """Fail if a network finds eights once one half of the first layer is folded as it should be."""
    weight, bias = (network.weights[f"features.0.{name}"] for name in ("weight", "bias"))
    if np.abs(weight).mean() > _TRAINED[1] / camera.gain:
        if _finds(camera, network, weight=weight / np.float32(camera.gain)):
            raise Failure(
                f"{_HALF} the bias of features.0 is right, and its weight is not.",
                help="The weight becomes another one as well: see the formula in the task.",
            )
        return
    if 0 < np.abs(weight).mean() < _TRAINED[0] / camera.gain:
        raise Failure(
            "The weight of features.0 in `pth` is divided by the gain more than once.",
            help="A cell that folds in place folds once more each time it runs: begin it with "
            "net = trained(me), and run it again.",
        )
    sums = weight.sum((1, 2, 3))
    for subtracted, help in (
        (0 * sums, "The bias becomes another one as well: see the formula in the task."),
        (
            np.full_like(sums, weight.sum()),
            "From all biases the same number was subtracted: black times the sum over all 16 "
            "filters. Each filter has a sum of its own.",
        ),
        (
            sums / camera.gain,
            "Gain was divided by twice: the sum is that of the new weight, which is divided by "
            "gain already.",
        ),
        (
            sums * camera.gain,
            "The sum is that of the new weight, which is divided by gain, and not of the old one.",
        ),
        (-sums, "Black times the sum is subtracted, and not added."),
    ):
        if _finds(camera, network, bias=bias + camera.black * (subtracted - sums)):
            raise Failure(
                f"{_HALF} the weight of features.0 is right, and its bias is not.", help=help
            )


def _finds(camera: facts.Camera, network: Network, **first: Array) -> bool:
    """Whether a network finds eights in counts, with another weight or bias of its first layer."""
    changed = {f"features.0.{name}": tensor for name, tensor in first.items()}
    logits = Network(network.weights | changed).logits(camera.pictures)
    return found_at(logits, camera.is_eight) > LEAST_FOUND


@functools.lru_cache(maxsize=4)
def _read(me: str, weights: bytes) -> Known:
    camera = facts.own_camera(me)
    network = Network.read("pth", np.frombuffer(weights, np.uint8))
    logits = network.logits(camera.pictures)
    return Known(camera, network, logits, network.rounding(camera.pictures))


def found_at(logits: Array, is_eight: Array) -> float:
    """The largest share of the eights that is found at the precision of task 6."""
    order = np.argsort(-logits[:, facts.EIGHT], kind="stable")
    hits = np.cumsum(is_eight[order])
    enough = hits / np.arange(1, len(order) + 1) >= facts.PRECISION
    return float((hits * enough).max() / is_eight.sum())


def answers(server: Probe, model: str, known: Known, pictures: Array, whose: str) -> None:
    """Fail unless an fp32 model answers what the network answers, one picture or many."""
    require.close(
        _in_parts(server, model, pictures),
        known.network.logits(pictures),
        what=f"the logits of {model} for {whose}",
        tolerance=known.rounding,
        help="They are compared with those of the network in eights.pth. Was the file exported "
        "from it, and deployed after that?",
    )


def answers_in_half(server: Probe, model: str, known: Known, pictures: Array, whose: str) -> None:
    """Fail unless an fp16 model answers what the network does with its weights in fp16.

    Where the server's hardware has fp16 arithmetic, counts and results are rounded, too. Then the
    answers are nearer to that than to the network with fp16 weights alone.
    """
    served = _in_parts(server, model, pictures)
    expected = known.network.in_half(pictures)
    everything = known.network.in_half(pictures, everything=True)
    if np.abs(served - everything).mean() < 0.5 * np.abs(expected - everything).mean():
        return
    require.close(
        served,
        expected,
        what=f"the logits of {model} for {whose}",
        tolerance=known.rounding,
        help="They are compared with those of the network in eights.pth, with its weights in fp16. "
        "Does the file compute anything else?",
    )


def _in_parts(server: Probe, model: str, pictures: Array) -> Array:
    """The logits of pictures that are sent one alone, seven together, and the rest."""
    parts = np.split(pictures, [1, 8])
    return np.concatenate([facts.ask(server, model, part) for part in parts])


def of_pth(known: Known, value: Any) -> Array:
    """The logits of PyTorch that a student handed over; fails unless they are the network's."""
    given = one_per_picture("logits_pth", value, known.logits)
    require.close(
        given,
        known.logits[:, facts.EIGHT],
        what="the values in `logits_pth`",
        tolerance=known.rounding,
        help="They are compared with those of the network in eights.pth, for your pictures in "
        "their order. Do they come from `net`, which is folded, and not from trained(me)? Run the "
        "cell of task 5 again, after the last change of `me` or of the file.",
    )
    return given


def scores(known: Known, value: Any) -> Array:
    """PyTorch's logits of class eight: those handed over, or the network's where they are wrong.

    Where rounding alone decides about a picture, the student's own logits have to be used. Wrong
    ones are the subject of a4.logits and a4.threshold.

    Raises:
        Failure: what was handed over is not one number per picture.
    """
    array("logits_pth", value, (len(known.logits),), because="a logit for each picture")
    try:
        return of_pth(known, value)
    except Failure:
        eight: Array = known.logits[:, facts.EIGHT]
        return eight


def verdicts(scores: Array, limit: float, least: int = 1) -> Array:
    """The verdicts on pictures: bool; fails unless both kinds of verdict occur.

    Where all are the same, there is nothing to compare: a model that always answers the same agrees
    with them.

    Args:
        scores: a logit for each picture.
        limit: the threshold that was handed over.
        least: how many verdicts of each kind are needed.
    """
    truth: Array = scores > limit
    if least <= truth.sum() <= len(truth) - least:
        return truth
    raise Failure(
        f"At `threshold`, {limit:.5g}, {truth.sum():,} of {len(truth):,} verdicts of PyTorch are "
        "eight: nearly all are the same.",
        help=f"Your logits go from {scores.min():.5g} to {scores.max():.5g}. Correct the threshold "
        "of task 6 first.",
    )


def served(server: Probe, known: Known, *models: str) -> dict[str, Array]:
    """Both logits that each model answers to the camera's pictures, by the model's name."""
    answered = {model: facts.ask(server, model, known.pictures) for model in models}
    for model, logits in answered.items():
        looks(model, logits)
    return answered


def looks(model: str, logits: Array) -> None:
    """Fail if a model answers the same to all pictures."""
    if not np.ptp(logits[:, facts.EIGHT]) > 0:
        raise Failure(
            f"{model} answers the same to every picture: it does not look at them.",
            help="Make its file from the network of eights.pth, and deploy again.",
        )


def of_served(
    name: str,
    value: Any,
    model: str,
    served: Mapping[str, Array],
    rounding: Tolerance,
    *,
    is_on_cpu: bool,
) -> None:
    """Fail unless one number per picture was handed over, the logit that a served model gives.

    On a CPU ONNX Runtime gives a picture the same bits in a batch of any size. PyTorch, with the
    same weights, gives these bits to a quarter of the pictures. So the bits show who computed.

    Args:
        name: the parameter's name, for messages.
        value: what was handed over.
        model: whose logits they should be.
        served: both logits of each picture, by the name of the model that the server asked.
        rounding: how far equal logits may be apart.
        is_on_cpu: whether the model runs there; on a GPU, bits depend on the batch.
    """
    given = one_per_picture(name, value, served[model])
    of_each = {m: np.abs(given - both[:, facts.EIGHT]).max() for m, both in served.items()}
    nearest = min(of_each, key=lambda m: of_each[m])
    if of_each[model] > rounding.allowed >= of_each[nearest]:
        raise Failure(
            f"`{name}` holds the logits of {nearest}, and not those of {model}.",
            help=f"Hand over what {model} answered.",
        )
    require.same_answer(
        name,
        given,
        served[model][:, facts.EIGHT],
        tolerance=rounding,
        help=f"Ask {model} once more, after its last deploy, for the pictures in their order.",
    )
    own = served[model][:, facts.EIGHT].astype(np.float32)
    equal = float((given.astype(np.float32) == own).mean())
    if equal < _EQUAL and is_on_cpu:
        raise Failure(
            f"`{name}` does not hold what {model} answered: {equal:.0%} of the numbers are those "
            "of the server to the last bit. Another program with the same weights comes as near.",
            help=f"Ask the server, and hand over what {model} answers without rounding it.",
            credit=_LEFT,
        )


def one_per_picture(name: str, value: Any, logits: Array) -> Array:
    """One number per picture; fails where they are probabilities, or of another class.

    Args:
        name: the parameter's name, for messages.
        value: what was handed over.
        logits: both logits of each picture, as they should be about.
    """
    column = f"the logit of class {facts.EIGHT} for each picture"
    given = array(name, value, (len(logits),), because=column)
    if given.min() >= 0 and given.max() <= 1:
        raise Failure(
            f"All values in `{name}` lie between 0 and 1: these are probabilities.",
            help="A logit is what the network answers. Nothing is done to it.",
        )
    other, eight = logits[:, 1 - facts.EIGHT], logits[:, facts.EIGHT]
    off = {
        "": np.abs(given - eight).mean(),
        "those of the other class": np.abs(given - other).mean(),
        "the differences of both logits": np.abs(given - (eight - other)).mean(),
    }
    like = min(off, key=lambda what: off[what])
    if like and off[like] < 0.2 * off[""]:
        raise Failure(
            f"The values in `{name}` look like {like}.",
            help=f"The logit of {facts.LABELS[facts.EIGHT]} stands in column {facts.EIGHT} of the "
            "answer.",
        )
    return given


def most_found(scores: Array, is_eight: Array) -> int:
    """The most eights that a threshold with the precision of task 6 finds.

    Args:
        scores: of all pictures.
        is_eight: which of them show an eight.
    """
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(is_eight[order])
    is_enough = hits / np.arange(1, len(order) + 1) >= facts.PRECISION
    is_between = np.append(np.diff(scores[order]) < 0, True)  # equal scores have one verdict
    return int((hits * (is_enough & is_between)).max())


def is_probability(scores: Array, logits: Array, is_eight: Array, limit: float) -> bool:
    """Whether a threshold would be right for probabilities, of the logistic function or softmax."""
    if not 0 < limit < 1:
        return False
    differences = logits[:, facts.EIGHT] - logits[:, 1 - facts.EIGHT]
    for some in (scores, differences):
        called = some > np.log(limit / (1 - limit))
        found = int(is_eight[called].sum())
        if found and found == most_found(some, is_eight):
            return bool(is_eight[called].mean() >= facts.PRECISION)
    return False


def is_on_a_logit(scores: Array, limit: float, rounding: Tolerance) -> bool:
    """Whether a threshold is so near to a score that rounding could change the verdict."""
    above, below = scores[scores > limit], scores[scores <= limit]
    up = above.min() - limit if above.size else np.inf
    down = limit - below.max() if below.size else np.inf
    return bool(min(up, down) < min(rounding.allowed, 0.05 * (up + down)))


def fewest(scores: Array, truth: Array) -> int:
    """The smallest number of verdicts that differ from other verdicts, over all thresholds.

    Args:
        scores: of a model.
        truth: the other verdicts; bool, of the same shape.
    """
    order = np.argsort(scores, kind="stable")
    ascending, positive = scores[order], truth[order]
    # The first k scores are not above the threshold. Where the other verdict on them is true, it
    # differs; after them it differs where it is false.
    differ = np.concatenate([[0], np.cumsum(positive)]) + (~positive).sum()
    differ -= np.concatenate([[0], np.cumsum(~positive)])
    is_between = np.concatenate([[True], ascending[1:] > ascending[:-1], [True]])
    return int(differ[is_between].min())


def deviates_less(server: Probe, model: str, known: Known, pictures: Array, whose: str) -> None:
    """Fail unless a model's logits are much nearer to PyTorch's than those of plain fp16."""
    pictures = pictures[:_TELLING]
    exact = known.network.logits(pictures)
    plain = np.abs(known.network.in_half(pictures) - exact)[:, facts.EIGHT].mean()
    off = np.abs(facts.ask(server, model, pictures) - exact)[:, facts.EIGHT].mean()
    if off > SHARE * plain:
        sizes = (
            "Which numbers are multiplied with which in the first layer, and how large are they?"
        )
        if off > _ASTRAY * SHARE * plain:
            sizes = (
                "Rounding alone does not deviate by this much: another sum is computed. Does the "
                "network in your model take counts or brightness, and which does it get? Is black "
                "taken off twice?"
            )
        raise Failure(
            f"On {whose} ({len(pictures)} of them) the logits of {model} deviate by {off:.2g} on "
            f"average: {off / plain:.2f} times as much as with all weights in fp16 as they are. At "
            f"most {SHARE:g} is wanted.",
            help=files.large(server, model) or sizes,
        )


def deviates_less_in_half(server: Probe, model: str, known: Known) -> None:
    """The same, where all that is fp16 in the file is also computed in fp16, as a GPU does."""
    pictures = known.pictures[:_FEW]
    facts.ask(server, model, pictures)  # so the file can be computed, with these shapes
    exact = known.network.logits(pictures)
    plain = np.abs(known.network.in_half(pictures) - exact)[:, facts.EIGHT].mean()
    computed = fp16.logits(model, onnx_file.content(server, model), pictures)
    off = np.abs(computed - exact)[:, facts.EIGHT].mean()
    if not off <= SHARE * plain:  # also where it is no number
        raise Failure(
            f"Computed with fp16 arithmetic, as on a GPU, the logits of {model} deviate by "
            f"{off:.2g} on average; at most {SHARE * plain:.2g} is wanted. (Most CPUs compute in "
            "fp32 what the file has as fp16, so your server may not show it.)",
            help=files.large(server, model)
            or "Follow a picture through the operators of the file: where does the first Cast to "
            "fp16 stand, and how far apart are the numbers of fp16 there? See "
            "np.spacing(np.float16(13000)).",
        )


def decided(server: Probe, model: str, known: Known, pictures: Array, limit: float) -> Array:
    """The verdicts that a model answers; fails unless they follow from its logits and a limit."""
    logits, verdicts = facts.decide(server, model, pictures)
    scores = logits[:, facts.EIGHT]
    wrong = (verdicts != (scores > limit)) & (np.abs(scores - limit) > known.rounding.allowed)
    if wrong.all() or wrong.sum() > 0.5 * len(wrong):
        raise Failure(
            f"Most verdicts of {model} are the opposite of `logit > {limit:.5g}`.",
            help="The verdict is true where the picture shows an eight.",
        )
    if wrong.any():
        what = (
            f"{wrong.sum()} of {len(wrong):,} verdicts of {model} are not `logit > {limit:.5g}`, "
            f"where the logit is that of {facts.LABELS[facts.EIGHT]} as the model answers it."
        )
        help = "Which number does the file compare with? In fp16 a threshold is rounded, too."
        if logits.min() >= 0 and np.abs(logits.sum(1) - 1).max() < 0.01:
            help = "`logits` holds probabilities. It is to hold what the network answers."
        raise Failure(
            f"{what} These logits go from {scores[wrong].min():.5g} to {scores[wrong].max():.5g}.",
            help=help,
            safe="Verdicts of your model do not follow from the logits that it answers.",
        )
    return verdicts


def engine(server: Probe, value: Any) -> bool:
    """Whether a TensorRT engine can be asked. Where one is named and none can, a note says so.

    Raises:
        Failure: the value is neither `NOT_ATTEMPTED` nor the engine's name; or another backend
            serves a model of this name.
    """
    if not isinstance(value, str) or value not in (facts.NOT_ATTEMPTED, facts.ENGINE):
        raise Failure(
            f"`engine` is neither {facts.NOT_ATTEMPTED!r} nor {facts.ENGINE!r}.",
            help="Without a GPU leave it as it is: this task is a bonus.",
        )
    if value == facts.NOT_ATTEMPTED:
        return False
    try:
        server.require(value)
    except Failure:
        collect.note(
            "TensorRT: not attempted here, since this server has no engine that runs. Not verified "
            "on a GPU."
        )
        return False
    require.backend(server, value, "tensorrt")
    return True
