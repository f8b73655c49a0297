"""What TensorRT for RTX builds here, without a GPU: what is known of it, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnxruntime import quantization

from workbook import zoo
from workbook.backends.tensorrt import record
from workbook.backends.tensorrt.record import BadRecord, Layer, Port, Record
from workbook.zoo import data, engine_builder, engine_log, engines, repository
from workbook.zoo.engines import EngineError, profile_of

pytestmark = pytest.mark.server

IMAGE = profile_of({"image": (1, 8, 8)})


def network(
    folder: Path, operator: str, kind: int = TensorProto.FLOAT, dims: Sequence[Any] = ("n", 4)
) -> Path:
    """An ONNX file of one node: x → y."""
    node = helper.make_node(operator, ["x"], ["y"], name="only")
    takes = helper.make_tensor_value_info("x", kind, list(dims))
    gives = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph([node], "one", [takes], [gives])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(made, folder / "one.onnx")
    return folder / "one.onnx"


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, engines.Built]:
    """The plan of the digit classifier in fp32, and what is known of it."""
    plan = tmp_path_factory.mktemp("digits") / "1" / "model.plan"
    return plan, engines.build(zoo.checkpoint("digits_onnx"), plan, IMAGE, by="rtx")


def weights(name: str) -> list[np.ndarray[Any, Any]]:
    """The floats in an ONNX file of the zoo."""
    initializers = onnx.load(zoo.checkpoint(name)).graph.initializer
    arrays = [onnx.numpy_helper.to_array(one) for one in initializers]
    return [array for array in arrays if array.dtype == np.float32]


def known(built: engines.Built) -> Record:
    assert built.record is not None
    return built.record


@pytest.mark.quick
def test_what_is_known_of_an_engine(digits: tuple[Path, engines.Built]) -> None:
    plan, built = digits
    found = known(built)
    assert found == Record.beside(plan)
    assert plan.read_bytes()[:4] == b"vtrt"
    assert [file.name for file in sorted(plan.parent.iterdir())] == [plan.name, f"{plan.name}.json"]
    assert (found.product, found.bytes) == ("tensorrt_rtx", plan.stat().st_size)
    assert found.compute_capabilities == engines.RTX
    shapes = IMAGE["image"]
    assert found.inputs == (Port("image", "TYPE_FP32", (-1, 1, 8, 8), *shapes),)
    assert found.outputs == (Port("logits", "TYPE_FP32", (-1, 10)),)
    assert found.largest_batch == 64
    parameters = sum(weight.size for weight in weights("digits_onnx"))
    assert 4 * parameters <= (found.weights_bytes or 0) < 4 * parameters + 1024


@pytest.mark.quick
def test_convolution_and_relu_are_one_layer(digits: tuple[Path, engines.Built]) -> None:
    nodes = onnx.load(zoo.checkpoint("digits_onnx")).graph.node
    kinds = {node.name: node.op_type for node in nodes}
    fused = [[kinds[name] for name in layer.onnx] for layer in known(digits[1]).layers]
    assert fused.count(["Conv", "Relu"]) == 2
    assert {name for layer in known(digits[1]).layers for name in layer.onnx} == set(kinds)


def test_the_log_is_all_that_was_said(digits: tuple[Path, engines.Built]) -> None:
    log = digits[1].log
    assert {line.partition(":")[0] for line in log} == {"INFO", "VERBOSE"}
    assert engine_log.layers(log) == known(digits[1]).layers
    assert engine_log.layers(["INFO: nothing"]) == ()
    assert engine_log.memory(["INFO: nothing"]) == {}


def test_fp16_and_int8(tmp_path: Path, digits: tuple[Path, engines.Built]) -> None:
    """Types inside come from the ONNX file; outside there is fp32 in all three."""
    assert repository.build(tmp_path, ["digits_tensorrt"], bar=False) == ["digits_tensorrt"]
    folder = tmp_path / "digits_tensorrt"
    found = [Record.beside(folder / str(version) / "model.plan") for version in (1, 2, 3)]
    fp32, fp16, int8 = (one for one in found if one is not None)
    assert fp32.inputs == fp16.inputs == int8.inputs == known(digits[1]).inputs
    assert fp32.outputs == fp16.outputs == int8.outputs
    assert fp16.weights_bytes is not None
    assert fp32.weights_bytes is not None
    assert fp16.weights_bytes < 0.6 * fp32.weights_bytes
    names = {name for layer in int8.layers for name in layer.onnx}
    assert any("QuantizeLinear" in name for name in names)
    assert repository.build(tmp_path, ["digits_tensorrt"], bar=False) == []
    plan = folder / "2" / "model.plan"
    plan.write_bytes((folder / "1" / "model.plan").read_bytes())
    with pytest.raises(BadRecord, match="belongs to another plan"):
        Record.beside(plan)


def test_memory_grows_with_the_largest_batch(tmp_path: Path) -> None:
    sizes = []
    for most in (1, 64, 1024):
        profile = profile_of({"image": (1, 8, 8)}, (1, 1, most))
        built = engines.build(zoo.checkpoint("digits_onnx"), tmp_path / "model.plan", profile)
        sizes.append(known(built).activation_bytes or 0)
    assert 0 < sizes[0] < sizes[1] < sizes[2]


REFUSED = {
    "no profile": ({}, {}, "no optimization profile has been defined"),
    "order": (profile_of({"image": (1, 8, 8)}, (8, 1, 64)), {}, "MIN<=OPT<=MAX"),
    "dims": (profile_of({"image": (1, 224, 224)}), {}, "profile has min=224.*but tensor has 8"),
    "rank": (profile_of({"image": (8, 8)}), {}, "4 dimensions but profile 0 has 3"),
    "name": (profile_of({"pixels": (1, 8, 8)}), {}, "image is missing dimensions in profile"),
    "negative": (profile_of({"image": (1, 8, 8)}, (-1, 8, 64)), {}, "x >= 0"),
    "two shapes": ({"image": IMAGE["image"][:2]}, {}, "incompatible function arguments"),
    "workspace": (IMAGE, {"workspace_mib": 4}, "within workspace limit"),
    "turing": (IMAGE, {"compute_capabilities": ["7.5"]}, r"Turing \(SM75\): FP32 GEMM"),
    "hopper": (IMAGE, {"compute_capabilities": ["9.0"]}, "no target 9.0; the targets are 7.5, 8.0"),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", REFUSED)
def test_each_mistake_has_its_own_message(tmp_path: Path, case: str) -> None:
    profile, options, message = REFUSED[case]
    with pytest.raises(EngineError, match=f"TensorRT for RTX builds no engine.*{message}") as no:
        engines.build(zoo.checkpoint("digits_onnx"), tmp_path / "m.plan", profile, **options)
    assert "\n" not in str(no.value)
    assert "cudaError" not in str(no.value)
    assert case in ("two shapes", "hopper") or any("Error Code" in line for line in no.value.log)
    assert not list(tmp_path.iterdir())


def test_a_network_that_is_not_taken(tmp_path: Path) -> None:
    plan = tmp_path / "model.plan"

    def refusal(file: Path) -> str:
        with pytest.raises(EngineError) as refused:
            engines.build(file, plan, profile_of({"x": (4,)}))
        assert not plan.exists()
        return str(refused.value)

    assert "NonZero plugin creator" in refusal(network(tmp_path, "NonZero"))
    assert "DynamicQuantizeLinear" in refusal(network(tmp_path, "DynamicQuantizeLinear"))
    assert "operator: NoSuch" in refusal(network(tmp_path, "NoSuch"))
    assert "Failed to convert ONNX date type" in refusal(
        network(tmp_path, "Identity", TensorProto.STRING)
    )
    whole = zoo.checkpoint("digits_onnx").read_bytes()
    (tmp_path / "half.onnx").write_bytes(whole[: len(whole) // 2])
    assert "Failed to parse the ONNX model" in refusal(tmp_path / "half.onnx")
    assert "cannot be found" in refusal(tmp_path / "missing.onnx")


def test_static_int8_as_onnx_runtime_writes_it_is_refused(tmp_path: Path) -> None:
    """Its zero points are not 0, and biases are int32: `engines.quantize` does neither."""

    class Images(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = [{"image": data.digits().x_train[:32]}]

        def get_next(self) -> dict[str, np.ndarray[Any, Any]] | None:
            return self.left.pop() if self.left else None

    quantization.quantize_static(zoo.checkpoint("digits_onnx"), tmp_path / "int8.onnx", Images())
    with pytest.raises(EngineError, match=r"(?i)zero.point|INT32"):
        engines.build(tmp_path / "int8.onnx", tmp_path / "model.plan", IMAGE)


def test_targets_and_fixed_shapes(tmp_path: Path) -> None:
    file = network(tmp_path, "Relu", TensorProto.FLOAT16, (2, 4))
    built = engines.build(file, tmp_path / "m.plan", {}, compute_capabilities=["7.5", "8.6"])
    assert known(built).compute_capabilities == ("7.5", "8.6")
    assert known(built).inputs == (Port("x", "TYPE_FP16", (2, 4)),)
    assert known(built).largest_batch == 2


def test_what_was_there_stays_if_a_build_fails(tmp_path: Path) -> None:
    plan = tmp_path / "m.plan"
    file = network(tmp_path, "Relu")
    before = engines.build(file, plan, profile_of({"x": (4,)})).record
    with pytest.raises(EngineError):
        engines.build(file, plan, {})
    assert Record.beside(plan) == before


def test_a_builder_that_dies_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "dies.py"
    monkeypatch.setattr(engine_builder, "__file__", str(program))
    for code, message in (
        ("import os; os.kill(os.getpid(), 11)", "process ended by signal 11"),
        ("raise ValueError('no luck')", "with an error: ValueError: no luck"),
    ):
        program.write_text(code)
        with pytest.raises(EngineError, match=message):
            engines.build(tmp_path / "x.onnx", tmp_path / "m.plan", {}, by="rtx")


def ports(dimensions: int, fixed: bool) -> st.SearchStrategy[Port]:
    """Tensors with this many dimensions; a fixed one has no profile."""
    shape = st.tuples(*[st.integers(-1, 2**40)] * dimensions)
    return st.builds(Port, st.text(), st.text(), shape, *[st.just(()) if fixed else shape] * 3)


PORTS = st.lists(
    st.tuples(st.integers(0, 4), st.booleans()).flatmap(lambda drawn: ports(*drawn)), max_size=3
).map(tuple)
RECORDS = st.fixed_dictionaries(
    {
        "product": st.sampled_from(sorted(record.PRODUCTS)),
        "version": st.text(),
        "compute_capabilities": st.lists(st.text(), max_size=3).map(tuple),
        "inputs": PORTS,
        "outputs": PORTS,
        "layers": st.lists(
            st.builds(Layer, st.text(), st.text(), st.lists(st.text(), max_size=2).map(tuple)),
            max_size=3,
        ).map(tuple),
        "activation_bytes": st.none() | st.integers(0),
        "weights_bytes": st.none() | st.integers(0),
        "seconds": st.floats(0, 1e6),
    }
)


@given(content=st.binary(max_size=64), other=st.binary(max_size=64), fields=RECORDS)
def test_a_record_is_read_as_it_was_written_and_for_its_own_plan_only(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, other: bytes, fields: dict[str, Any]
) -> None:
    plan = tmp_path_factory.getbasetemp() / "model.plan"
    plan.write_bytes(content)
    written = Record.of(plan, **fields)
    written.save(plan)
    assert Record.beside(plan) == written
    plan.write_bytes(other)
    if other != content:
        with pytest.raises(BadRecord, match=r"model\.plan\.json belongs to another plan"):
            Record.beside(plan)


CHANGES: dict[str, Any] = {
    "format": 2,
    "product": ["tensorrt"],
    "bytes": "many",
    "inputs": [{"name": "x"}],
    "outputs": [
        {"name": "y", "data_type": "TYPE_FP32", "dims": [1], "optimum": [], "largest": []}
        | {"smallest": [1, 2]}
    ],
    "compute_capabilities": 3,
    "layers": [1],
    "seconds": "long",
    "activation_bytes": float("inf"),
}


@pytest.mark.parametrize("field", [*CHANGES, "no JSON", "a list", "too deep", "a field less"])
def test_what_is_no_record_is_refused(
    tmp_path: Path, digits: tuple[Path, engines.Built], field: str
) -> None:
    plan = tmp_path / "model.plan"
    plan.write_bytes(digits[0].read_bytes())
    fields = json.loads(record.path(digits[0]).read_text())
    texts = {"no JSON": "{", "a list": "[]", "too deep": "[" * 10_000}
    if field == "a field less":
        del fields["layers"]
    fields |= {field: CHANGES[field]} if field in CHANGES else {}
    record.path(plan).write_text(texts.get(field, json.dumps(fields)))
    with pytest.raises(BadRecord, match=r"model\.plan\.json is not the record of an engine"):
        Record.beside(plan)
