"""What 11__llm_backends uses: the document's configs and commands, folders, asking and counting."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pandas as pd
import pytest

from workbook import zoo
from workbook.common.errors import LoadError
from workbook.lessons import units
from workbook.server import Triton
from workbook.server.explain import explain
from workbook.server.pbtxt import parse

setup = units.load(units.find("11__llm_backends"), "setup")
documents = units.load(units.find("11__llm_backends"), "documents")
measured = units.load(units.find("11__llm_backends"), "measured")

needs_vllm = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None,
    reason="vLLM is not installed: run `make vllm`, or `make test ALL=yes`",
)
PRINTED = [
    (setup.HERE / name / "config.as_printed.pbtxt").read_text("utf-8")
    for name in ("vllm_model", "trt_llm_model")
]
GREEDY = {"max_tokens": 12, "temperature": 0, "ignore_eos": True}

# -- the document, and today -----------------------------------------------------------------------


@pytest.mark.parametrize("printed", PRINTED)
def test_a_printed_config_gets_its_braces(printed: str) -> None:
    assert parse(printed).problems
    config = parse(documents.closed(printed))
    assert not config.problems


def test_tensors_are_taken_out_of_a_config() -> None:
    left = documents.without_tensors(documents.closed(PRINTED[0]))
    assert "input_text" not in left
    assert "output_text" not in left
    assert left.count("parameters") == 3
    assert not parse(left).problems


def test_each_option_of_the_document_is_explained() -> None:
    table = documents.build()
    assert list(table.index) == [
        "--hf-model", "--engine", "--max-seq-len", "--precision", "--batch-size",
    ]  # fmt: skip
    assert not (table == "?").any(axis=None)
    assert set(table["trtllm-build 0.14 has it"]) == {"no"}
    real = documents.build("trtllm-build --max_seq_len=512")
    assert real.loc["--max_seq_len", "trtllm-build 0.14 has it"] == "yes"


def test_the_comparison_keeps_the_document_s_rows() -> None:
    assert documents.compared().shape == (11, 3)


@needs_vllm
def test_the_engine_arguments_are_those_of_the_installed_vllm() -> None:
    from vllm.engine.arg_utils import AsyncEngineArgs

    fields = {field.name: field.default for field in dataclasses.fields(AsyncEngineArgs)}
    assert {"max_model_len", "max_num_seqs", "disable_log_stats"} <= set(fields)
    assert fields["gpu_memory_utilization"] == 0.92


def test_the_second_best_round_counts() -> None:
    rounds = pd.DataFrame({"served": [100.0, 20.0, 90.0], "in-process": [50.0, 50.0, 50.0]})
    assert measured.repeated(rounds)
    rounds.loc[2, "served"] = 60.0
    assert "'served'" in str(measured.repeated(rounds))


def test_the_steps_are_those_of_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "has_vllm", lambda: True)
    monkeypatch.setattr(setup, "place_weights", lambda models: None)
    text = PRINTED[0]
    for change in documents.steps(tmp_path, "narrow", max_model_len=200).values():
        text = change(text)
    assert not parse(text).problems
    assert "name:" not in text
    assert text.count("parameters") == 4
    assert json.loads((tmp_path / "narrow/1/model.json").read_text())["max_model_len"] == 200


# -- folders ---------------------------------------------------------------------------------------


@pytest.mark.server
def test_a_folder_has_the_two_files_and_the_weights_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Path
) -> None:
    monkeypatch.setattr(setup, "has_vllm", lambda: True)
    setup.write_model(tmp_path)
    setup.write_model(tmp_path, "narrow", max_model_len=64)
    assert 'backend: "vllm"' in (tmp_path / "vllm_model/config.pbtxt").read_text()
    arguments = json.loads((tmp_path / "narrow/1/model.json").read_text())
    assert (arguments["model"], arguments["max_model_len"]) == ("vllm_model/1/checkpoint", 64)
    assert (tmp_path / "vllm_model/1/checkpoint/config.json").is_file()
    assert not (tmp_path / "narrow/1/checkpoint").exists()
    assert not (tmp_path / "vllm_model/1/model.py").exists()


# -- served: Transformers in vLLM's place ----------------------------------------------------------


@pytest.fixture(scope="module")
def tiny() -> Iterator[Path]:
    """The lecture's weights are those of the tests' Llama."""
    place = zoo.checkpoint("llama_tiny")
    patch = pytest.MonkeyPatch()
    patch.setattr(setup, "weights", lambda: place)
    yield place
    patch.undo()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Iterator[Triton]:
    models = tmp_path_factory.mktemp("models")
    patch = pytest.MonkeyPatch()
    patch.setattr(setup, "has_vllm", lambda: False)
    setup.write_model(models)
    setup.write_model(models, "narrow", max_model_len=128, max_num_seqs=1)
    setup.write_model(models, "uncounted", disable_log_stats=True)
    setup.write_model(models, "parts", max_num_batched_tokens=2)
    setup.write_model(models, "mistaken", max_num_sequences=2)
    setup.write_model(models, "long", max_model_len=4096)
    with Triton(models) as server:
        for name in ("vllm_model", "narrow", "uncounted", "parts"):
            server.load(name)
        yield server
    patch.undo()


@pytest.mark.server
def test_without_vllm_the_config_is_filled_in_as_with_it(lab: Triton) -> None:
    config = lab.config("vllm_model")
    assert (config["backend"], config["max_batch_size"]) == ("python", 0)
    assert config["model_transaction_policy"]["decoupled"]
    assert len(config["input"]) == 9
    assert len(config["output"]) == 6


@pytest.mark.server
def test_without_vllm_the_answers_are_transformers_own(lab: Triton, tiny: Path) -> None:
    expected = generate(tiny, "A list is not a set", 12)
    for name in ("vllm_model", "parts"):  # `parts` reads the prompt two tokens a step
        answer = setup.generate(lab, name, "A list is not a set", **GREEDY)
        assert answer["text"] == expected
        assert (answer["out"], answer["reason"]) == (12, "length")


def generate(weights: Path, prompt: str, tokens: int) -> str:
    """Write the likeliest tokens after a prompt, by Transformers in this process."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    words = AutoTokenizer.from_pretrained(weights)
    network = AutoModelForCausalLM.from_pretrained(weights).eval()
    given = words([prompt], return_tensors="pt")
    with torch.inference_mode():
        found = network.generate(
            **given, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False,
            pad_token_id=words.pad_token_id,
        )  # fmt: skip
    written: str = words.decode(found[0, given["input_ids"].shape[1] :], skip_special_tokens=True)
    return written


@pytest.mark.server
def test_tokens_are_counted_where_the_config_asks_for_it(lab: Triton) -> None:
    for name, more in (("vllm_model", 12), ("uncounted", 0)):
        before = measured.count(lab, name, "generation_tokens_total")
        setup.generate(lab, name, "A list is", **GREEDY)
        after = measured.count(lab, name, "generation_tokens_total", least=before + more)
        assert after - before == more


@pytest.mark.server
def test_max_num_seqs_bounds_what_is_computed_together(lab: Triton) -> None:
    assert measured.most_running(lab, "narrow", 96) == 1
    assert measured.most_running(lab, "vllm_model", 96) > 1


@pytest.mark.server
@pytest.mark.parametrize(
    ("model", "said"),
    [("mistaken", 'Write "max_num_seqs"'), ("long", "Write at most 512")],
)
def test_a_wrong_engine_argument_is_explained(lab: Triton, model: str, said: str) -> None:
    with pytest.raises(LoadError) as caught:
        lab.load(model)
    assert said in caught.value.todo, str(caught.value)
    assert caught.value.where == "1/model.json"


#: Request → the entry of the catalogue that explains it. The tests in tests/server name all.
WRONG: list[tuple[str, dict[str, object], str]] = [
    ("sampling-unknown", {"max_token": 8}, 'Write "max_tokens"'),
    ("sampling-value", {"temperature": "hot"}, "Give temperature another value"),
    ("sampling-value", {"max_tokens": 0}, "Give max_tokens another value"),
    ("prompt-too-long", {"max_tokens": 8}, "Send a shorter prompt"),
]


@pytest.mark.server
@pytest.mark.parametrize(("rule", "sampling", "said"), WRONG)
def test_a_wrong_request_is_explained(
    lab: Triton, rule: str, sampling: dict[str, object], said: str
) -> None:
    prompt = setup.long_prompt(600 if rule == "prompt-too-long" else 3)
    error = setup.generate(lab, "vllm_model", prompt, **sampling)["error"]
    explained = explain(error, lab, "vllm_model")
    assert explained.rule == rule  # type: ignore[attr-defined]
    assert said in explained.todo


@pytest.mark.server
@pytest.mark.parametrize(
    ("rule", "fields"),
    [
        ("sampling-not-json", {"sampling_parameters": "{"}),
        ("sampling-not-json", {"sampling_parameters": "[]"}),
        ("streaming-with-prompt", {"stream": True, "exclude_input_in_output": False}),
    ],
)
def test_wrong_inputs_are_explained(lab: Triton, rule: str, fields: dict[str, object]) -> None:
    url = f"{lab.url}/v2/models/vllm_model/generate"
    answer = httpx.post(url, json={"text_input": "A list", **fields}, timeout=60).json()
    explained = explain(answer["error"], lab, "vllm_model")
    assert explained.rule == rule, str(explained)  # type: ignore[attr-defined]
