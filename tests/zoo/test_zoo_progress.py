"""What is being built: other processes see it, and ignore what an ended process left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workbook import zoo
from workbook.lab.background import BackgroundBuild
from workbook.server import Triton, all_models
from workbook.zoo import progress, repository

pytestmark = pytest.mark.server

BUILDER = """
import sys, time
from pathlib import Path
from workbook.zoo import progress
with progress.published(Path(sys.argv[1]), ["one", "two"]) as table:
    table.started(["two"])
    print("published", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for everything that is built."""
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    monkeypatch.delenv("TRITON_REPOSITORY", raising=False)
    return tmp_path


def test_what_a_process_builds_is_seen_until_it_ends(home: Path) -> None:
    models = home / "model_repository"
    builder = subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(models)], stdout=subprocess.PIPE, text=True
    )
    assert builder.stdout is not None
    assert builder.stdout.readline() == "published\n"
    assert zoo.building() == {"one": "waiting", "two": "building"}
    assert zoo.building(home / "another") == {}
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    assert zoo.building() == {}
    assert list((home / ".workbook/building").iterdir()) == []


def test_two_builders_are_both_seen_and_what_is_done_is_not(home: Path) -> None:
    models = home / "model_repository"
    with progress.published(models, ["one", "two"]) as first:
        with progress.published(models, ["three"]) as second:
            first.done("one")
            second.started(["three"])
            assert zoo.building() == {"two": "waiting", "three": "building"}
        assert zoo.building() == {"two": "waiting"}
    assert zoo.building() == {}


def test_a_model_is_ready_when_it_is_in_place_and_an_ensemble_after_its_models(
    tmp_path: Path,
) -> None:
    ready: list[str] = []
    coming: list[dict[str, str]] = []

    def record(model: str) -> None:
        assert not repository.lacking(tmp_path / model)
        assert (tmp_path / model / "1").is_dir()
        ready.append(model)
        coming.append(dict(zoo.building(tmp_path)))

    wanted = ["language", "language_onnx", "language_tokenizer", "language_labels", "square"]
    assert repository.build(tmp_path, wanted, ready=record, bar=False) == wanted
    assert sorted(ready) == sorted(wanted)
    assert ready[-1] == "language"
    assert [len(models) for models in coming] == [4, 3, 2, 1, 0]


def test_models_are_built_behind_the_server_and_loaded_as_they_are_ready(
    server: Triton, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_REPOSITORY", str(server.repository))
    wanted = {name: repository.MODELS[name] for name in ("square", "digits_onnx")}
    monkeypatch.setattr(repository, "MODELS", wanted)
    sentences: list[str] = []
    complaints: list[Exception] = []
    with BackgroundBuild(server, say=sentences.append, complain=complaints.append):
        deadline = time.monotonic() + 240
        while not any("All models" in sentence for sentence in sentences):
            assert not complaints
            assert time.monotonic() < deadline, sentences
            time.sleep(0.05)
    assert server.ready("square")
    assert server.ready("digits_onnx")
    assert {"square is built, and ready.", "digits_onnx is built, and ready."} < set(sentences)


def test_the_status_tells_what_is_still_being_built(server: Triton) -> None:
    with progress.published(server.repository, ["digits_tf", "jpeg_dali"]) as table:
        table.started(["digits_tf"])
        states = {model.name: model.state for model in all_models.status(server)}
        assert states.items() >= {"digits_tf": "building", "jpeg_dali": "waiting"}.items()
    assert "jpeg_dali" not in {model.name for model in all_models.status(server)}


def test_a_demonstration_model_without_its_weights_is_not_loaded_with_all_others(
    home: Path,
) -> None:
    folder = home / "model_repository" / "text_classifier"
    (folder / "1").mkdir(parents=True)
    assert repository.lacking(folder) == "workbook models text_classifier"
    assert all_models.names(folder.parent) == []
    (folder / "1/checkpoint").mkdir()
    assert repository.lacking(folder) == ""
