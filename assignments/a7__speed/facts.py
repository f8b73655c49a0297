"""What notebook and checks of a7__speed share: names, pictures, the network, the scale.

Students get this file: it holds nothing that a task asks for.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from grader.vocabulary import own
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array
from workbook.common.errors import WorkbookError
from workbook.zoo import data

SERVICE, INPUT, OUTPUT = "service", "picture", "scores"
#: The deployment as it was found, under names of its own: the checks put it into the repository.
BEFORE = "before_"
NETWORK = "network"
STEPS = ("prepare", NETWORK, "decide")
SIDE, SMALL, CLASSES = 64, 16, 10
INPUTS = {INPUT: ("UINT8", [SIDE, SIDE, 3])}
OUTPUTS = {OUTPUT: ("FP32", [CLASSES])}
#: The most pictures of a request.
BATCH = 8
#: How far a score may be off: clients show scores with two decimals, and this is half a unit of
#: the last one.
BOUND = 0.005
#: How many clients there are; each waits for an answer before it sends the next picture.
CLIENTS = 16
#: The throughput, as a multiple of that of the deployment as found, that earns all points. From ×1
#: on, each doubling is worth the same. Below the least one nothing is earned.
FULL_RATIO, LEAST_RATIO = 16.0, 1.25
#: The pictures per second of the open load, as a multiple of what the deployment as found answers.
TIMES = 2.0
#: Under it, the time within which 99 of 100 pictures are answered, as a multiple of what one
#: picture took as found: for all points, for none.
FULL_WAIT, LONGEST_WAIT = 6.0, 24.0
#: The overload. PATIENCE: the seconds within which a request must be answered or refused. FLOOD:
#: how many times as long the clients would wait if all of them were in the queue. FEWEST, MOST: how
#: many clients there are, each with 8 pictures per request. BACK_S: the seconds after which a
#: client that was refused comes again. FLOOD_S: the seconds of the overload.
PATIENCE, FLOOD, FEWEST, MOST = 0.2, 3.0, 64, 700
BACK_S, FLOOD_S = 1.0, 1.5
#: The share of the requests that must be, for all points, and the one that earns none.
IN_TIME, TOO_FEW_IN_TIME = 0.65, 0.35
#: The share of the pictures per second that is still answered during the overload.
USEFUL = 0.5
#: The memory that the service may take, in MB, for all points, and the one that earns none. The
#: deployment as found takes about 150, the solution about 130.
FULL_MEMORY, MOST_MEMORY = 300, 600
#: Figures in a notebook must be better by this factor, since the grader's machine is another one.
MARGIN = 1.1

#: The files of the models as they were found, and the beginning of their SHA-256. Whoever changes
#: a file of `starter/models` writes the new one here.
_FOUND_FILES = (
    *(f"{model}/config.pbtxt" for model in (SERVICE, *STEPS)),
    "prepare/1/model.py",
    "decide/1/model.py",
)
_FOUND = "a501c98b36de721e"

_FILTERS, _MORE, _HIDDEN = 16, 32, 1024
#: How many pictures decide the last layer, and how much the size of its weights is held down.
_TRAINING, _RIDGE = 600, 30.0


@dataclasses.dataclass(frozen=True)
class Network:
    """A student's network: two convolutions and a wide layer drawn at random, a last one fitted.

    Attributes:
        first: (16, 1, 3, 3) weights; stride 1, a border of zeros.
        second: (32, 16, 3, 3); stride 2, a border of zeros.
        wide: (2048, 1024); wide_bias: (1024,).
        last: (1024, 10); last_bias: (10,). All float32.
    """

    first: Array
    second: Array
    wide: Array
    wide_bias: Array
    last: Array
    last_bias: Array

    def hidden(self, small: Array) -> Array:
        """What comes before the last layer: (n, 1, 16, 16) to (n, 1024)."""
        x = np.maximum(_convolve(small, self.first, 1), 0)
        x = np.maximum(_convolve(x, self.second, 2), 0)
        return np.maximum(x.reshape(len(x), -1) @ self.wide + self.wide_bias, 0)

    def scores(self, pictures: Array) -> Array:
        """The scores of uint8 pictures (n, 64, 64, 3): (n, 10), computed in float32."""
        found = [
            _softmax(self.hidden(prepare(some)) @ self.last + self.last_bias)
            for some in np.array_split(pictures, -(-len(pictures) // 64))
        ]
        return np.concatenate(found)


def prepare(pictures: Array) -> Array:
    """What the network takes: uint8 pictures (n, 64, 64, 3) to float32 (n, 1, 16, 16).

    The grader has a fast program for it, which students do not get. Without that, the program of
    the deployment as it was found computes it, in 10 ms per picture.
    """
    try:
        from . import reference
    except ImportError:
        return _as_found()(pictures)
    return reference.prepare(pictures)


@functools.cache
def _as_found() -> Callable[[Array], Array]:
    """`prepare` as the model of the deployment as found computes it."""
    source = (found_folder() / "prepare/1/model.py").read_text("utf-8")
    found: dict[str, Any] = {}
    exec(source.replace("import triton_python_backend_utils as pb_utils", ""), found)
    names = ("to_grey", "smooth", "shrink", "normalise")

    def prepare(pictures: Array) -> Array:
        steps = [found[name] for name in names]
        small = [[functools.reduce(lambda rows, step: step(rows), steps, p)] for p in pictures]
        return np.array(small, np.float32)

    return prepare


def _convolve(x: Array, weight: Array, stride: int) -> Array:
    """A 3 x 3 convolution with a border of zeros: (n, c, h, w) to (n, filters, h', w')."""
    n, c, side = x.shape[:3]
    padded, size = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), side // stride
    near = [padded[:, :, dy : dy + side, dx : dx + side] for dy in range(3) for dx in range(3)]
    patches = np.stack([part[:, :, ::stride, ::stride] for part in near], 2)
    rows = patches.transpose(0, 3, 4, 1, 2).reshape(n * size**2, c * 9)
    sums: Array = rows @ weight.reshape(len(weight), -1).T
    return sums.reshape(n, size, size, -1).transpose(0, 3, 1, 2)


def _softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def draw(random: np.random.Generator, count: int, part: str = "test") -> tuple[Array, Array]:
    """New pictures of digits, each with colours, light and noise of its own.

    Args:
        random: decides the pictures.
        count: how many.
        part: "train" or "test", the digits that they show.

    Returns:
        uint8 pictures (count, 64, 64, 3), and the digits (count,).
    """
    split = data.digits()
    x, y = (split.x_train, split.y_train) if part == "train" else (split.x_test, split.y_test)
    chosen = random.integers(len(x), size=count)
    ink = np.repeat(np.repeat(x[chosen, 0], 8, 1), 8, 2)[..., None].astype(np.float32)
    paper = random.uniform(20, 90, (count, 1, 1, 3)).astype(np.float32)
    colour = random.uniform(60, 140, (count, 1, 1, 3)).astype(np.float32)
    noise = random.integers(0, 26, (count, SIDE, SIDE, 3), dtype=np.uint8)
    pictures: Array = (paper + colour * ink).astype(np.uint8) + noise
    digits: Array = y[chosen]
    return pictures, digits


def _clean(random: np.random.Generator) -> tuple[Array, Array]:
    """Digits without colours, light and noise, as the network takes them; and what they show."""
    split = data.digits()
    chosen = random.integers(len(split.x_train), size=_TRAINING)
    small = 100 * np.repeat(np.repeat(split.x_train[chosen], 2, 2), 2, 3).astype(np.float32)
    small += random.normal(0, 2, small.shape).astype(np.float32)
    mean, deviation = small.mean((2, 3), keepdims=True), small.std((2, 3), keepdims=True)
    return (small - mean) / (deviation + 1), split.y_train[chosen]


@functools.lru_cache(maxsize=4)
def _network(me: str) -> Network:
    random = own.generator(me, "a7.network")

    def weights(*shape: int, terms: int) -> Array:
        return np.asarray(random.standard_normal(shape) * np.sqrt(2 / terms), np.float32)

    first = weights(_FILTERS, 1, 3, 3, terms=9)
    second = weights(_MORE, _FILTERS, 3, 3, terms=9 * _FILTERS)
    wide = weights(_MORE * (SMALL // 2) ** 2, _HIDDEN, terms=_MORE * (SMALL // 2) ** 2)
    bias = 0.1 * weights(_HIDDEN, terms=2)
    empty = Network(first, second, wide, bias, np.zeros(0), np.zeros(0))
    small, digits = _clean(random)
    hidden = np.concatenate([empty.hidden(some) for some in np.split(small, 6)])
    rows = np.c_[hidden, np.ones(len(hidden))].astype(np.float64)
    wanted = 8.0 * (np.eye(CLASSES)[digits] - 1 / CLASSES)
    # Ridge regression: the weights that fit best among small ones.
    square = rows.T @ rows + _RIDGE * np.eye(rows.shape[1])
    last = np.linalg.solve(square, rows.T @ wanted).astype(np.float32)
    return dataclasses.replace(empty, last=last[:-1], last_bias=last[-1])


def own_network(me: str = own.DEFAULT) -> Network:
    """The network of one student.

    Raises:
        Failure: `me` is no id.
    """
    return _network(own.name(me))


def onnx_file(network: Network) -> bytes:
    """A network as ONNX in fp32: `small` (n, 1, 16, 16) in, `logits` (n, 10) out."""
    import onnx
    from onnx import helper, numpy_helper

    def node(kind: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(kind, inputs.split(), [output], name=output, **attributes)

    def port(name: str, *dims: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", *dims])

    nodes = [
        node("Conv", "small first", "conv1", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", "conv1", "relu1"),
        node("Conv", "relu1 second", "conv2", strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Relu", "conv2", "relu2"),
        node("Flatten", "relu2", "flat"),
        node("Gemm", "flat wide wide_bias", "gemm1"),
        node("Relu", "gemm1", "relu3"),
        node("Gemm", "relu3 last last_bias", "logits"),
    ]
    tensors = [numpy_helper.from_array(v, n) for n, v in vars(network).items()]
    ports = [port("small", 1, SMALL, SMALL)], [port("logits", CLASSES)]
    graph = helper.make_graph(nodes, "digits", *ports, tensors)
    opset = [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def write_network(me: str = own.DEFAULT, to: str | Path = "models/network/1/model.onnx") -> None:
    """Write a student's network as an ONNX file.

    Raises:
        Failure: `me` is no id.
        WorkbookError: the folder is not there.
    """
    try:
        Path(to).write_bytes(onnx_file(own_network(me)))
    except OSError as error:
        raise WorkbookError(
            f"The network cannot be written: {error.strerror}.",
            where=str(to),
            todo="Does the notebook run in its own folder, beside models/?",
        ) from None


def found_folder() -> Path:
    """The models as they were found, in the course's files.

    Raises:
        Failure: a student has worked in these files, and not in a copy of them.
    """
    home = Path(__file__).parent
    inside = home / "starter" / "models"
    released = home.parents[1] / "assignments" / home.name / "models"
    folder = inside if inside.is_dir() else released
    found = hashlib.sha256()
    for name in _FOUND_FILES:
        path = folder / name
        found.update(path.read_bytes() if path.is_file() else b"")
    if found.hexdigest()[:16] != _FOUND:
        course = f"assignments/{home.name}"
        raise Failure(
            f"{course}/models was changed. The service as you found it is read from there.",
            help=f"Copy {course} to work/{course}, and go on in the copy. Then bring the "
            f"course's files back: git checkout -- {course}",
        )
    return folder
