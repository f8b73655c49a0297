"""Installing the weights in one step: what is missing, and what has changed; and the configs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from workbook import zoo
from workbook.common import paths
from workbook.server import all_models
from workbook.zoo.builder import BuildError
from workbook.zoo.repository import LLAMAS, MODELS

pytestmark = pytest.mark.server

HOME = paths.root() / "model_repository"


def test_a_new_repository_gets_config_and_weights(tmp_path: Path) -> None:
    target = tmp_path / "models"
    assert zoo.repository.build(target, ["forest_xgboost", "language"]) == [
        "forest_xgboost",
        "language",
    ]
    model = target / "forest_xgboost"
    assert (model / "config.pbtxt").read_text() == (HOME / model.name / "config.pbtxt").read_text()
    assert (model / "1/xgboost.json").read_bytes() == zoo.checkpoint("cancer_xgboost").read_bytes()
    assert (target / "language/1").is_dir()
    assert sorted(p.name for p in target.iterdir()) == ["forest_xgboost", "language"]


def test_a_second_build_changes_nothing_and_imports_nothing(tmp_path: Path) -> None:
    zoo.repository.build(tmp_path)
    code = (
        "import sys, pathlib, time\nfrom workbook import zoo\nbegan = time.perf_counter()\n"
        f"changed = zoo.repository.build(pathlib.Path({str(tmp_path)!r}))\n"
        "took = time.perf_counter() - began\n"
        "heavy = {'numpy', 'torch', 'sklearn', 'rich', 'httpx'} & set(sys.modules)\n"
        "print(changed, sorted(heavy), took < 0.5)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] [] True"


@pytest.mark.parametrize("harm", ["weights gone", "record gone", "record broken", "other key"])
def test_what_is_missing_or_stale_is_put_back(tmp_path: Path, harm: str) -> None:
    zoo.repository.build(tmp_path, ["digits_onnx", "square"])
    folder = tmp_path / "digits_onnx"
    record = folder / ".weights.json"
    if harm == "weights gone":
        (folder / "2/model.onnx").unlink()
    elif harm == "record gone":
        record.unlink()
    elif harm == "record broken":
        record.write_text('{"1/model')
    else:
        record.write_text(json.dumps(json.loads(record.read_text()) | {"1/model.onnx": "0" * 16}))
    assert zoo.repository.build(tmp_path, ["digits_onnx", "square"]) == ["digits_onnx"]
    for file, name in MODELS["digits_onnx"].items():
        assert (folder / file).read_bytes() == zoo.checkpoint(name).read_bytes()


def test_a_student_s_own_config_stays(tmp_path: Path) -> None:
    zoo.repository.build(tmp_path, ["digits_torch"])
    config = tmp_path / "digits_torch/config.pbtxt"
    config.write_text(config.read_text() + "# mine\n")
    assert zoo.repository.build(tmp_path, ["digits_torch"], force=True) == ["digits_torch"]
    assert config.read_text().endswith("# mine\n")


def test_folders_replace_folders_whole(tmp_path: Path) -> None:
    zoo.repository.build(tmp_path, ["digits_tf"])
    stray = tmp_path / "digits_tf/1/model.savedmodel/stray"
    stray.touch()
    zoo.repository.build(tmp_path, ["digits_tf"], force=True)
    assert not stray.exists()
    assert (tmp_path / "digits_tf/1/model.savedmodel/saved_model.pb").is_file()


def test_a_hub_checkpoint_is_put_in_place_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub's own layout on this disk stands in for the network."""
    hub, target = tmp_path / "hub", tmp_path / "models"
    snapshot = hub / "models--someone--digits" / "snapshots" / "abc"
    shutil.copytree(zoo.checkpoint("image_classifier"), snapshot)
    (snapshot / "README.md").write_text("from the hub")
    (snapshot.parent.parent / "refs").mkdir()
    (snapshot.parent.parent / "refs/main").write_text("abc")
    code = (
        "import pathlib; from workbook import zoo\n"
        f"target = pathlib.Path({str(target)!r})\n"
        "print(zoo.repository.build(target, ['image_classifier'],\n"
        "    hub={'image_classifier': 'someone/digits'}))\n"
        "print(zoo.repository.build(target, ['image_classifier']))"
    )
    monkeypatch.setenv("HF_HUB_CACHE", str(hub))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['image_classifier']", "[]"]
    readme = target / "image_classifier/1/checkpoint/README.md"
    assert readme.read_text() == "from the hub"
    zoo.repository.build(target, ["image_classifier"], force=True)
    assert not readme.exists()


def test_names_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="no demonstration model called 'digit_onnx'"):
        zoo.repository.build(tmp_path, ["digit_onnx"])
    with pytest.raises(BuildError, match="not a Hugging Face checkpoint"):
        zoo.repository.build(tmp_path, ["square"], hub={"square": "someone/digits"})


# -- what is committed -----------------------------------------------------------------------------


def test_only_configs_labels_and_python_are_kept_in_git() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "model_repository"],
        cwd=paths.root(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert listed
    committed = {"config.pbtxt", "labels.txt", "model.py"}
    assert {Path(file).name for file in listed} - {"model.json"} <= committed
    # An engine's arguments are no weights.
    assert [file for file in listed if file.endswith(".json")] == [
        "model_repository/llama_vllm/1/model.json"
    ]


@pytest.mark.parametrize("model", [*MODELS, *LLAMAS])
def test_configs_are_portable(model: str) -> None:
    """They load in the GPU container too: the kind is left open, the number of instances is not."""
    text = re.sub(r"#.*", "", (HOME / model / "config.pbtxt").read_text())
    assert not re.search(r"\bruntime\b", text)
    kinds = set(re.findall(r"KIND_[A-Z]+", text)) - {"KIND_CPU"}
    assert kinds == ({"KIND_MODEL"} if model == "llama_vllm" else set())  # vLLM chooses devices
    if "KIND_CPU" in text:
        assert re.search(r'backend: "(python|openvino)"', text)
    if "ensemble" not in text:
        assert re.search(r"instance_group \{ count: 1\b", text)


def test_labels_are_the_classes_of_the_models() -> None:
    languages = (HOME / "language_labels/labels.txt").read_text().split()
    assert tuple(languages) == zoo.data.LANGUAGES
    for model in ("digits_onnx", "digits_torch", "digits_openvino", "digits_tf"):
        assert (HOME / model / "labels.txt").read_text().split() == [str(d) for d in range(10)]


def test_models_that_share_a_file_have_a_copy_each(tmp_path: Path) -> None:
    """A model's folder is complete by itself, because the container does not have the course."""
    source = paths.package() / "llm" / "sampling.py"
    for model in ("llama_hf", "llama_stream", "chat_bls"):
        shutil.copytree(
            HOME / model,
            tmp_path / model,
            ignore=shutil.ignore_patterns("checkpoint", "sampling.py"),
        )
        assert "1/sampling.py" in zoo.repository.LLAMAS[model]
        parts = {"1/sampling.py": zoo.repository.LLAMAS[model]["1/sampling.py"]}
        zoo.repository._renew(
            tmp_path / model, {f: zoo.repository._artefact(s) for f, s in parts.items()}, {}
        )
        assert (tmp_path / model / "1" / "sampling.py").read_bytes() == source.read_bytes()
    assert "workbook" not in {
        line.split()[1].split(".")[0]
        for line in source.read_text().splitlines()
        if line.startswith(("import ", "from "))
    }


def test_a_language_model_says_what_it_lacks(tmp_path: Path) -> None:
    shutil.copytree(
        HOME / "chat_bls",
        tmp_path / "chat_bls",
        ignore=shutil.ignore_patterns("*.json", "sampling.py"),
    )
    shutil.copytree(HOME / "square", tmp_path / "square")
    assert zoo.repository.lacking(tmp_path / "chat_bls") == "workbook models llama"
    assert zoo.repository.lacking(tmp_path / "square") == ""
    assert all_models.names(tmp_path) == ["square"]
    for file in zoo.repository.LLAMAS["chat_bls"]:
        (tmp_path / "chat_bls" / file).touch()
    assert all_models.names(tmp_path) == ["chat_bls", "square"]
