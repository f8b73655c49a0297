"""What 07__tensorflow prepares: a config's section, and inputs."""

from __future__ import annotations

import numpy as np

from workbook.lessons import units

setup = units.load(units.find("07__tensorflow"), "setup")


def test_a_section_for_an_accelerator() -> None:
    assert setup.accelerated("") == ""
    section = setup.accelerated('{ name : "tensorrt" }')
    assert section.count("{") == section.count("}")


def test_ranking_inputs_are_padded() -> None:
    given = setup.rank_inputs(3)
    assert set(given) == set(setup.RANK_INPUTS)
    assert all(each.shape == (3, 128) and each.dtype == np.int32 for each in given.values())
    assert (given["input_ids"][given["input_mask"] == 0] == 0).all()
