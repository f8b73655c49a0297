"""The stand-in for DALI on a real server, against the same pipelines in this process."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
import pytest
from loading import counted, load_all
from nvidia.dali import Pipeline, fn, pipeline_def, types
from PIL import Image
from tritonclient import http
from tritonclient.utils import InferenceServerException

from workbook.backends.dali import serialized
from workbook.common.errors import LoadError
from workbook.server import Triton

pytestmark = pytest.mark.server

Array = npt.NDArray[Any]
WriteModel = Callable[..., Path]


def jpeg(height: int, width: int, seed: int = 0, size: int = 0) -> Array:
    """A JPEG of noise as uint8, filled up with zeros to `size` bytes."""
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG")
    return np.frombuffer(file.getvalue().ljust(size, b"\0"), np.uint8)


def resized() -> Any:
    encoded = fn.external_source(device="cpu", name="DALI_INPUT_0")
    image = fn.decoders.image(encoded, device="cpu", output_type=types.RGB)
    image = fn.resize(image, resize_x=32, resize_y=24)
    return fn.crop_mirror_normalize(
        image, mean=[128.0] * 3, std=[64.0] * 3, output_layout="CHW", dtype=types.FLOAT
    )


def decoded() -> Any:
    encoded = fn.external_source(device="cpu", name="DALI_INPUT_0", dtype=types.UINT8, ndim=1)
    return fn.decoders.image(encoded, device="cpu", output_type=types.RGB)


def two_ways() -> Any:
    b = fn.external_source(device="cpu", name="B", dtype=types.INT32, ndim=2)
    a = fn.external_source(device="cpu", name="A", dtype=types.FLOAT, ndim=1)
    return fn.cast(b * 2, dtype=types.INT32), a * 10


def on_a_gpu() -> Any:
    encoded = fn.external_source(device="cpu", name="DALI_INPUT_0")
    image = fn.decoders.image(encoded, device="mixed", output_type=types.RGB)
    return fn.resize(image, resize_x=32, resize_y=24)


def pipeline(body: Callable[[], Any], **options: Any) -> bytes:
    options = {"batch_size": 16, "num_threads": 1, "device_id": None, **options}
    return bytes(pipeline_def(body)(**options).serialize())


def run(content: bytes, inputs: dict[str, list[Array]]) -> list[list[Array]]:
    """The samples of each output, computed in this process with DALI's own defaults."""
    built = Pipeline.deserialize(serialized_pipeline=content, batch_size=32)
    for name, samples in inputs.items():
        built.feed_input(name, samples)
    return [[np.array(out.at(i)) for i in range(len(out))] for out in built.run()]


DECLARED = """
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.triton import autoserialize

{mark}
@pipeline_def(
    batch_size=12, num_threads=1, device_id={device}, output_dtype=types.UINT8, output_ndim=3
)
def pipe():
    encoded = fn.external_source(device="cpu", name="ENCODED", dtype=types.UINT8, ndim=1)
    image = fn.decoders.image(encoded, device="cpu", output_type=types.RGB)
    return fn.resize(image, resize_x=16, resize_y=8, name="SMALL")
"""
SCRIPT = DECLARED.format(mark="@autoserialize", device=None)

JPEG_INPUT = 'input { name: "DALI_INPUT_0" data_type: TYPE_UINT8 dims: [ -1 ] %s }'
JPEG_OUTPUT = 'output { name: "PIXELS" data_type: TYPE_FP32 dims: [ 3, 24, 32 ] }'
BATCHING = "dynamic_batching { max_queue_delay_microseconds: 300000 }"
RAGGED = JPEG_INPUT % "allow_ragged_batch: true"
JPEG = f"max_batch_size: 16 {RAGGED} {JPEG_OUTPUT}"
ANY_SIZE = 'output { name: "IMAGE" data_type: TYPE_UINT8 dims: [ -1, -1, 3 ] }'
TWO = """
max_batch_size: 8
input { name: "A" data_type: TYPE_FP32 dims: [ 3 ] }
input { name: "B" data_type: TYPE_INT32 dims: [ -1, 2 ] }
output { name: "doubled" data_type: TYPE_INT32 dims: [ -1, 2 ] }
output { name: "tenfold" data_type: TYPE_FP32 dims: [ 3 ] }
"""


def threads(count: str) -> str:
    return f'parameters {{ key: "num_threads" value: {{ string_value: "{count}" }} }}'


def on_device_0(content: bytes) -> bytes:
    """The pipeline as it would have been serialized with device_id=0 on a machine with a GPU."""
    return serialized.without_device(content) + b"\x40\x00"


#: Name → config, file, content: every model that must load.
GOOD: dict[str, tuple[str, str, bytes | str]] = {
    "jpeg": (f"{JPEG} {BATCHING}", "model.dali", pipeline(resized)),
    "strings": (
        JPEG.replace("TYPE_UINT8", "TYPE_STRING"),
        "model.dali",
        pipeline(resized),
    ),
    "auto": ("", "dali.py", SCRIPT),
    "half_auto": (
        'output { name: "THUMB" data_type: TYPE_UINT8 dims: [ 8, -1, 3 ] }',
        "dali.py",
        SCRIPT,
    ),
    "other_name": ('default_model_filename: "thumb.py"', "thumb.py", SCRIPT),
    "two": (TWO, "model.dali", pipeline(two_ways)),
    "any_size": (f"max_batch_size: 8 {RAGGED} {ANY_SIZE}", "model.dali", pipeline(decoded)),
    "split": (
        'max_batch_size: 8 parameters { key: "split_along_outer_axis" '
        'value: { string_value: "ROWS:other" } } '
        f"{RAGGED} {ANY_SIZE.replace('IMAGE', 'ROWS').replace('-1, -1, 3', '-1, 3')}",
        "model.dali",
        pipeline(decoded, output_ndim=3),
    ),
    "smaller": (JPEG.replace("16", "3"), "model.dali", pipeline(resized)),
    "greater": (JPEG.replace("16", "32"), "model.dali", on_device_0(pipeline(resized))),
    "one_thread": (f"{JPEG} {threads('1')}", "model.dali", pipeline(resized)),
    "four_threads": (f"{JPEG} {threads('4')}", "model.dali", pipeline(resized)),
}

#: Case → config, file, content, words of the reason: every model that must not load.
BAD: dict[str, tuple[str, str, bytes | str, str]] = {
    "operators on a GPU": (
        JPEG,
        "model.dali",
        pipeline(on_a_gpu),
        "decoders__Image (mixed), Resize (gpu). For the CPU write device_id=None in pipeline_def "
        'and device="cpu"',
    ),
    "device_id 0": (
        "",
        "dali.py",
        DECLARED.format(mark="@autoserialize", device=0),
        "For the CPU write device_id=None in pipeline_def",
    ),
    "no file": (JPEG, "pipeline.dali", pipeline(resized), "Failed to load model file"),
    "rubbish": (JPEG, "model.dali", b"\x00rubbish", "model.dali is not a serialized pipeline"),
    "half a file": (JPEG, "model.dali", pipeline(resized)[:300], "is not a serialized pipeline"),
    "not marked": (
        "",
        "dali.py",
        DECLARED.format(mark="", device=None),
        "Precisely one autoserialize function must exist in the module. Found none.",
    ),
    "a mistake in dali.py": ("", "dali.py", SCRIPT + "oops", "NameError: name 'oops'"),
    "input name": (
        JPEG.replace("DALI_INPUT_0", "image"),
        "model.dali",
        pipeline(resized),
        "contains config for image but such input is not present in the pipeline",
    ),
    "string for uint8": (
        f"max_batch_size: 8 {RAGGED} {ANY_SIZE}".replace(
            "TYPE_UINT8 dims: [ -1 ]", "TYPE_STRING dims: [ -1 ]"
        ),
        "model.dali",
        pipeline(decoded),
        'Mismatch of data_type config for "DALI_INPUT_0".',
    ),
    "dimensions of an input": (
        f"max_batch_size: 8 {RAGGED} {ANY_SIZE}".replace("[ -1 ]", "[ -1, 1 ]"),
        "model.dali",
        pipeline(decoded),
        'Mismatch in number of dimensions for "DALI_INPUT_0"',
    ),
    "type of an output": (
        'output { name: "THUMB" data_type: TYPE_FP32 dims: [ 8, 16, 3 ] }',
        "dali.py",
        SCRIPT,
        "Data type defined in pipeline: TYPE_UINT8",
    ),
    "too many outputs": (
        TWO + 'output { name: "third" data_type: TYPE_FP32 dims: [ 1 ] }',
        "model.dali",
        pipeline(two_ways),
        "Model config outputs: 3",
    ),
    "undeclared output": (
        f"max_batch_size: 8 {RAGGED}",
        "model.dali",
        pipeline(resized),
        "Missing data_type config for",
    ),
    "threads": (f"{JPEG} {threads('many')}", "model.dali", pipeline(resized), "num_threads"),
    "no threads": (f"{JPEG} {threads('0')}", "model.dali", pipeline(resized), "positive integer"),
}


def _write(server: Triton, name: str, config: str, file: str, content: bytes | str) -> None:
    folder = server.repository / name / "1"
    folder.mkdir(parents=True)
    (folder / file).write_bytes(content.encode() if isinstance(content, str) else content)
    (folder.parent / "config.pbtxt").write_text(f'backend: "dali"\n{config}')


@pytest.fixture(scope="module")
def served(server: Triton) -> Triton:
    """A server with all of GOOD, loaded side by side."""
    for name, plan in GOOD.items():
        _write(server, name, *plan)
    assert load_all(server, GOOD) == dict.fromkeys(GOOD, "")
    return server


@pytest.fixture(scope="module")
def refusals(server: Triton) -> dict[str, str]:
    """What the server said to each of BAD; empty where it loaded."""
    names = {f"bad_{case.replace(' ', '_')}": case for case in BAD}
    for name, case in names.items():
        _write(server, name, *BAD[case][:3])
    return {names[name]: message for name, message in load_all(server, names).items()}


def _inputs(**arrays: Array) -> list[http.InferInput]:
    kinds = {"uint8": "UINT8", "float32": "FP32", "int32": "INT32", "object": "BYTES"}
    tensors = []
    for name, array in arrays.items():
        tensor = http.InferInput(name, list(array.shape), kinds[array.dtype.name])
        tensor.set_data_from_numpy(np.ascontiguousarray(array))
        tensors.append(tensor)
    return tensors


def ask(server: Triton, model: str, output: str, **arrays: Array) -> Array:
    with server.http_client() as client:
        result: Array = client.infer(model, _inputs(**arrays)).as_numpy(output)
        return result


# -- right answers: the same operators on the same processor give the same bits ------------------


@pytest.mark.quick
def test_a_jpeg_is_decoded_resized_and_normalized(served: Triton) -> None:
    image = jpeg(40, 50)
    got = ask(served, "jpeg", "PIXELS", DALI_INPUT_0=image[None])
    ((expected,),) = run(pipeline(resized), {"DALI_INPUT_0": [image]})
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, expected[None])


def test_a_request_with_several_rows(served: Triton) -> None:
    images = [jpeg(40, 50, seed=i, size=9000) for i in range(3)]
    got = ask(served, "jpeg", "PIXELS", DALI_INPUT_0=np.stack(images))
    (expected,) = run(pipeline(resized), {"DALI_INPUT_0": images})
    np.testing.assert_array_equal(got, np.stack(expected))


def test_inputs_by_name_and_outputs_in_order(served: Triton) -> None:
    """The pipeline's output names are generated; the config's outputs are matched by order."""
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    b = np.arange(20, dtype=np.int32).reshape(2, 5, 2)
    with served.http_client() as client:
        answer = client.infer("two", _inputs(B=b, A=a))
    np.testing.assert_array_equal(answer.as_numpy("doubled"), b * 2)
    np.testing.assert_array_equal(answer.as_numpy("tenfold"), a * 10)


def test_a_request_asks_for_all_outputs(served: Triton) -> None:
    a, b = np.zeros((1, 3), np.float32), np.zeros((1, 5, 2), np.int32)
    wanted = [http.InferRequestedOutput("tenfold")]
    words = r"expected by the requests \(1\) does not match .* from DALI pipeline \(2\)"
    with served.http_client() as client, pytest.raises(InferenceServerException, match=words):
        client.infer("two", _inputs(A=a, B=b), outputs=wanted)


def test_samples_may_have_any_shape_but_one_within_a_request(served: Triton) -> None:
    small, large = jpeg(10, 20, size=9000), jpeg(30, 40, size=9000)
    for image in (small, large):
        ((expected,),) = run(pipeline(decoded), {"DALI_INPUT_0": [image]})
        got = ask(served, "any_size", "IMAGE", DALI_INPUT_0=image[None])
        np.testing.assert_array_equal(got, expected[None])
    with pytest.raises(InferenceServerException, match="different shapes in one request"):
        ask(served, "any_size", "IMAGE", DALI_INPUT_0=np.stack([small, large]))


def test_split_along_outer_axis(served: Triton) -> None:
    """Each sample's rows of pixels become samples of their own."""
    images = [jpeg(10, 20, seed=1, size=9000), jpeg(7, 20, seed=2, size=9000)]
    (expected,) = run(pipeline(decoded), {"DALI_INPUT_0": images})
    got = ask(served, "split", "ROWS", DALI_INPUT_0=np.stack(images))
    assert got.shape == (17, 20, 3)
    np.testing.assert_array_equal(got, np.concatenate(expected))
    got = ask(served, "split", "ROWS", DALI_INPUT_0=images[0][None])
    np.testing.assert_array_equal(got, expected[0])


# -- what is filled in ---------------------------------------------------------------------------


def test_the_config_is_completed_from_the_pipeline(served: Triton) -> None:
    config = served.config("auto")
    assert config["max_batch_size"] == 12
    (entry,) = config["input"]
    assert (entry["name"], entry["data_type"], entry["dims"]) == ("ENCODED", "TYPE_UINT8", [-1])
    assert entry["allow_ragged_batch"] is True
    (entry,) = config["output"]
    assert (entry["name"], entry["data_type"], entry["dims"]) == ("SMALL", "TYPE_UINT8", [-1] * 3)
    got = ask(served, "auto", "SMALL", ENCODED=jpeg(40, 50)[None])
    assert got.shape == (1, 8, 16, 3)
    np.testing.assert_array_equal(
        ask(served, "other_name", "SMALL", ENCODED=jpeg(40, 50)[None]), got
    )


def test_what_the_config_says_stays(served: Triton) -> None:
    config = served.config("half_auto")
    assert config["max_batch_size"] == 12
    assert [entry["name"] for entry in config["input"]] == ["ENCODED"]
    (entry,) = config["output"]
    assert (entry["name"], entry["dims"]) == ("THUMB", [8, -1, 3])
    assert ask(served, "half_auto", "THUMB", ENCODED=jpeg(40, 50)[None]).shape == (1, 8, 16, 3)


def test_the_batch_size_of_the_config_replaces_the_pipelines(served: Triton) -> None:
    image = jpeg(20, 20)
    rows = np.tile(image, (32, 1))
    assert len(ask(served, "greater", "PIXELS", DALI_INPUT_0=rows)) == 32
    assert len(ask(served, "smaller", "PIXELS", DALI_INPUT_0=rows[:3])) == 3
    with pytest.raises(InferenceServerException, match="must be <= 3"):
        ask(served, "smaller", "PIXELS", DALI_INPUT_0=rows[:4])


def test_without_a_config_there_is_no_backend(server: Triton, write_model: WriteModel) -> None:
    write_model("no_config", "", {"1/model.dali": pipeline(resized)})
    with pytest.raises(LoadError):
        server.load("no_config")


@pytest.mark.parametrize("case", BAD)
def test_wrong_configs_and_files_do_not_load(refusals: dict[str, str], case: str) -> None:
    assert BAD[case][3] in refusals[case]


# -- how requests are served ---------------------------------------------------------------------


def test_strings_load_but_no_request_succeeds(served: Triton) -> None:
    """As upstream, which reads one byte per string; here a message says what to write."""
    encoded = np.array([[jpeg(20, 20).tobytes()]], dtype=np.object_)
    with pytest.raises(InferenceServerException, match="write data_type: TYPE_UINT8"):
        ask(served, "strings", "PIXELS", DALI_INPUT_0=encoded)


@pytest.mark.quick
def test_images_of_any_length_share_a_batch_and_a_broken_one_fails_alone(served: Triton) -> None:
    good = [jpeg(20 + i, 30 - i, seed=i) for i in range(8)]
    assert len({len(image) for image in good}) > 1
    broken = [good[0][:200], np.frombuffer(b"not an image at all", np.uint8)]
    before = served.statistics("jpeg")[0]
    address = served.url.removeprefix("http://")
    with http.InferenceServerClient(address, concurrency=10) as client:
        send = [good[0], broken[0], *good[1:5], broken[1], *good[5:]]
        waiting = [client.async_infer("jpeg", _inputs(DALI_INPUT_0=x[None])) for x in send]
        answers: list[Array | str] = []
        for one in waiting:
            try:
                answers.append(one.get_result().as_numpy("PIXELS"))
            except InferenceServerException as error:
                answers.append(str(error))
    failures = [answers.pop(i) for i in (6, 1)]
    (expected,) = run(pipeline(resized), {"DALI_INPUT_0": good})
    for got, one in zip(answers, expected, strict=True):
        np.testing.assert_array_equal(got, one[None])
    for failure in failures:
        assert "Runtime error: nvidia.dali.fn.decoders.image: " in str(failure)
        assert "Traceback" not in str(failure)
    after = counted(served, "jpeg", before["inference_count"] + len(good))
    requests = after["inference_count"] - before["inference_count"]
    assert requests >= len(good)
    assert after["execution_count"] - before["execution_count"] < requests


def test_a_batch_of_good_images_in_one_execution(served: Triton) -> None:
    good = [jpeg(20 + i, 30 - i, seed=i) for i in range(8)]
    before = served.statistics("jpeg")[0]
    address = served.url.removeprefix("http://")
    with http.InferenceServerClient(address, concurrency=8) as client:
        waiting = [client.async_infer("jpeg", _inputs(DALI_INPUT_0=x[None])) for x in good]
        answers = [one.get_result().as_numpy("PIXELS") for one in waiting]
    (expected,) = run(pipeline(resized), {"DALI_INPUT_0": good})
    np.testing.assert_array_equal(np.concatenate(answers), np.stack(expected))
    after = counted(served, "jpeg", before["inference_count"] + 8)
    assert after["inference_count"] - before["inference_count"] == 8
    assert after["execution_count"] - before["execution_count"] < 8


def _stub(server: Triton, model: str) -> psutil.Process:
    """The process of a model's only instance."""
    assert server.pid is not None
    family = psutil.Process(server.pid).children(recursive=True)
    commands = [(process, process.cmdline()) for process in family]
    (stub,) = [p for p, words in commands if f"{model}_0" in words and "start_stub" not in words[0]]
    return stub


def test_num_threads_is_the_configs(served: Triton) -> None:
    image = jpeg(20, 20)[None]
    for name in ("one_thread", "four_threads"):
        ask(served, name, "PIXELS", DALI_INPUT_0=image)
    difference = (
        _stub(served, "four_threads").num_threads() - _stub(served, "one_thread").num_threads()
    )
    assert difference >= 3


# -- reading a pipeline's file -------------------------------------------------------------------


def test_a_description_says_what_dali_was_told() -> None:
    found = serialized.describe(
        pipeline(two_ways, batch_size=5, output_dtype=[types.INT32, types.FLOAT])
    )
    assert [(p.name, p.data_type, p.dimensions) for p in found.inputs] == [
        ("A", "TYPE_FP32", 1),
        ("B", "TYPE_INT32", 2),
    ]
    assert [p.data_type for p in found.outputs] == ["TYPE_INT32", "TYPE_FP32"]
    assert [p.dimensions for p in found.outputs] == [None, None]
    assert found.batch_size == 5
    assert found.gpu_operators == ()
    undeclared = serialized.describe(pipeline(resized))
    assert [(p.data_type, p.dimensions) for p in undeclared.inputs] == [(None, None)]


def test_a_layout_declares_the_dimensions() -> None:
    def body() -> Any:
        return fn.external_source(device="cpu", name="X", layout="HWC") * 2

    assert serialized.describe(pipeline(body)).inputs[0].dimensions == 3


@pytest.mark.parametrize("length", range(0, 60, 7))
def test_what_is_no_pipeline_is_refused(length: int) -> None:
    with pytest.raises(serialized.NotAPipeline):
        serialized.describe(pipeline(resized)[:length])
