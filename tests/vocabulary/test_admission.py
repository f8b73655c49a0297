"""Which parts of a model's folder and config are admitted, and which are not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import openvino
import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from grader.vocabulary import admission
from grader.vocabulary.failure import Failure
from tests import config_strings
from workbook.common import paths

FOREST = """\
backend: "fil"
max_batch_size: 8
input { name: "input__0" data_type: TYPE_FP32 dims: [ 3 ] }
output { name: "output__0" data_type: TYPE_FP32 dims: [ 1 ] }
parameters { key: "model_type" value { string_value: "xgboost_json" } }
parameters { key: "output_class" value { string_value: "false" } }
"""
PYTHON = 'backend: "python"\n'


def make(home: Path, name: str = "forest", config: str = FOREST, **files: str) -> Path:
    folder = home / name
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / "config.pbtxt").write_text(config)
    for place, text in (files or {"1/xgboost.json": "{}"}).items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text)
    return folder


def refused(home: Path, *backends: str, model: str = "forest") -> str:
    failure = admission.refusal(home, model, backends or ("fil",))
    return "" if failure is None else f"{failure.rationale} {failure.help}"


def test_an_ordinary_model_is_admitted(tmp_path: Path) -> None:
    folder = make(tmp_path)
    (folder / "labels.txt").write_text("no\nyes\n")
    (folder / "2").mkdir()
    (folder / "2" / ".gitkeep").touch()
    (folder / ".DS_Store").touch()
    (folder / "1" / ".ipynb_checkpoints").mkdir()
    (folder / "1" / ".ipynb_checkpoints" / "x.json").write_text("")
    assert refused(tmp_path) == ""


@pytest.mark.parametrize("name", ["forest_xgboost", "forest_sklearn", "digits_onnx", "square"])
def test_the_courses_own_models_are_admitted(tmp_path: Path, name: str) -> None:
    shutil.copytree(paths.repository() / name, tmp_path / name)
    for file in tmp_path.rglob(".weights.json"):
        file.unlink()
    assert refused(tmp_path, "fil", "onnxruntime", "python", model=name) == ""


def test_openvino_reads_onnx_and_no_weights_from_elsewhere(tmp_path: Path) -> None:
    """So a submitted file cannot hand out what else lies on the judge's disk."""
    config = 'backend: "openvino"\ndefault_model_filename: "model.onnx"\n'
    folder = make(tmp_path, "net", config, **{"1/model.onnx": ""})
    assert refused(tmp_path, "openvino", model="net") == ""
    inside, outside = folder / "1" / "weights.bin", tmp_path / "secret"
    for file in (inside, outside):
        file.write_bytes(np.float32([7]).tobytes())
    (folder / "1" / "link.bin").symlink_to(outside)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    for location in ("weights.bin", "../../secret", str(outside), "link.bin"):
        weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1])
        weight.data_location = TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", "0"), ("length", "4")):
            weight.external_data.add(key=key, value=value)
        add = helper.make_node("Add", ["x", "w"], ["y"])
        graph = helper.make_graph([add], "g", ports[:1], ports[1:], [weight])
        model = helper.make_model(graph, ir_version=9)
        (folder / "1" / "model.onnx").write_bytes(model.SerializeToString())
        if location == "weights.bin":
            openvino.Core().read_model(folder / "1" / "model.onnx")
            continue
        with pytest.raises(RuntimeError, match="outside the base directory"):
            openvino.Core().read_model(folder / "1" / "model.onnx")


@pytest.mark.parametrize(
    "place",
    [
        "libtriton_fil.so",  # Triton would load it in the place of the backend
        "1/libtriton_fil.so",
        "1/libtriton_fil.so.1",
        "1/batchstrategy.so",
        "triton_python_backend_stub",
        "1/model.py",
        "model.py",
        "1/env/bin/activate",
        "warmup/rows",
        "configs/other.pbtxt",
    ],
)
def test_files_that_the_backend_does_not_read_are_refused(tmp_path: Path, place: str) -> None:
    make(tmp_path, **{"1/xgboost.json": "{}", place: ""})
    assert "The folder of forest holds" in refused(tmp_path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    folder = make(tmp_path)
    (folder / "1" / "more.json").symlink_to("/etc/passwd")
    assert "more.json" in refused(tmp_path)
    (folder / "1" / "more.json").unlink()
    os.mkfifo(folder / "1" / "pipe.json")
    assert "pipe.json" in refused(tmp_path)


def test_more_files_than_any_model_has_are_refused(tmp_path: Path) -> None:
    folder = make(tmp_path)
    for number in range(2_000):
        (folder / f"{number}.txt").touch()
    assert "more than" in refused(tmp_path)


def test_so_many_versions_or_instances_that_loading_them_takes_minutes(tmp_path: Path) -> None:
    for version in range(2, 10):
        make(tmp_path, **{f"{version}/xgboost.json": "{}"})
    assert "holds 9 versions" in refused(tmp_path)
    two = "instance_group { count: 2 }\n"
    make(tmp_path, "busy", FOREST + two * 8)
    assert refused(tmp_path, model="busy") == ""
    make(tmp_path, "busy", FOREST + two * 8 + "instance_group { kind: KIND_CPU }\n")
    assert "asks for 17 instances" in refused(tmp_path, model="busy")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('parameters { key: "EXECUTION_ENV_PATH" value { string_value: "x" } }', "EXECUTION_ENV"),
        ('parameters { key: "treshold" value { string_value: "0.5" } }', "treshold"),
        ('runtime: "libother.so"', "'runtime'"),
        ('model_repository_agents { agents { name: "x" } }', "'model_repository_agents'"),
        ('model_operations { op_library_filename: "x.so" }', "'model_operations'"),
        ('cc_model_filenames { key: "7.5" value: "../x" }', "'cc_model_filenames'"),
        ('default_model_filename: "../../other/1/x.json"', "default_model_filename"),
        ('default_model_filename: "x.so"', "default_model_filename"),
        (
            'model_warmup { name: "w" inputs { key: "x" value { data_type: TYPE_FP32 '
            'dims: [ 1 ] input_data_file: "../../x" } } }',
            "model_warmup",
        ),
        ('output { name: "y" label_filename: "1" }', "label_filename"),
        ('batch_output { source_input: "x" }', "batch_output"),
        ('platform: "onnxruntime_onnx"', "names 'fil' and 'onnxruntime'"),
        ("input {", "cannot be read"),
        ('nonsense: "x"', "cannot be read"),
    ],
)
def test_lines_of_the_config_are_refused(tmp_path: Path, line: str, words: str) -> None:
    make(tmp_path, config=f"{FOREST}{line}\n")
    assert words in refused(tmp_path)


@pytest.mark.parametrize(
    ("config", "words"),
    [("max_batch_size: 8", "names no backend"), (PYTHON, "names 'python'"), ("", "no backend")],
)
def test_the_backend_must_be_stated_and_be_the_assignments(
    tmp_path: Path, config: str, words: str
) -> None:
    make(tmp_path, config=config)
    assert words in refused(tmp_path)


def test_no_environment_for_python_models_either(tmp_path: Path) -> None:
    line = 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "env.tar.gz" } }'
    make(tmp_path, config=PYTHON + line, **{"1/model.py": ""})
    assert "EXECUTION_ENV_PATH" in refused(tmp_path, "python")
    make(tmp_path, config=PYTHON, **{"1/model.py": "", "1/data/words.txt": ""})
    assert refused(tmp_path, "python") == ""


def test_each_step_of_an_ensemble_is_looked_at(tmp_path: Path) -> None:
    steps = "".join(f'step {{ model_name: "{name}" model_version: -1 }}' for name in ("a", "b"))
    make(tmp_path, "both", f'platform: "ensemble"\nensemble_scheduling {{ {steps} }}\n')
    (tmp_path / "both" / "1" / "xgboost.json").unlink()
    make(tmp_path, "a")
    make(tmp_path, "b", PYTHON, **{"1/model.py": ""})
    assert "b names 'python'" in refused(tmp_path, "fil", "ensemble", model="both")
    assert refused(tmp_path, "fil", "ensemble", "python", model="both") == ""
    assert "names 'ensemble'" in refused(tmp_path, "fil", model="both")


def test_an_ensemble_of_itself_ends(tmp_path: Path) -> None:
    step = 'step { model_name: "loop" model_version: -1 }'
    make(tmp_path, "loop", f'platform: "ensemble"\nensemble_scheduling {{ {step} }}\n', x="")
    (tmp_path / "loop" / "x").unlink()
    assert refused(tmp_path, "ensemble", model="loop") == ""


@pytest.mark.parametrize("backend", admission.ADMITTED)
def test_every_string_of_a_config_is_plain_or_listed_as_free_text(
    tmp_path: Path, backend: str
) -> None:
    ensemble = 'platform: "ensemble" ensemble_scheduling { step { model_name: "m" } }'
    given = ensemble if backend == "ensemble" else f'backend: "{backend}"'
    free = {*admission.FREE_TEXT}
    if backend != "ensemble":  # other models have no steps
        free = {place for place in free if not place.startswith("ensemble_scheduling")}
    if backend == "python":  # its parameters are the model's own
        free |= {"parameters.key", "parameters.value.string_value"}
    folder = make(tmp_path, "m", given, **{"1/.gitkeep": ""})
    texts = config_strings.ODD if backend == "python" else config_strings.ODD[::4]
    wrong = []
    for place in config_strings.places():
        for text in texts:
            config = text_format.Parse(given, config_strings.config())
            config_strings.put(config, place, text)
            if place == ("batch_output", "source_input"):
                config.batch_output[0].target_name.append("y")  # without a name, it ends the server
            (folder / "config.pbtxt").write_text(text_format.MessageToString(config))
            if bool(refused(tmp_path, backend, model="m")) == (".".join(place) in free):
                wrong.append((place, text))
    assert wrong == []


def test_values_of_known_parameters_are_plain(tmp_path: Path) -> None:
    make(tmp_path, config=FOREST.replace("xgboost_json", "$(id)"))
    message = refused(tmp_path)
    assert "'$(id)' in parameters.value.string_value" in message
    assert "letters A-Z a-z, digits, '.', '_' and '-' only" in message


@pytest.mark.parametrize(
    "name", ["model-00001-of-00002.safetensors", "vocab.txt", "1_Pooling", "pytorch_model.bin.json"]
)
def test_names_of_checkpoints_are_admitted(tmp_path: Path, name: str) -> None:
    files = {"1/model.py": "", f"1/{name}": "", f"1/checkpoint-500/{name}/config.json": ""}
    make(tmp_path, config=PYTHON, **files)
    assert refused(tmp_path, "python") == ""


ODD_NAMES = [text for text in config_strings.ODD if "/" not in text and text != ".."]


@pytest.mark.parametrize("name", [*ODD_NAMES, "my data.csv", "café.txt", "epoch=3.ckpt"])
@pytest.mark.parametrize("place", ["{}", "1/{}", "1/a/b/{}", "1/{}/c", "{}/c"])
def test_every_name_in_a_models_folder_is_plain(tmp_path: Path, name: str, place: str) -> None:
    make(tmp_path, config=PYTHON, **{"1/model.py": "", place.format(name): ""})
    message = refused(tmp_path, "python")
    assert "The folder of forest holds" in message
    assert "another character than those allowed" in message


@pytest.mark.parametrize("name", ODD_NAMES)
def test_the_name_of_a_model_and_of_a_step_is_plain(tmp_path: Path, name: str) -> None:
    make(tmp_path, name)
    assert "No model is named" in refused(tmp_path, model=name)
    config = text_format.Parse('platform: "ensemble"', config_strings.config())
    config_strings.put(config, ("ensemble_scheduling", "step", "model_name"), name)
    make(tmp_path, "both", text_format.MessageToString(config), **{"1/.gitkeep": ""})
    assert refused(tmp_path, "fil", "ensemble", model="both")


@pytest.mark.parametrize(
    "place", ["1/libtriton_python.so", "1/batchstrategy.so", "1/a/libx.so.1", "1/a.so/x"]
)
def test_python_models_come_without_libraries(tmp_path: Path, place: str) -> None:
    """Triton looks for the first two in a version's folder, and loads them into the server."""
    make(tmp_path, config=PYTHON, **{"1/model.py": "", place: ""})
    assert "The folder of forest holds" in refused(tmp_path, "python")
    key = "TRITON_BATCH_STRATEGY_PATH"
    line = f'parameters {{ key: "{key}" value {{ string_value: "/models/forest/1/data" }} }}'
    make(tmp_path, "other", config=PYTHON + line, **{"1/model.py": "", "1/data": ""})
    assert key in refused(tmp_path, "python", model="other")


@pytest.mark.parametrize("key", ["team", "Team_2", "2"])
def test_metric_tags_with_names_of_labels(tmp_path: Path, key: str) -> None:
    line = f'metric_tags {{ key: "{key}" value: "Bäume & co" }}\n'
    make(tmp_path, config=FOREST + line)
    assert refused(tmp_path) == ""


@pytest.mark.parametrize("name", ["..", "a/b", "/etc", ""])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path, model=name)


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_config_is_admitted_or_refused(content: bytes) -> None:
    home = paths.state("tests") / f"admission-{os.getpid()}"
    folder = home / "forest"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        (folder / "config.pbtxt").write_bytes(FOREST.encode() + content)
        failure = admission.refusal(home, "forest", ("fil",))
        assert failure is None or isinstance(failure, Failure)
    finally:
        shutil.rmtree(home)
