"""What 12__ensembles prepares: padded and packed texts, requests, and sentences on the results."""

from __future__ import annotations

import numpy as np
import pandas as pd

from workbook.lessons import units

setup = units.load(units.find("12__ensembles"), "setup")

IDS = [np.array(own, np.int64) for own in ([2, 9, 3], [2, 3], [2, 7, 8, 3])]


def test_padded_and_packed_hold_the_same_tokens() -> None:
    padded, packed = setup.padded(IDS, 5), setup.packed(IDS)
    assert padded["input_ids"].tolist() == [[2, 9, 3, 0, 0], [2, 3, 0, 0, 0], [2, 7, 8, 3, 0]]
    kept = padded["input_ids"][padded["attention_mask"] == 1]
    assert kept.tolist() == packed["input_ids"].tolist()
    assert packed["ends"].tolist() == [3, 5, 9]
    assert packed["ends"].dtype == np.int32


def test_a_request_has_one_text_in_the_form_of_its_model() -> None:
    shapes = {
        form: [{name: each.shape for name, each in r.inputs.items()} for r in made]
        for form in ("padded", "lengths", "packed")
        if (made := setup.requests(IDS, form))
    }
    assert shapes["padded"][1] == {"input_ids": (1, 64), "attention_mask": (1, 64)}
    assert shapes["lengths"][2] == {"input_ids": (1, 4), "attention_mask": (1, 4)}
    assert shapes["packed"][0] == {"input_ids": (1, 3)}


def test_the_option_that_was_seen() -> None:
    assert setup.how_many(1, IDS) == "1"
    assert setup.how_many(2, IDS) == "a few"
    assert setup.how_many(3, IDS) == "one per length, or more"
    assert setup.who([3]) == "only the fourth text"
    assert setup.who(range(8)) == "all eight"
    assert setup.who([2, 3]).startswith("all that shared")
    rates = pd.Series({"the ensemble": 300.0, "BLS, one instance": 290.0})
    assert setup.fastest(rates).startswith("all alike")
    assert setup.fastest(rates * [1, 2]) == "BLS, one instance"
    assert setup.fastest(rates * [2, 1]) == "the ensemble"


def test_texts_are_of_all_languages_and_not_blank() -> None:
    texts = setup.texts(32)
    assert len(set(texts)) == 32
    assert all(text.strip() for text in texts)
    assert setup.as_text(texts).shape == (32, 1)
    assert [r.id for r in setup.plan(texts[:2], name="b")] == ["b1", "b2"]
