"""The data sets: the same each time, split without overlap, of the shapes they promise."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from workbook.zoo import data

SPLITS = [
    data.digits,
    data.noisy_eights,
    data.breast_cancer,
    data.digit_rows,
    data.iris,
    data.photo_crops,
]


@pytest.mark.parametrize("load", SPLITS, ids=lambda f: f.__name__)
def test_arrays_are_the_same_each_time_and_fit_each_other(load: Callable[[], data.Split]) -> None:
    one, two = load(), load()
    for part in ("x_train", "y_train", "x_test", "y_test"):
        np.testing.assert_array_equal(getattr(one, part), getattr(two, part))
    assert len(one.x_train) == len(one.y_train)
    assert len(one.x_test) == len(one.y_test)
    assert one.x_test.shape[1:] == one.x_train.shape[1:]
    assert one.y_train.dtype == one.y_test.dtype == np.int64
    assert set(one.y_test) == set(one.y_train) == set(range(len(one.labels)))


@pytest.mark.parametrize("load", [data.digits, data.breast_cancer], ids=lambda f: f.__name__)
def test_nothing_to_test_is_in_what_is_learnt(load: Callable[[], data.Split]) -> None:
    split = load()
    learnt = {row.tobytes() for row in split.x_train}
    assert not any(row.tobytes() in learnt for row in split.x_test)


def test_noisy_eights_are_counts_of_which_a_tenth_are_eights() -> None:
    split = data.noisy_eights()
    assert split.x_test.shape == (9000, 1, 8, 8)
    assert split.x_test.dtype == np.float32
    assert 900 < split.x_test.min() < split.x_test.max() < 1200
    assert 0.09 < split.y_test.mean() < 0.11


def test_texts_name_things_in_their_own_language_and_share_no_name() -> None:
    one, two = data.languages(), data.languages()
    assert one.x_train == two.x_train
    assert one.x_test == two.x_test
    assert (len(one.x_train), len(one.x_test)) == (6400, 1600)
    for code, word in (("ja", "、"), ("ru", " и "), ("de", " und "), ("es", " y ")):
        texts = [t for t, y in zip(one.x_test, one.y_test, strict=True) if one.labels[y] == code]
        assert sum(word in text for text in texts) > 60
    assert not set(one.x_train) & set(one.x_test)


def test_photo_crops_to_test_come_from_another_part_of_the_photographs() -> None:
    split = data.photo_crops()
    assert split.x_test.shape == (256, 64, 64, 3)
    assert split.x_test.dtype == np.uint8
    normal = data.normalise(split.x_test[:4])
    assert normal.shape == (4, 3, 64, 64)
    assert normal.dtype == np.float32
    assert -1 <= normal.min() < normal.max() <= 1
    np.testing.assert_allclose(
        (normal[0].transpose(1, 2, 0) + 1) * 127.5, split.x_test[0], atol=1e-4
    )


def test_encode_makes_a_file_that_decodes_to_the_same_pixels() -> None:
    digit = data.digits().x_test[0]
    decoded = np.asarray(Image.open(io.BytesIO(data.encode(digit))))
    np.testing.assert_array_equal(decoded, (digit[0] * 255).round().astype(np.uint8))
    crop = data.photo_crops().x_test[0]
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data.encode(crop)))), crop)
    assert Image.open(io.BytesIO(data.encode(crop, "JPEG"))).format == "JPEG"
