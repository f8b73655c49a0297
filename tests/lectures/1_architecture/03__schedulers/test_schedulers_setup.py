"""How 03__schedulers classifies the answers of a decoupled model."""

from __future__ import annotations

import json

from workbook.lessons import units

setup = units.load(units.find("03__schedulers"), "setup")

EVENTS = (
    'data: {"count":2,"model_name":"countdown"}\n\ndata: {"count":1,"model_name":"countdown"}\n'
)


def answer(*data: int) -> str:
    return json.dumps({"outputs": [{"name": "count", "data": data}]})


def test_each_kind_of_answer_is_an_option_of_the_question() -> None:
    assert setup.what_came(501, '{"error":"decoupled"}') == "an error"
    assert setup.what_came(200, answer(5)) == "the first number"
    assert setup.what_came(200, answer(5, 4)) == "one answer with all numbers"


def test_a_model_that_is_not_there_shows_nothing() -> None:
    assert setup.found(501)
    assert not setup.found(404)


def test_events_become_numbers() -> None:
    assert setup.numbers(EVENTS) == [2, 1]
