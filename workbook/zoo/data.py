"""The data sets of the course: small, part of installed packages, the same on every machine.

They come from scikit-learn (digits, breast cancer, iris, two photographs) and from the CLDR tables
that Babel carries (names of countries, languages, currencies in many languages). Everything is
seeded: two calls give the same arrays.

    split = zoo.data.digits()
    split.x_test.shape, split.y_test[:3], split.labels      # (360, 1, 8, 8), …
"""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

#: The languages that `languages()` tells apart, by their CLDR codes.
LANGUAGES = (
    "cs", "de", "el", "en", "es", "fi", "fr", "hu", "it", "ja", "nl", "pl", "pt", "ru", "tr", "uk",
)  # fmt: skip

#: Side of a photo crop in pixels.
CROP = 64

#: The classes of `focus_files`, and of the network that it trains.
FOCUS_LABELS = ("blurred", "sharp")
#: `focus_files`: how wide a piece of a photo is, in pixels, and how much it is blurred: the radius
#: of the Gaussian filter, in pixels of the picture that the network sees.
FOCUS_SIDE, FOCUS_RADIUS = (96, 192), (0.8, 2.0)

#: The camera of `noisy_eights`: the pixel value of black, and by how much white is above it.
DARK, GAIN = 1000.0, 40.0


@dataclasses.dataclass(frozen=True)
class Split:
    """A data set, split once and for all into training data and test data.

    Attributes:
        x_train, x_test: the examples; arrays whose first dimension is the example.
        y_train, y_test: int64 class numbers, one per example.
        labels: the class names, by number.
    """

    x_train: Array
    y_train: Array
    x_test: Array
    y_test: Array
    labels: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class TextSplit:
    """As `Split`, for texts: `x_train` and `x_test` are lists of str."""

    x_train: list[str]
    y_train: Array
    x_test: list[str]
    y_test: Array
    labels: tuple[str, ...]


def digits() -> Split:
    """Handwritten digits: float32 images (n, 1, 8, 8) in 0..1; 1,437 to train, 360 to test.

    Source: `sklearn.datasets.load_digits` (UCI's optical recognition of handwritten digits).
    """
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    bunch = load_digits()
    x = (bunch.images[:, None] / 16).astype(np.float32)
    parts = train_test_split(
        x, bunch.target.astype(np.int64), test_size=0.2, random_state=0, stratify=bunch.target
    )
    x_train, x_test, y_train, y_test = parts
    return Split(x_train, y_train, x_test, y_test, tuple(str(d) for d in range(10)))


def noisy_eights() -> Split:
    """Is it an 8? Digits with so much noise that no model can be sure.

    The pixels are raw counts, as a camera gives them: black is `DARK`, white is `DARK + GAIN`.
    Each test digit appears 25 times with different noise: 9,000 test images, a tenth are eights.
    Scores of the two classes overlap, so precision and recall depend on the threshold.

    Returns:
        float32 images (n, 1, 8, 8) of counts around 1,000; class 1 is "eight".
    """
    import numpy as np

    clean = digits()
    rng = np.random.default_rng(8)

    def spoil(x: Array, y: Array, copies: int) -> tuple[Array, Array]:
        x = np.repeat(x, copies, axis=0)
        noise = rng.normal(0.0, 0.35, x.shape)
        counts = (DARK + GAIN * (x + noise)).astype(np.float32)
        return counts, np.repeat((y == 8).astype(np.int64), copies)

    x_train, y_train = spoil(clean.x_train, clean.y_train, 6)
    x_test, y_test = spoil(clean.x_test, clean.y_test, 25)
    return Split(x_train, y_train, x_test, y_test, ("other", "eight"))


def breast_cancer() -> Split:
    """Breast cancer (Wisconsin): float32 rows of 30 measurements; 455 to train, 114 to test.

    Source: `sklearn.datasets.load_breast_cancer`. Class 1 is benign, as there.
    """
    import numpy as np
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    return _rows(bunch.data.astype(np.float32), bunch.target, ("malignant", "benign"))


def digit_rows() -> Split:
    """The digits of `digits()` as rows of 64 pixels, float32 in 0..1, for trees."""
    d = digits()
    flat = (d.x_train.reshape(-1, 64), d.y_train, d.x_test.reshape(-1, 64), d.y_test)
    return Split(*flat, d.labels)


def iris() -> Split:
    """Iris flowers: float32 rows of 4 lengths in cm; 120 to train, 30 to test.

    Source: `sklearn.datasets.load_iris`.
    """
    import numpy as np
    from sklearn.datasets import load_iris

    bunch = load_iris()
    labels = tuple(str(name) for name in bunch.target_names)
    return _rows(bunch.data.astype(np.float32), bunch.target, labels)


def photo_files() -> list[Path]:
    """Two JPEG photographs, 640 by 427 pixels: a Chinese pavilion and a flower.

    Source: `sklearn.datasets.load_sample_images`.
    """
    import sklearn.datasets

    folder = Path(sklearn.datasets.__file__).parent / "images"
    return [folder / "china.jpg", folder / "flower.jpg"]


def photo_crops() -> Split:
    """Square pieces of the two photographs: uint8 (n, 64, 64, 3), RGB.

    Training pieces come from the left 60 % of each photograph, test pieces from the rest, so that
    no pixel is in both. Pieces are 48 to 160 pixels wide before they are resized.
    """
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(64)
    photos = [Image.open(path).convert("RGB") for path in photo_files()]

    def cut(count: int, left: float, right: float) -> tuple[Array, Array]:
        pieces, classes = [], []
        for number in range(count):
            which = number % len(photos)
            photo = photos[which]
            side = int(rng.integers(48, 161))
            x = int(rng.integers(int(left * photo.width), int(right * photo.width) - side + 1))
            y = int(rng.integers(0, photo.height - side + 1))
            piece = photo.resize(
                (CROP, CROP), Image.Resampling.BILINEAR, box=(x, y, x + side, y + side)
            )
            pieces.append(np.asarray(piece))
            classes.append(which)
        return np.stack(pieces), np.array(classes, np.int64)

    return Split(*cut(1024, 0.0, 0.6), *cut(256, 0.6, 1.0), ("china", "flower"))


def focus_files(part: Literal["train", "test"]) -> tuple[list[bytes], Array]:
    """JPEG files of square pieces of the two photographs; half of them were blurred. Which?

    Pieces are turned, mirrored, made lighter or darker. Training pieces come from the left 60 % of
    each photograph, test pieces from the rest. Where a piece shows sky or one smooth petal, nobody
    can tell: verdicts are unsure, and depend on how a picture is made smaller.

    Args:
        part: "train", 2,048 files, or "test", 200.

    Returns:
        The bytes of each file, 96 to 192 pixels wide and high; and their classes, numbers of
        `FOCUS_LABELS`, int64.
    """
    import numpy as np
    from PIL import Image, ImageFilter

    train = part == "train"
    rng = np.random.default_rng(96 if train else 97)
    photos = [Image.open(path).convert("RGB") for path in photo_files()]
    files, classes = [], []
    for number in range(2048 if train else 200):
        photo = photos[number % len(photos)]
        side = int(rng.integers(FOCUS_SIDE[0], FOCUS_SIDE[1] + 1))
        left, right = (
            (0, int(0.6 * photo.width)) if train else (int(0.6 * photo.width), photo.width)
        )
        x = int(rng.integers(left, right - side + 1))
        y = int(rng.integers(0, photo.height - side + 1))
        piece = photo.crop((x, y, x + side, y + side))
        piece = piece.transpose(Image.Transpose(int(rng.integers(len(Image.Transpose)))))
        lighter = np.asarray(piece, np.float32) * rng.uniform(0.6, 1.4)
        piece = Image.fromarray(np.minimum(lighter, 255).astype(np.uint8))
        radius, sharp = rng.uniform(*FOCUS_RADIUS) * side / CROP, int(rng.integers(2))
        if not sharp:
            piece = piece.filter(ImageFilter.GaussianBlur(radius))
        files.append(encode(np.asarray(piece), "JPEG"))
        classes.append(sharp)
    return files, np.array(classes, np.int64)


def pixels(files: list[bytes]) -> Array:
    """Decode image files with Pillow, and make them `CROP` pixels wide and high.

    Pillow's bilinear filter averages over all pixels that one pixel of the smaller picture covers.

    Returns:
        float32 (n, 3, 64, 64) in -1..1, as the photo networks take them.
    """
    import numpy as np
    from PIL import Image

    def small(file: bytes) -> Array:
        picture = Image.open(io.BytesIO(file)).convert("RGB")
        return np.asarray(picture.resize((CROP, CROP), Image.Resampling.BILINEAR))

    return normalise(np.stack([small(file) for file in files]))


def normalise(pixels: Array) -> Array:
    """uint8 pixels (n, height, width, 3) → float32 (n, 3, height, width) in -1..1."""
    import numpy as np

    scaled = pixels.astype(np.float32) / 127.5 - 1
    return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2))


def encode(image: Array, format: str = "PNG") -> bytes:
    """An image as a file's bytes, as a client would send it.

    Args:
        image: uint8 (height, width, 3), or float in 0..1 (height, width) or (1, height, width).
        format: a format that Pillow writes, e.g. "PNG" or "JPEG".
    """
    import numpy as np
    from PIL import Image

    if image.dtype != np.uint8:
        image = np.clip(image * 255, 0, 255).round().astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(image.squeeze()).save(buffer, format=format)
    return buffer.getvalue()


def languages() -> TextSplit:
    """Lists of names in sixteen languages, e.g. "Schweden, Kupfer und Mittwoch".

    The names are those of countries, languages, scripts, currencies, days and months, joined by
    the language's own word for "and" (CLDR). A name that two of the languages share is left out.
    No name of a test text is in any training text.

    Returns:
        6,400 training texts, 1,600 test texts, two to four names each; labels are CLDR codes.
    """
    import numpy as np

    rng = np.random.default_rng(16)
    names = _names()
    x: dict[str, list[str]] = {"train": [], "test": []}
    y: dict[str, list[int]] = {"train": [], "test": []}
    for number, code in enumerate(LANGUAGES):
        mine = sorted(names[code])
        order = rng.permutation(len(mine))
        held_out = len(mine) // 5
        for part, chosen, count in (
            ("test", order[:held_out], 100),
            ("train", order[held_out:], 400),
        ):
            for _ in range(count):
                words = rng.choice(chosen, size=int(rng.integers(2, 5)), replace=False)
                x[part].append(_join([mine[i] for i in words], code))
                y[part].append(number)
    shuffled = rng.permutation(len(x["train"]))
    return TextSplit(
        [x["train"][i] for i in shuffled],
        np.array(y["train"], np.int64)[shuffled],
        x["test"],
        np.array(y["test"], np.int64),
        LANGUAGES,
    )


def _rows(x: Array, y: Array, labels: tuple[str, ...]) -> Split:
    import numpy as np
    from sklearn.model_selection import train_test_split

    parts = train_test_split(x, y.astype(np.int64), test_size=0.2, random_state=0, stratify=y)
    return Split(parts[0], parts[2], parts[1], parts[3], labels)


def _names() -> dict[str, set[str]]:
    """The names in each language, without those that occur in more than one language."""
    from collections import Counter

    from babel import Locale

    names: dict[str, set[str]] = {}
    for code in LANGUAGES:
        locale = Locale(code)
        tables = (
            locale.territories,
            locale.languages,
            locale.scripts,
            locale.currencies,
            locale.days["format"]["wide"],
            locale.months["format"]["wide"],
        )
        words = {str(name) for table in tables for name in table.values()}
        names[code] = {w for w in words if len(w) >= 3 and any(c.isalpha() for c in w)}
    seen = Counter(w.casefold() for words in names.values() for w in words)
    return {code: {w for w in words if seen[w.casefold()] == 1} for code, words in names.items()}


def _join(words: list[str], code: str) -> str:
    from babel.lists import format_list

    return str(format_list(words, locale=code))
