"""What 09__dali computes and reads."""

from __future__ import annotations

import numpy as np

from workbook.lessons import formats, units

setup = units.load(units.find("09__dali"), "setup")


def test_opencvs_bilinear_takes_four_pixels() -> None:
    """So its result is close to Pillow's, which uses more pixels, but not equal."""
    pixels = setup.bilinear()
    assert pixels.shape == (200, 3, 64, 64)
    assert pixels.dtype == np.float32
    assert -1 <= pixels.min() < pixels.max() <= 1
    apart = np.abs(pixels - formats.pictures()).mean() * setup.GREYS
    assert 0.5 < apart < 5


def test_dalis_refusal_is_one_sentence() -> None:
    def make() -> object:
        raise RuntimeError('Assert on "a" failed: The input 0 is on "cpu".\nStacktrace: …')

    assert setup.serialize_error(make) == 'The input 0 is on "cpu".'
