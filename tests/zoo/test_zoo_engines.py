"""TensorRT plans: what can be known without a GPU.

The int8 network is run by ONNX Runtime. The names that the code takes from TensorRT's Python API
are looked up in NVIDIA's own bindings, 10.4 (of October 2024, as Triton's 24.10) and 11.4. The
bindings are imported with empty stand-ins for TensorRT's libraries, which need a GPU: so every
class exists, but nothing can be built. Whether TensorRT builds the plans is not verified on a GPU.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.wheels import unpack
from workbook import zoo
from workbook.common import paths
from workbook.zoo import data, engines, recipe, repository
from workbook.zoo.builder import BuildError

IMAGE = {"image": (1, 8, 8)}
#: The symbols of TensorRT's libraries that the bindings need when they are imported.
STUBS = "\n".join(
    f"void *{name}(void) {{ return 0; }}"
    for name in (
        "createInferBuilder_INTERNAL",
        "createInferRefitter_INTERNAL",
        "createInferRuntime_INTERNAL",
        "createNvOnnxParserRefitter_INTERNAL",
        "createNvOnnxParser_INTERNAL",
        "getBuilderPluginRegistry",
        "getNvOnnxParserVersion",
        "getPluginRegistry",
        "initLibNvInferPlugins",
    )
)
#: Version → the hashes of its wheels for Python 3.11 and 3.12.
BINDINGS = {
    "10.4.0": (
        "451492cebb48b2d088db20a3fd524df64e87bb911428fd1eb5979698d854b6f1",
        "133bb774f38ca43420bcc5d40f8fba9acc24c7ed5a985f79f57bf720151acf62",
    ),
    "11.4.0.106": (
        "e2ab48f316bbff6a7a44a30e94a9ceb0d2cf6645ff39feadecfa68d7cb7a94bf",
        "6490518c9e072d57e0a815ad80b103596933efe776ffa61766ef31c25dbd8b39",
    ),
}
#: Source file → where its use of TensorRT begins, and the TensorRT class of each name there.
USES = {
    "workbook/zoo/engines.py": (
        "def _by_python",
        {
            "trt": "",
            "builder": "Builder.",
            "parser": "OnnxParser.",
            "profile": "IOptimizationProfile.",
            "config": "IBuilderConfig.",
        },
    ),
    "workbook/backends/tensorrt/model.py": (
        "class TritonPythonModel",
        {
            "tensorrt": "",
            "engine": "ICudaEngine.",
            "self._engine": "ICudaEngine.",
            "context": "IExecutionContext.",
        },
    ),
}
#: Method → its parameters, as the bindings' documentation writes them, types left out.
SIGNATURES = {
    "Builder.create_network": ["flags"],
    "Builder.build_serialized_network": ["network", "config"],
    "OnnxParser.parse_from_file": ["model"],
    "OnnxParser.get_error": ["index"],
    "IOptimizationProfile.set_shape": ["input", "min", "opt", "max"],
    "IBuilderConfig.set_memory_pool_limit": ["pool", "pool_size"],
    "IBuilderConfig.add_optimization_profile": ["profile"],
}
#: trtexec's options that we use. Documentation and published command lines of TensorRT 10 and 11
#: show them. (NVIDIA's page on the change from 10 to 11 lists --fp16, --int8 and --calib as gone.)
DOCUMENTED = {
    "--onnx",
    "--saveEngine",
    "--minShapes",
    "--optShapes",
    "--maxShapes",
    "--memPoolSize",
    "--stronglyTyped",
    "--skipInference",
}


def names_in_our_code() -> set[str]:
    """The names that engines.py and the stand-in use from TensorRT, as `Class.attribute`."""
    found = {"ParserError.desc"}
    for file, (start, classes) in USES.items():
        code = (paths.root() / file).read_text("utf-8").split(start)[1]
        for name, owner in classes.items():
            places = rf"(?<![\w.\"]){re.escape(name)}\.([A-Za-z_]\w*(?:\.[A-Z]\w*)*)"
            found |= {owner + attribute for attribute in re.findall(places, code)}
    return found


@pytest.fixture(scope="module", params=BINDINGS)
def bindings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with NVIDIA's bindings of one version, and with empty libraries for them."""
    version, home = request.param, tmp_path_factory.mktemp("tensorrt")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler (Debian, Ubuntu: sudo apt install gcc)")
    unpack(f"tensorrt-cu12-bindings=={version}", BINDINGS[version], home)
    for library in ("nvinfer", "nvinfer_plugin", "nvonnxparser"):
        name = f"lib{library}.so.{version.partition('.')[0]}"
        command = [compiler, "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", name, "-xc", "-"]
        subprocess.run(command, cwd=home, input=STUBS, text=True, check=True)
    return home


def ask(bindings: Path, code: str) -> object:
    """Run code in which `trt` is the bindings; it prints its answer as JSON."""
    head = "import json, tensorrt_bindings as trt\n"
    done = subprocess.run(
        [sys.executable, "-c", head + code],
        env={**os.environ, "PYTHONPATH": str(bindings), "LD_LIBRARY_PATH": str(bindings)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.server
def test_every_name_that_we_use_is_in_tensorrts_api(bindings: Path) -> None:
    names = sorted(names_in_our_code())
    assert {"Builder.build_serialized_network", "IExecutionContext.execute_async_v3"} <= set(names)
    assert "NetworkDefinitionCreationFlag.STRONGLY_TYPED" in names
    code = f"""
import operator
lost = []
for name in {names!r}:
    try:
        operator.attrgetter(name)(trt)
    except AttributeError:
        lost.append(name)
print(json.dumps(lost))
"""
    assert ask(bindings, code) == []


@pytest.mark.server
def test_methods_take_what_we_give_them(bindings: Path) -> None:
    code = f"""
import operator
print(json.dumps({{n: operator.attrgetter(n)(trt).__doc__ for n in {list(SIGNATURES)!r}}}))
"""
    documented = ask(bindings, code)
    assert isinstance(documented, dict)
    for method, wanted in SIGNATURES.items():
        signature = re.search(r"\(self: [\w.]+(?:, )?(.*?)\) ->", documented[method])
        assert signature, method
        assert re.findall(r"(\w+): ", signature[1]) == wanted, method


@pytest.mark.server
def test_the_network_flag_is_the_only_way_to_low_precision(bindings: Path) -> None:
    """TensorRT 11 has lost the flags; both versions know the one that we set."""
    flags = ask(bindings, "print(json.dumps([trt.__version__, *trt.BuilderFlag.__members__]))")
    assert isinstance(flags, list)
    assert ("FP16" in flags) == flags[0].startswith("10.")


def test_trtexecs_command_line() -> None:
    command = engines.trtexec_command(Path("in.onnx"), Path("out.plan"), IMAGE, (1, 4, 16))
    assert command[0].endswith("trtexec")
    assert command[1:] == [
        "--onnx=in.onnx",
        "--saveEngine=out.plan",
        "--minShapes=image:1x1x8x8",
        "--optShapes=image:4x1x8x8",
        "--maxShapes=image:16x1x8x8",
        "--memPoolSize=workspace:1024",
        "--stronglyTyped",
        "--skipInference",
    ]
    assert {word.partition("=")[0] for word in command[1:]} == DOCUMENTED


#: Replaces trtexec: it records its command line, and writes a plan or fails as trtexec does.
TRTEXEC = """#!/bin/sh
printf '%s\\n' "$@" > "$(dirname "$0")/asked"
case "$1" in *bad*) echo '[11/23/2026-01:00:00] [E] Error[9]: no such operator'; exit 1;; esac
echo plan > "${2#--saveEngine=}"
"""


@pytest.fixture
def trtexec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tool = tmp_path / "bin" / "trtexec"
    tool.parent.mkdir()
    tool.write_text(TRTEXEC)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    return tool


def test_trtexec_is_run_and_its_error_is_told(trtexec: Path, tmp_path: Path) -> None:
    plan = tmp_path / "model.plan"
    engines.build(tmp_path / "in.onnx", plan, IMAGE)
    assert plan.read_text() == "plan\n"
    arguments = (trtexec.parent / "asked").read_text().splitlines()
    assert arguments == engines.trtexec_command(tmp_path / "in.onnx", plan, IMAGE)[1:]
    with pytest.raises(RuntimeError, match=r"built no plan: Error\[9\]: no such operator$"):
        engines.build(tmp_path / "bad.onnx", tmp_path / "other.plan", IMAGE)


def test_a_plans_key_changes_with_the_tensorrt_that_builds_it(trtexec: Path) -> None:
    plan = recipe.RECIPES["digits_plan_fp32"]
    before = plan.key(recipe.RECIPES)
    trtexec.write_text(TRTEXEC + "# a newer release\n")
    assert plan.key(recipe.RECIPES) != before


@pytest.mark.server
def test_without_tensorrt_one_sentence_says_what_is_missing(tmp_path: Path) -> None:
    reason = engines.lacking()
    if not reason:
        pytest.skip("this machine has TensorRT and a GPU: it builds plans")
    assert reason.startswith("TensorRT ")
    assert "\n" not in reason
    with pytest.raises(BuildError) as refused:
        repository.build(tmp_path, ["digits_tensorrt"])
    assert reason in str(refused.value)
    assert "pip install -e '.[gpu]'" in str(refused.value)
    assert not list(tmp_path.iterdir())
    done = subprocess.run(
        [sys.executable, "-m", "workbook.cli", "models"], capture_output=True, text=True, check=True
    )
    assert f"Left out: digits_tensorrt. {reason}" in done.stdout
    if not (repository.paths.repository() / "digits_tensorrt" / "1").exists():
        folder = repository.paths.repository() / "digits_tensorrt"
        assert repository.lacking(folder) == "workbook models digits_tensorrt"


def test_a_missing_tool_says_so(tmp_path: Path) -> None:
    if engines.lacking() == "":
        pytest.skip("this machine has TensorRT and a GPU: it builds plans")
    with pytest.raises(RuntimeError, match=r"tensorrt package cannot be imported|no plan"):
        engines.build(tmp_path / "in.onnx", tmp_path / "out.plan", IMAGE, by="python")


@pytest.mark.server
def test_the_int8_network_answers_as_the_fp32_one() -> None:
    images, classes = data.digits().x_test, data.digits().y_test
    logits = {}
    for name in ("digits_onnx", "digits_onnx_int8"):
        session = onnxruntime.InferenceSession(
            zoo.checkpoint(name), providers=["CPUExecutionProvider"]
        )
        logits[name] = session.run(None, {"image": images})[0]
    right = {name: (answer.argmax(1) == classes).mean() for name, answer in logits.items()}
    # Of 360 images, int8 may change the verdict on three.
    assert abs(right["digits_onnx_int8"] - right["digits_onnx"]) <= 3 / 360
    same = logits["digits_onnx_int8"].argmax(1) == logits["digits_onnx"].argmax(1)
    assert same.mean() >= 1 - 3 / 360
    assert not np.array_equal(*logits.values())


@pytest.mark.server
def test_the_int8_network_is_as_tensorrt_wants_it() -> None:
    graph = onnx.load(zoo.checkpoint("digits_onnx_int8")).graph
    count = Counter(node.op_type for node in graph.node)
    assert count["QuantizeLinear"] == 3  # the inputs of two convolutions and one matrix product
    assert count["DequantizeLinear"] == 6  # the same, and their weights
    values = {i.name: onnx.numpy_helper.to_array(i) for i in graph.initializer}
    zeros = [array for name, array in values.items() if name.endswith("zero_point")]
    assert len(zeros) == 6
    assert all(array.dtype == np.int8 and not array.any() for array in zeros)
    assert all(array.dtype == np.float32 for name, array in values.items() if "bias" in name)
    assert [output.name for output in graph.output] == ["logits"]
