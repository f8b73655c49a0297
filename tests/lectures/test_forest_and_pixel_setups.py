"""The setups of 07__tensorflow, 08__fil and 09__dali: what they compute, apart from drawing."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from workbook.lessons import formats
from workbook.lessons.setups import dali, fil, tensorflow
from workbook.lessons.tasks import NotYet, images, llm


def test_a_forests_config_has_its_outputs_and_parameters(tmp_path: Path) -> None:
    version = fil.write_config(
        tmp_path, "m", {"output__0": 1, "treeshap_output": 65}, threshold="0.9"
    )
    text = (tmp_path / "m/config.pbtxt").read_text()
    assert version == tmp_path / "m/1"
    assert version.is_dir()
    assert 'name: "treeshap_output" data_type: TYPE_FP32 dims: [ 65 ]' in text
    assert text.count('key: "threshold"') == 1
    assert 'string_value: "0.9"' in text


def test_what_xgboost_warns_of_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def save(file: Path) -> None:
        warnings.warn("[06:24:18] WARNING: /x/c_api.cc:1573: Saving as UBJSON.", stacklevel=1)
        file.write_bytes(b"{L")

    fil.heard(save, tmp_path / "model")
    assert capsys.readouterr().out == "Saving as UBJSON.\n"


def test_opencvs_bilinear_takes_four_pixels() -> None:
    """So it is not far from what Pillow does with more of them, and not the same."""
    pixels = dali.bilinear()
    assert pixels.shape == (200, 3, 64, 64)
    assert pixels.dtype == np.float32
    assert -1 <= pixels.min() < pixels.max() <= 1
    apart = np.abs(pixels - formats.pictures()).mean() * dali.GREYS
    assert 0.5 < apart < 5


def test_dalis_refusal_is_one_sentence() -> None:
    def make() -> object:
        raise RuntimeError('Assert on "a" failed: The input 0 is on "cpu".\nStacktrace: …')

    assert dali.refusal(make) == 'The input 0 is on "cpu".'


def test_a_reader_s_work_on_a_task_is_kept(tmp_path: Path) -> None:
    """A cell that writes a task's folder may be run again."""
    for write, file in (
        (fil.pickled, "pickled/config.pbtxt"),
        (dali.front, "front/1/dali.py"),
        (llm.assistant, "assistant/1/model.json"),
    ):
        write(tmp_path)
        (tmp_path / file).write_text("mine")
        write(tmp_path)
        assert (tmp_path / file).read_text() == "mine"


def test_a_premise_says_what_differed() -> None:
    table = pd.DataFrame({"spread": [1.0, 60.3]})
    assert "gain over one differed by a factor of 60.3" in fil.agreed(table).differs


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("--enable-gpu", "does not know the option --enable-gpu"),
        ("now", "would not take the word now"),
        ("--backend", "would not take the command: argument --backend"),
    ],
)
def test_an_option_of_compose_that_is_not_known(tmp_path: Path, more: str, said: str) -> None:
    (tmp_path / "compose.sh").write_text(f"python3 compose.py --cache local {more}")
    with pytest.raises(NotYet, match=said):
        images._parsed(tmp_path / "compose.sh")


def test_a_section_for_an_accelerator() -> None:
    assert tensorflow.accelerated("") == ""
    section = tensorflow.accelerated('{ name : "tensorrt" }')
    assert section.count("{") == section.count("}")


def test_ranking_inputs_are_padded() -> None:
    given = tensorflow.rank_inputs(3)
    assert set(given) == set(tensorflow.RANK_INPUTS)
    assert all(each.shape == (3, 128) and each.dtype == np.int32 for each in given.values())
    assert (given["input_ids"][given["input_mask"] == 0] == 0).all()
