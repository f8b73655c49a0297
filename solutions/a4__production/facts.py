"""What notebook, checks and hidden checks of a4__production share: pictures, names, questions.

Students get this file: it holds nothing that a task asks for.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np

from grader.vocabulary import own, require
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe
from workbook.common.errors import WorkbookError
from workbook.zoo import data

INPUT, OUTPUT, VERDICT = "image", "logits", "verdict"
INPUTS = {INPUT: ("FP32", [1, 8, 8])}
OUTPUTS = {OUTPUT: ("FP32", [2])}
#: The classes by number: the column of a logit.
LABELS = ("other", "eight")
EIGHT = 1

#: The precision that task 6 asks for.
PRECISION = 0.9
#: How many pictures the camera has taken, and how many fit into one request.
PICTURES, REQUEST = 6_000, 1_000
#: Task 11: how many of 1,000 verdicts may differ from those of PyTorch.
ALLOWED = 1
#: Task 11: the longest that a request may wait for others, in microseconds.
LONGEST_DELAY = 100_000
#: The figures of each model in the table of task 8.
FIGURES = (
    *("mean deviation", "largest deviation", "smallest deviation"),
    *("true positive", "false positive", "false negative", "true negative"),
    *("accuracy", "precision", "recall"),
)
#: What stands in `engine` as long as there is no TensorRT engine.
NOT_ATTEMPTED = "not attempted"
ENGINE = "eights_tensorrt"
#: The models of all tasks.
MODELS = ("eights_fp32", "eights_fp16", ENGINE, "eights_mended", "eights")

#: The ranges, in counts, from which each student's black and gain are drawn. A thermal camera sees
#: a small signal on top of its own warmth.
_BLACK, _GAIN = (10_000.0, 14_000.0), (36.0, 44.0)
#: The standard deviation of the noise; white is 1.
_NOISE = 0.3
#: How many clean digits are for testing; how many noisy copies of each other digit are trained on,
#: and for how many epochs.
_TEST, _COPIES, _EPOCHS = 360, 6, 4


@dataclasses.dataclass(frozen=True)
class Camera:
    """A camera: a pixel of brightness b (black 0, white 1) becomes `black + gain * b` counts.

    Attributes:
        black: the counts of black.
        gain: by how many counts white is above it.
        pictures: what it has taken: float32 counts, (6000, 1, 8, 8).
        is_eight: which of them show an eight; bool, (6000,).
    """

    black: float
    gain: float
    pictures: Array
    is_eight: Array

    def take(self, random: np.random.Generator, count: int) -> tuple[Array, Array]:
        """New pictures: counts (count, 1, 8, 8) and which of them show an eight."""
        clean = data.digits()
        x, y = _spoil(clean.x_test, clean.y_test, random, random.integers(_TEST, size=count))
        return self._counts(x), y

    def _counts(self, brightness: Array) -> Array:
        return (self.black + self.gain * brightness).astype(np.float32)


def own_camera(me: str = own.DEFAULT) -> Camera:
    """The camera of one student, with its pictures: they depend on the id.

    Example::

        camera = own_camera("anna")
        camera.pictures.shape       # (6000, 1, 8, 8)

    Raises:
        Failure: `me` is no id.
    """
    return _camera(own.name(me))


@functools.lru_cache(maxsize=8)
def _camera(me: str) -> Camera:
    random = own.generator(me, "a4.camera")
    black, gain = (round(float(random.uniform(*limits)), 1) for limits in (_BLACK, _GAIN))
    clean = data.digits()
    chosen = random.integers(_TEST, size=PICTURES)
    brightness, is_eight = _spoil(clean.x_test, clean.y_test, random, chosen)
    empty = Camera(black, gain, brightness, is_eight)
    return dataclasses.replace(empty, pictures=empty._counts(brightness))


def _spoil(x: Array, y: Array, random: np.random.Generator, chosen: Array) -> tuple[Array, Array]:
    """Some of the clean digits with noise; and which of them are eights."""
    clean = x[chosen]
    noisy = clean + random.normal(0.0, _NOISE, clean.shape)
    return noisy.astype(np.float32), y[chosen] == 8


def trained(me: str = own.DEFAULT) -> Any:
    """The network of one student, as it came from the training: it takes brightness, not counts.

    It answers `(counts - camera.black) / camera.gain`. Its first weights and the order of its
    training pictures are drawn by the id.

    Returns:
        A `workbook.zoo.nets.EightsCNN` in evaluation mode, a new copy with each call.

    Raises:
        Failure: `me` is no id.
    """
    return copy.deepcopy(_train(own.name(me)))


@functools.lru_cache(maxsize=2)
def _train(me: str) -> Any:
    import torch
    from torch.nn import functional

    from workbook.zoo import nets

    random = own.generator(me, "a4.training")
    clean = data.digits()
    chosen = np.repeat(np.arange(len(clean.x_train)), _COPIES)
    x, is_eight = _spoil(clean.x_train, clean.y_train, random, chosen)
    order = random.permutation(len(x))
    images = torch.from_numpy(x[order])
    classes = torch.from_numpy(is_eight[order].astype(np.int64))

    def loss(which: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(network(images[which]), classes[which])

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a network is slower with more, and sums change their order
    try:
        torch.manual_seed(int(random.integers(2**31)))
        network = nets.EightsCNN()
        nets.fit(network, loss, len(x), epochs=_EPOCHS)
    finally:
        torch.set_num_threads(threads)
    return network


def content(path: str | Path) -> Array:
    """The bytes of a file, as a check takes them: a uint8 array.

    Example::

        pth = content("eights.pth")

    Raises:
        WorkbookError: there is no such file.
    """
    try:
        return np.fromfile(path, np.uint8)
    except OSError:
        raise WorkbookError(
            "There is no file that can be read.",
            where=str(path),
            todo="Save it first, in this folder: torch.save(…, path). Is the name the same?",
        ) from None


def ask(server: Probe, model: str, pictures: Array) -> Array:
    """The logits that a served model answers: float64, (n, 2). Fails if they are something else."""
    require.backend(server, model, "onnxruntime", "tensorrt")
    found = [answer[OUTPUT] for _, answer in _answers(server, model, pictures, (OUTPUT,))]
    return finite(model, np.concatenate(found))


def decide(server: Probe, model: str, pictures: Array) -> tuple[Array, Array]:
    """The logits (n, 2) and the verdicts (n,), which are bool, of a model that decides itself."""
    require.backend(server, model, "onnxruntime")
    logits, verdicts = [], []
    for rows, answer in _answers(server, model, pictures, (OUTPUT, VERDICT)):
        given = answer[VERDICT]
        one = "It holds one value per picture."
        require.shape(model, given, (rows, 1), output=VERDICT, help=one)
        logits.append(answer[OUTPUT])
        verdicts.append(given[:, 0])
    return finite(model, np.concatenate(logits)), np.concatenate(verdicts).astype(bool)


def _answers(
    server: Probe, model: str, pictures: Array, outputs: tuple[str, ...]
) -> list[tuple[int, dict[str, Array]]]:
    """The answers to all pictures, in requests that the model takes; with each one's rows."""
    most = int(server.config(model).get("max_batch_size", 0))
    size = min(most, REQUEST) if most > 0 else REQUEST
    found = []
    for start in range(0, len(pictures), size):
        some = pictures[start : start + size]
        answer = server.infer(model, {INPUT: some}, outputs=outputs)
        help = f"Look at the dims of {OUTPUT}, and at the file's outputs."
        shape = (len(some), len(LABELS))
        require.shape(model, answer[OUTPUT], shape, output=OUTPUT, help=help)
        found.append((len(some), answer))
    return found


def finite(model: str, logits: Array) -> Array:
    """The logits as float64; fails where one is no finite number."""
    if not np.isfinite(logits).all():
        raise Failure(
            f"{model} answers logits that are not finite numbers.",
            help="Is a number in the file larger than its type can hold? fp16 ends at 65,504.",
        )
    return logits.astype(np.float64)
