"""What notebook, checks and hidden checks of a5__engine share: pictures, names, questions.

Students get this file: it holds nothing that a task asks for.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import numpy as np

from grader.vocabulary import own, require
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe
from workbook.common.errors import WorkbookError
from workbook.zoo import data

INPUT, OUTPUT = "image", "logits"
#: One picture, and the logits of its ten digits.
PICTURE, CLASSES = (1, 32, 32), 10
INPUTS = {INPUT: ("FP32", [*PICTURE])}
OUTPUTS = {OUTPUT: ("FP32", [CLASSES])}

#: The sizes of the requests that every model answers, and one that it refuses.
SIZES, TOO_MANY = (1, 3, 32), 33
#: The most pictures in a request, and how many most requests have.
MOST, USUAL = 32, 8
#: The largest share of pictures that may get another digit than from the network in fp32.
CHANGED = 0.04
#: Task 6: how many times as fast as ONNX Runtime in fp32; and for half of the points.
RATIO, HALF = 2.0, 1.3
#: The bonus: how many times as fast as OpenVINO in fp32; on a processor without instructions for
#: int8, as fast is enough.
BONUS, WITHOUT = 1.3, 1.0
#: Those instructions, as /proc/cpuinfo names them. Without them int8 was 1.1 times as fast.
INSTRUCTIONS = frozenset({"avx512_vnni", "avx_vnni", "amx_int8"})
#: What stands in a name as long as there is nothing.
NOT_ATTEMPTED = "not attempted"
#: The file of a model in IR. OpenVINO finds `model.bin` beside it.
IR_FILE = "model.xml"
#: The models of the tasks. `own_engine` is for machines with a GPU.
PLAIN, INT8, ACCELERATED, IR, FAST, ENGINE = (
    *("own_plain", "own_int8", "own_accelerated"),
    *("own_ir", "own_fast", "own_engine"),
)
MODELS = (PLAIN, INT8, ACCELERATED, IR, FAST, ENGINE)

#: How many pictures a camera comes with: to calibrate, and to compare answers.
_CALIBRATION, _PICTURES = 256, 300
#: The camera has 12 bits. The counts of black, and by how much white is above it: each picture has
#: its own exposure.
_LARGEST, _BLACK, _WHITE = 4095, (100.0, 500.0), (600.0, 3000.0)
#: The standard deviation of the noise; white is 1.
_NOISE = 0.12
#: How many of the digits are for new pictures only.
_KEPT = 360


@dataclasses.dataclass(frozen=True)
class Camera:
    """A camera with 12 bits that looks at digits. All pictures are float32, (n, 1, 32, 32).

    Attributes:
        calibration: 256 pictures, to measure ranges on.
        pictures: 300 others, to compare answers on.
        digits: what these show: int64, (300,).
    """

    calibration: Array
    pictures: Array
    digits: Array


def own_camera(me: str = own.DEFAULT) -> Camera:
    """The camera of one student: its pictures depend on the id.

    Example::

        camera = own_camera("anna")
        camera.pictures.shape       # (300, 1, 32, 32)

    Raises:
        Failure: `me` is no id.
    """
    return _camera(own.name(me))


@functools.lru_cache(maxsize=8)
def _camera(me: str) -> Camera:
    random = own.generator(me, "a5.camera")
    clean = data.digits()
    first = random.integers(len(clean.x_train), size=_CALIBRATION)
    others = random.integers(_KEPT, size=_PICTURES)
    return Camera(
        expose(clean.x_train[first], random),
        expose(clean.x_test[others], random),
        clean.y_test[others],
    )


def new_pictures(random: np.random.Generator, count: int) -> Array:
    """Pictures that no camera has taken yet: (count, 1, 32, 32)."""
    clean = data.digits().x_test
    return expose(clean[random.integers(_KEPT, size=count)], random)


def expose(clean: Array, random: np.random.Generator) -> Array:
    """Pictures of digits as a camera takes them: whole counts from 0 to 4,095, as float32.

    Args:
        clean: digits in 0..1, (n, 1, 8, 8).
        random: draws the exposure and the noise.

    Returns:
        (n, 1, 32, 32).
    """
    large = clean.repeat(4, axis=-2).repeat(4, axis=-1)
    for axis in (-2, -1):
        large = (np.roll(large, 1, axis) + 2 * large + np.roll(large, -1, axis)) / 4
    black, white = (random.uniform(*limits, (len(clean), 1, 1, 1)) for limits in (_BLACK, _WHITE))
    counts = black + white * (large + random.normal(0.0, _NOISE, large.shape))
    exposed: Array = np.clip(np.rint(counts), 0, _LARGEST).astype(np.float32)
    return exposed


def bonus_limit() -> float:
    """How many times as fast as OpenVINO in fp32 earns the bonus on this processor."""
    try:
        words = set(Path("/proc/cpuinfo").read_text("utf-8", errors="replace").split())
    except OSError:
        words = set()
    return BONUS if INSTRUCTIONS & words else WITHOUT


def budget(me: str = own.DEFAULT) -> int:
    """Task 3: the bytes on the GPU that an engine may take for activations; drawn by the id.

    Raises:
        Failure: `me` is no id.
    """
    return int(own.generator(own.name(me), "a5.budget").integers(20, 41)) * 1_000_000


def content(path: str | Path) -> Array:
    """The bytes of a file, as a check takes them: a uint8 array.

    Example::

        fp16 = content("fp16.onnx")

    Raises:
        WorkbookError: there is no such file.
    """
    try:
        return np.fromfile(path, np.uint8)
    except OSError:
        raise WorkbookError(
            "There is no file that can be read.",
            where=str(path),
            todo="Save it first, in this folder. Is the name the same?",
        ) from None


def ask(server: Probe, model: str, pictures: Array) -> Array:
    """The logits that a served model answers to pictures, in requests of at most 32.

    Returns:
        float64, (n, 10).

    Raises:
        Failure: the model is not there, or answers something else.
    """
    most = min(int(server.config(model).get("max_batch_size", 0)) or MOST, MOST)
    parts = [pictures[start : start + most] for start in range(0, len(pictures), most)]
    return np.concatenate([one_request(server, model, part) for part in parts])


def one_request(server: Probe, model: str, pictures: Array) -> Array:
    """The logits of a single request: float64, (n, 10)."""
    found = server.infer(model, {INPUT: pictures}, outputs=(OUTPUT,))[OUTPUT]
    help = f"Look at the dims of {OUTPUT}, and at the file's outputs."
    require.shape(model, found, (len(pictures), CLASSES), output=OUTPUT, help=help)
    if not np.isfinite(found).all():
        raise Failure(
            f"{model} answers logits that are not finite numbers.",
            help="Is a number between two layers larger than its type can hold? fp16 ends at "
            "65,504.",
        )
    return found.astype(np.float64)
