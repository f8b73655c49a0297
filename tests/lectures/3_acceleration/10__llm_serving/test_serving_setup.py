"""What 10__llm_serving deduces of static batches, and what it reads from a GPU's record."""

from __future__ import annotations

import pandas as pd
import pytest

from workbook.lessons import units

setup = units.load(units.find("10__llm_serving"), "setup")
llama_page = units.load(units.find("10__llm_serving"), "llama_page")


def answers(*rows: tuple[float, float, float, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["sent", "first", "end", "tokens"])


def test_answers_that_end_together_were_one_batch() -> None:
    run = answers((0, 2, 2, 10), (0.1, 2.01, 2.01, 20), (2.02, 3, 3, 5))
    assert setup.batches(run)["rows"].to_list() == [2, 1]
    table = setup.computed(run, batched=True)
    assert table["begin"].to_list() == [0.1, 0.1, pytest.approx(2.02)]
    assert table["useful"][0] == pytest.approx(1.05)  # half of the batch's tokens
    assert table["useful"][1] == pytest.approx(2.01)


def test_one_at_a_time_a_request_waits_for_those_before() -> None:
    table = setup.computed(answers((0, 1, 1, 4), (0, 1.04, 1.04, 4), (0, 3, 3, 4)))
    assert table["begin"].to_list() == [0, 1, 1.04]
    assert (table["useful"] == table["end"]).all()


def test_a_streamed_answer_begins_with_its_first_token() -> None:
    table = setup.computed(answers((0, 0.5, 2, 4), (0, 0.6, 2.01, 4)))
    assert table["begin"].to_list() == [0.5, 0.6]
    assert (table["useful"] == table["end"]).all()


def test_the_two_best_measurements_agree() -> None:
    def row(one: float, two: float) -> pd.Series[float]:
        return pd.Series({"one": one, "two": two})

    assert setup.repeated([row(10, 20), row(3, 19), row(11, 5)])
    found = setup.repeated([row(10, 20), row(3, 9), row(11, 5)])
    assert not found
    assert "measurements of two" in found.differs


def test_a_gpu_s_record_is_read() -> None:
    device, rates = llama_page.recorded()
    assert "H100" in device
    assert set(rates) >= {"one", "two", "static"}
    with_vllm = """
- date: 2027-01-02 03:04 UTC
- device: NVIDIA L4, 580, 23034 MiB
| the Llama page's ratios | yes | 100 tokens/s alone; two instances ×1.2 (published ×1.5), batches \
of 8 ×4.0 (published ×6.3), vLLM ×2.5 over batches of 8 (published ×5.5) |
"""
    assert llama_page.recorded(with_vllm) == (
        "NVIDIA L4, 2027-01-02", {"one": 100, "two": 120, "static": 400, "engine": 1000},
    )  # fmt: skip
    assert llama_page.recorded("") == ("no GPU recorded", {})


def test_the_table_has_gains_and_gaps() -> None:
    rates = pd.Series(
        {"one": 50.0, "two": 90.0, "static": 200.0, "engine alone": 50.0, "engine": 300.0}
    )
    table = llama_page.table(rates)
    assert table.shape == (5, 3)
    assert table.iloc[2, 0] == "66.5 (×6.3)"
    assert table.iloc[4, 1] == "300 (×6.0)"
