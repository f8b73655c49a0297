"""What 07__cache takes for a measurement, and what it says without a redis library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from workbook.lessons import units

setup = units.load(units.find("07__cache"), "setup")


def test_pictures_that_were_sent_before_spoil_the_hit_rates() -> None:
    repeated = [1.5, 40.25, 71.75, 93.5]
    assert setup.fresh([6, 161, 283, 365, 400], repeated)  # the last run repeats the fourth
    known = setup.fresh([6, 400, 283, 365, 400], repeated)
    assert not known
    assert "400 requests were hits, and only 161 pictures came twice" in known.differs


def test_runs_without_a_cache_agree() -> None:
    assert setup.alike(pd.DataFrame({"before": [300, 340, 416, 384, 424]}))
    assert not setup.alike(pd.DataFrame({"before": [100, 340, 416, 384, 424]}))


def test_one_slow_repetition_is_no_harm() -> None:
    assert setup.repeats([0.5, 1.8, 0.52], [8.0, 6.9, 7.4])
    assert not setup.repeats([0.5, 1.8, 1.9], [8.0, 6.9, 7.4])


@pytest.mark.server  # in a fresh clone the network is trained first, in a process
def test_a_thumbnail_is_every_16th_pixel(tmp_path: Path) -> None:
    import onnxruntime as ort

    (tmp_path / "batched/1").mkdir(parents=True)
    (tmp_path / "thumbnail").mkdir()
    setup.prepare(tmp_path)
    photo = np.random.default_rng(0).random((3, 512, 512), np.float32)
    session = ort.InferenceSession(str(tmp_path / "thumbnail/1/model.onnx"))
    (small,) = session.run(None, {"photo": photo})
    assert np.array_equal(small, photo[:, ::16, ::16])
    assert np.load(tmp_path / "pictures.npy").shape == (200, 3, 64, 64)


@pytest.mark.server
def test_without_its_library_triton_has_no_redis_cache(capsys: pytest.CaptureFixture[str]) -> None:
    setup.redis()
    assert "no response cache called redis" in capsys.readouterr().out
