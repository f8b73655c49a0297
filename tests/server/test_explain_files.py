"""Models with a file that the backend cannot read: the message says what it is, and what to do.

Each file is made here, and refused by a real server. The message must never call a whole file
damaged: `test_whole_files_show_no_damage`.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import re
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx_graphs import graph

from workbook.common.errors import LoadError
from workbook.server import Triton
from workbook.server.catalogue import file_formats
from workbook.server.explain import load_error
from workbook.server.model_folder import check_name

IO = """\
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""
FIL_IO = (
    IO.replace('"x"', '"input__0"').replace('"y"', '"output__0"').replace("4 ] } ]\n", "4 ] } ]\n")
)
HEADS = {
    "ort": f'backend: "onnxruntime"\nmax_batch_size: 8\n{IO}',
    "torch": f'platform: "pytorch_libtorch"\nmax_batch_size: 8\n{IO}',
    "ov": f'backend: "openvino"\nmax_batch_size: 8\n{IO}',
    "tf": f'platform: "tensorflow_savedmodel"\nmax_batch_size: 8\n{IO}',
    "graph": f'platform: "tensorflow_graphdef"\nmax_batch_size: 8\n{IO}',
    "dali": f'backend: "dali"\nmax_batch_size: 8\n{IO}',
    "fil": f'backend: "fil"\nmax_batch_size: 8\n{FIL_IO}'
    'parameters { key: "output_class" value { string_value: "false" } }\n',
    **{
        kind: f'backend: "fil"\nmax_batch_size: 8\n{FIL_IO}'
        f'parameters {{ key: "model_type" value {{ string_value: "{kind}" }} }}\n'
        'parameters { key: "output_class" value { string_value: "false" } }\n'
        for kind in ("xgboost", "xgboost_json", "xgboost_ubj", "lightgbm", "treelite_checkpoint")
    },
}
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935\nsize 12345\n"
PAGE = b"<!DOCTYPE html>\n<html><body>404</body></html>\n"
H5 = b"\x89HDF\r\n\x1a\n" + b"\0" * 40
GIT_LFS = "is a git-LFS pointer, not the file itself (which has 12,345 bytes)."
SHORT = "ends too early"
JIT = 'torch.jit.script(module.eval()).save("model.pt")'
KERAS = 'keras.models.load_model("model.{}").export("model.savedmodel")'
TREES = 'treelite.sklearn.import_model(joblib.load("{}")).serialize("checkpoint.tl")'

#: name → the rule, the config, the version's files by name (a text names one of `made`, and what
#: is done with it), what, where, what to do.
Files = dict[str, str | bytes]
CASES: dict[str, tuple[str, str, Files, str, str, str]] = {
    # -- damaged copies, of each format
    "ort_lfs": ("damaged-file", "ort", {"model.onnx": LFS}, GIT_LFS, "1/model.onnx",
                "`git lfs pull`"),
    "ort_cut": ("damaged-file", "ort", {"model.onnx": "onnx cut"}, SHORT, "1/model.onnx",
                "compare its size"),
    "ort_empty": ("damaged-file", "ort", {"model.onnx": b""}, "1/model.onnx is empty.",
                  "1/model.onnx", "Copy it again"),
    "ort_page": ("damaged-file", "ort", {"model.onnx": PAGE}, "is a web page", "1/model.onnx",
                 "/resolve/"),
    "ort_gzip": ("damaged-file", "ort", {"model.onnx": gzip.compress(b"x")}, "packed with gzip",
                 "1/model.onnx", "gunzip"),
    "torch_cut": ("damaged-file", "torch", {"model.pt": "torchscript cut"},
                  "is a zip archive that ends too early", "1/model.pt", "compare its size"),
    "ov_lfs": ("damaged-file", "ov", {"model.xml": LFS, "model.bin": "ov_bin"}, GIT_LFS,
               "1/model.xml", "`git lfs pull`"),
    "ov_cut": ("damaged-file", "ov", {"model.xml": "ov_xml cut", "model.bin": "ov_bin"},
               "</net> is missing", "1/model.xml", "compare its size"),
    "ov_weights_cut": ("damaged-file", "ov", {"model.xml": "ov_xml", "model.bin": "ov_bin cut"},
                       "1/model.bin ends too early", "1/model.bin", "compare its size"),
    "ov_onnx_cut": ("damaged-file", "ov",
                    {"model.onnx": "onnx cut", "": 'default_model_filename: "model.onnx"\n'},
                    SHORT, "1/model.onnx", "compare its size"),
    "json_cut": ("damaged-file", "xgboost_json", {"xgboost.json": "json cut"},
                 "its last brace is missing", "1/xgboost.json", "compare its size"),
    # -- whole files that hold something else than the backend takes
    "ort_no_data": ("external-data", "ort", {"model.onnx": "external"}, "a file of its own, w.data",
                    "1/w.data", "Copy w.data beside model.onnx"),
    "ov_no_data": ("external-data", "ov",
                   {"model.onnx": "external", "": 'default_model_filename: "model.onnx"\n'},
                   "a file of its own, w.data", "1/w.data", "Copy w.data beside model.onnx"),
    "ort_other_data": ("external-data", "ort", {"model.onnx": "external", "weights.data": b"1234"},
                       "w.data", "1/w.data", "There is weights.data: the name must stay w.data"),
    "ort_domain": ("unknown-operator", "ort", {"model.onnx": "my_domain"}, "my.dom.Foo",
                   "1/model.onnx", "model_operations { op_library_filename:"),
    "ort_no_import": ("unknown-operator", "ort", {"model.onnx": "no_import"}, "my.dom.Foo",
                      "1/model.onnx", "model_operations { op_library_filename:"),
    "ort_operator": ("unknown-operator", "ort", {"model.onnx": "no_such_operator"},
                     "the operator Foo", "1/model.onnx", "opset_version=18"),
    "ort_zipmap": ("not-a-tensor", "ort", {"model.onnx": "zipmap"}, '"y" of the model is a list',
                   '1/model.onnx, "y"', 'options={"zipmap": False}'),
    "ort_types": ("unreadable-file", "ort", {"model.onnx": "wrong_type"}, "'tensor(int32)'",
                  "1/model.onnx", 'onnxruntime.InferenceSession("model.onnx")'),
    "ort_types_kept": ("unreadable-file", "ort", {"model.onnx": "wrong_type", ".gitkeep": b""},
                       "'tensor(int32)'", "1/model.onnx", "onnxruntime.InferenceSession"),
    "torch_operator": ("unknown-operator", "torch", {"model.pt": "torch_vision"},
                       "torchvision::nms", "1/model.pt", "comes with the package torchvision"),
    "torch_two": ("number-of-tensors", "torch", {"model.pt": "torch_two"}, "the model has 2",
                  "1/model.pt, forward(a: Tensor, b: Tensor)", "for each argument of forward()"),
    "ov_operator": ("unknown-operator", "ov", {"model.xml": "ov_operator", "model.bin": "ov_bin"},
                    "opset1.FooMul", "1/model.xml", "Convert the original model again"),
    "fil_linear": ("not-a-forest", "xgboost_json", {"xgboost.json": "gblinear_json"},
                   "booster gblinear", "1/xgboost.json", 'booster="gbtree"'),
    "fil_linear_ubj": ("not-a-forest", "xgboost_ubj", {"xgboost.ubj": "gblinear_ubj"},
                       "booster gblinear", "1/xgboost.ubj", 'booster="gbtree"'),
    "fil_categories": ("not-a-forest", "xgboost_json", {"xgboost.json": "categories"},
                       "columns of categories", "1/xgboost.json", "column.cat.codes"),
    "fil_leaves": ("not-a-forest", "lightgbm", {"model.txt": "linear_tree"}, "linear_tree=True",
                   "1/model.txt", "Train without linear_tree"),
    "fil_dump": ("not-a-forest", "xgboost_json", {"xgboost.json": "dump"}, "dump_model wrote it",
                 "1/xgboost.json", "booster.save_model"),
    "fil_settings": ("not-a-forest", "xgboost_json", {"xgboost.json": "settings"},
                     "save_config wrote it", "1/xgboost.json", "booster.save_model"),
    "fil_version": ("not-a-forest", "treelite_checkpoint", {"checkpoint.tl": "other_treelite"},
                    "was written by Treelite 9.", "1/checkpoint.tl", "with Treelite 4"),
    "fil_short": ("unreadable-file", "treelite_checkpoint", {"checkpoint.tl": "treelite cut"},
                  "cannot read the model's file", "1/checkpoint.tl",
                  'treelite.Model.deserialize("checkpoint.tl")'),
    "tf_deep": ("no-savedmodel", "tf", {"model.savedmodel/export/saved_model.pb": b"x"},
                "one folder too deep", "1/model.savedmodel/", "into 1/model.savedmodel/."),
    # -- another format under the right name
    "h5_named": ("other-format", "tf", {"model.savedmodel": H5}, "is an HDF5 file",
                 "1/model.savedmodel", KERAS.format("h5")),
    "keras_named": ("other-format", "tf",
                    {"model.keras": "keras", "": 'default_model_filename: "model.keras"\n'},
                    "is a file of Keras", "1/model.keras", KERAS.format("keras")),
    "pickle_named": ("not-a-forest", "treelite_checkpoint", {"checkpoint.tl": "pickle"},
                     "is not a checkpoint of Treelite", "1/checkpoint.tl", "import_model"),
    "safetensors_named": ("other-format", "torch", {"model.pt": "safetensors"},
                          "weights alone (safetensors)", "1/model.pt", JIT),
    "state_named": ("other-format", "torch", {"model.pt": "state"}, "a file of torch.save",
                    "1/model.pt", JIT),
    "text_named": ("other-format", "torch", {"model.pt": b"x\n"}, "is not TorchScript",
                   "1/model.pt", JIT),
    "onnx_named": ("other-format", "torch", {"model.pt": "onnx"}, "is an ONNX model",
                   "1/model.pt", 'Serve it with backend: "onnxruntime", under the name model.onnx'),
    "torch_named": ("other-format", "ort", {"model.onnx": "torchscript"}, "is TorchScript",
                    "1/model.onnx", 'torch.onnx.export(module.eval(), (example,), "model.onnx")'),
    # -- another name: a rename within one format, a conversion otherwise
    "name_pth": ("missing-file", "torch", {"model.pth": "torchscript"}, "holds model.pth", "1/",
                 "Rename model.pth to model.pt, or write default_model_filename"),
    "name_state": ("missing-file", "torch", {"model.pth": "state"},
                   "Another name does not make it", "1/", JIT),
    "name_bin": ("missing-file", "torch", {"pytorch_model.bin": "state"}, "a file of torch.save",
                 "1/", 'torch.load("pytorch_model.bin"'),
    "name_ckpt": ("missing-file", "torch", {"last.ckpt": b"x\n"}, "a checkpoint", "1/",
                  'torch.load("last.ckpt", map_location="cpu")["state_dict"]'),
    "name_safetensors": ("missing-file", "torch", {"model.safetensors": b"x\n"},
                         "weights alone", "1/", "safetensors.torch.load_file"),
    "name_unknown": ("missing-file", "torch", {"model.pth": b"x\n"}, "holds model.pth", "1/",
                     "If model.pth is TorchScript (torch.jit.save), rename it"),
    "name_gguf": ("missing-file", "torch", {"model.gguf": b"GGUF\x03\0\0\0"}, "llama.cpp", "1/",
                  'backend: "vllm"'),
    "name_keras": ("missing-file", "tf", {"model.keras": "keras"}, "a file of Keras", "1/",
                   KERAS.format("keras")),
    "name_h5": ("missing-file", "tf", {"model.h5": b"x\n"}, "an HDF5 file", "1/",
                KERAS.format("h5")),
    "name_tflite": ("missing-file", "tf", {"model.tflite": b"\x1c\0\0\0TFL3"}, "TensorFlow Lite",
                    "1/", "cannot be turned back"),
    "name_checkpoint": ("missing-file", "tf",
                        {"m.ckpt.index": b"x", "m.ckpt.data-00000-of-00001": b"x"},
                        "a checkpoint", "1/", 'model.load_weights("m.ckpt")'),
    "name_loose": ("missing-file", "tf",
                   {"saved_model.pb": b"x", "variables/variables.index": b"x"}, "holds", "1/",
                   "Make the folder 1/model.savedmodel/, and move saved_model.pb and variables/"),
    "name_frozen": ("missing-file", "graph", {"frozen.pb": b"x"}, "holds frozen.pb", "1/",
                    "Rename frozen.pb to model.graphdef"),
    "name_pickle": ("missing-file", "fil", {"model.pkl": b"x\n"}, "a pickled Python object", "1/",
                    TREES.format("model.pkl")),
    "name_joblib": ("missing-file", "xgboost_json", {"model.joblib": "pickle"},
                    "a pickled Python object", "1/", TREES.format("model.joblib")),
    "name_cbm": ("missing-file", "fil", {"model.cbm": b"CBM1"}, "a model of CatBoost", "1/",
                 'backend: "onnxruntime"'),
    "name_json": ("missing-file", "xgboost_json", {"booster.json": "json"}, "holds booster.json",
                  "1/", "Rename booster.json to xgboost.json"),
    "name_ubj": ("missing-file", "xgboost_json", {"model.bin": "ubj"}, "XGBoost's UBJSON",
                 "parameters[0]", "Rename model.bin to xgboost.ubj, and write model_type"),
    "name_xml": ("missing-file", "ov", {"net.xml": "ov_xml", "net.bin": "ov_bin"}, "net.xml", "1/",
                 "Rename net.xml to model.xml, and net.bin to model.bin"),
    "name_ov_onnx": ("missing-file", "ov", {"model.onnx": "onnx"}, "holds model.onnx", "1/",
                     'Write default_model_filename: "model.onnx"'),
    "name_ov_tflite": ("missing-file", "ov", {"model.tflite": b"\x1c\0\0\0TFL3"},
                       "TensorFlow Lite", "1/", 'ov.convert_model("model.tflite")'),
    "name_dali": ("missing-file", "dali", {"pipeline.dali": b"x"}, "holds pipeline.dali", "1/",
                  "Rename pipeline.dali to model.dali"),
    "name_dali_program": ("missing-file", "dali", {"pipe.py": b"@autoserialize\n"},
                          "holds pipe.py", "1/", "Rename pipe.py to dali.py"),
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Whole files of each format, by name."""
    return {**_onnx(), **_torch(), **_forests(), **_others(tmp_path_factory.mktemp("made"))}


def _onnx() -> dict[str, bytes]:
    x, y = ("x", TensorProto.FLOAT, ["n", 4]), ("y", TensorProto.FLOAT, ["n", 4])
    weights = helper.make_tensor("W", TensorProto.FLOAT, [4, 4], [1.0] * 16)
    onnx = graph([helper.make_node("MatMul", ["x", "W"], ["y"])], [x], [y], [weights])
    outside = ModelProto.FromString(onnx)
    tensor = outside.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "w.data"), ("offset", "0"), ("length", "64")):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value

    def own(node: Any, domain: str = "") -> bytes:
        model = ModelProto.FromString(graph([node], [x], [y]))
        if domain:
            model.opset_import.append(helper.make_opsetid(domain, 1))
        return bytes(model.SerializeToString())

    by_class = {"domain": "ai.onnx.ml", "classlabels_int64s": [0, 1, 2, 3]}
    node = helper.make_node("ZipMap", ["x"], ["y"], **by_class)
    zipmap = ModelProto.FromString(own(node, "ai.onnx.ml"))
    numbers = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    kind = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.INT64, numbers))
    zipmap.graph.output[0].CopyFrom(helper.make_value_info("y", kind))
    integers = [(name, TensorProto.INT32, shape) for name, _, shape in (x, y)]
    return {
        "onnx": onnx,
        "external": bytes(outside.SerializeToString()),
        "my_domain": own(helper.make_node("Foo", ["x"], ["y"], domain="my.dom"), "my.dom"),
        "no_import": own(helper.make_node("Foo", ["x"], ["y"], domain="my.dom")),
        "no_such_operator": own(helper.make_node("Foo", ["x"], ["y"])),
        "zipmap": bytes(zipmap.SerializeToString()),
        "wrong_type": graph(
            [helper.make_node("Sigmoid", ["x"], ["y"])], integers[:1], integers[1:]
        ),
    }


def _torch() -> dict[str, bytes]:
    import torch
    from safetensors.torch import save

    class Two(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a + b

    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor, scale: float) -> torch.Tensor:
            return x * scale

    class Relu(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x)

    def scripted(module: Any) -> bytes:
        target = io.BytesIO()
        torch.jit.save(torch.jit.script(module), target)
        return target.getvalue()

    state = io.BytesIO()
    torch.save(torch.nn.Linear(4, 4).state_dict(), state)
    old = io.BytesIO()
    torch.save(torch.nn.Linear(4, 4).state_dict(), old, _use_new_zipfile_serialization=False)
    vision = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(scripted(Relu()))) as source,
        zipfile.ZipFile(vision, "w") as target,
    ):
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename.endswith(".py"):
                content = content.replace(b"torch.relu", b"ops.torchvision.nms")
            target.writestr(entry.filename, content)
    return {
        "torchscript": scripted(torch.nn.Linear(4, 4)),
        "torch_two": scripted(Two()),
        "torch_float": scripted(Scaled()),
        "torch_vision": vision.getvalue(),
        "state": state.getvalue(),
        "old_state": old.getvalue(),
        "safetensors": save({"w": torch.ones(4, 4)}),
    }


def _forests() -> dict[str, bytes]:
    import lightgbm
    import pandas
    import treelite
    import xgboost
    from sklearn.ensemble import RandomForestRegressor

    random = np.random.default_rng(0)
    rows = random.random((60, 4))
    target = rows @ [1, 2, 3, 4]
    trees = xgboost.XGBRegressor(n_estimators=2).fit(rows, target).get_booster()
    linear = xgboost.train({"booster": "gblinear"}, xgboost.DMatrix(rows, target), 2)
    table = pandas.DataFrame(rows, columns=list("abcd"))
    table["d"] = pandas.Categorical(random.integers(0, 3, 60).astype(str))
    categories = xgboost.XGBRegressor(n_estimators=2, enable_categorical=True).fit(table, target)
    two = xgboost.XGBRegressor(n_estimators=2, multi_strategy="multi_output_tree").fit(
        rows, np.stack([target, target], 1)
    )
    few: dict[str, Any] = {"verbose": -1, "min_data_in_leaf": 2}
    boosted = lightgbm.train(few, lightgbm.Dataset(rows, target), 2)
    leaves = lightgbm.train({**few, "linear_tree": True}, lightgbm.Dataset(rows, target), 2)
    forest = RandomForestRegressor(2, max_depth=2, random_state=0).fit(rows, target)
    checkpoint = treelite.sklearn.import_model(forest).serialize_bytes()
    return {
        "json": bytes(trees.save_raw("json")),
        "ubj": bytes(trees.save_raw("ubj")),
        "gblinear_json": bytes(linear.save_raw("json")),
        "gblinear_ubj": bytes(linear.save_raw("ubj")),
        "categories": bytes(categories.get_booster().save_raw("json")),
        "targets": bytes(two.get_booster().save_raw("json")),
        "dump": json.dumps([json.loads(t) for t in trees.get_dump(dump_format="json")]).encode(),
        "settings": trees.save_config().encode(),
        "lightgbm": boosted.model_to_string().encode(),
        "linear_tree": leaves.model_to_string().encode(),
        "treelite": checkpoint,
        "other_treelite": b"\x09" + checkpoint[1:],
        "pickle": pickle.dumps(forest),
    }


def _others(folder: Path) -> dict[str, bytes]:
    import openvino
    import torch

    module = openvino.convert_model(torch.nn.Linear(4, 4), example_input=torch.ones(1, 4))
    openvino.save_model(module, folder / "model.xml")
    xml = (folder / "model.xml").read_bytes()
    keras = io.BytesIO()
    with zipfile.ZipFile(keras, "w") as archive:
        for name in ("metadata.json", "config.json", "model.weights.h5"):
            archive.writestr(name, "{}")
    return {
        "ov_xml": xml,
        "ov_bin": (folder / "model.bin").read_bytes(),
        "ov_operator": xml.replace(b'type="MatMul"', b'type="FooMul"'),
        "ov_old": re.sub(rb'(<net [^>]*version=)"\d+"', rb'\1"7"', xml, count=1),
        "keras": keras.getvalue(),
        # saved_model_schema_version: 1, meta_graphs { meta_info_def { tags: "train" } }
        "tag": b"\x08\x01\x12\x09\x0a\x07\x22\x05train",
    }


def _whole(made: dict[str, bytes], wanted: str) -> bytes:
    """One of the files: `onnx`; or the first half of it: `onnx cut`."""
    name, _, cut = wanted.partition(" ")
    return made[name][: len(made[name]) // 2] if cut else made[name]


@pytest.fixture(scope="module")
def refused(server: Triton, made: dict[str, bytes]) -> Iterator[dict[str, LoadError]]:
    """What the server says of each case."""
    for name, (_, head, files, *_) in CASES.items():
        folder = server.repository / name
        for file, content in files.items():
            path = folder / "1" / file if file else folder / "config.pbtxt"
            path.parent.mkdir(parents=True, exist_ok=True)
            if not file:
                continue
            path.write_bytes(content if isinstance(content, bytes) else _whole(made, content))
        more = files.get("", "")
        (folder / "config.pbtxt").write_text(HEADS[head] + str(more))

    def refusal(name: str) -> LoadError:
        with pytest.raises(LoadError) as caught:
            server.load(name, timeout=100)
        return caught.value

    with ThreadPoolExecutor(8) as pool:
        yield dict(zip(CASES, pool.map(refusal, CASES), strict=True))


@pytest.mark.server
@pytest.mark.parametrize("name", CASES)
def test_files_that_a_backend_does_not_read(
    server: Triton, refused: dict[str, LoadError], name: str
) -> None:
    rule, _, _, what, where, todo = CASES[name]
    error = refused[name]
    assert error.rule == rule, str(error)
    assert what in error.what, str(error)
    assert where in error.where, str(error)
    assert todo in error.todo, str(error)
    assert "with error:" not in error.what
    assert str(server.repository) not in error.what
    if rule != "damaged-file":
        assert "LFS" not in str(error)
        assert "cut off" not in error.todo
    if rule == "other-format":
        assert "Rename" not in error.todo
    # The named place exists, except if this is what is missing.
    place = server.repository / name / error.where.partition(",")[0].partition(";")[0]
    assert place.exists() or rule == "external-data", str(error)


def test_whole_files_show_no_damage(made: dict[str, bytes], tmp_path: Path) -> None:
    """Every file is recognized from its bytes, and no whole file is called damaged."""
    wanted = {
        "onnx": "onnx", "external": "onnx", "zipmap": "onnx", "torchscript": "torchscript",
        "state": "state dict", "old_state": "state dict", "safetensors": "safetensors",
        "json": "xgboost_json", "ubj": "xgboost_ubj", "gblinear_ubj": "xgboost_ubj",
        "lightgbm": "lightgbm", "linear_tree": "lightgbm", "pickle": "pickle", "ov_xml": "ir",
        "keras": "keras",
    }  # fmt: skip
    for name, content in made.items():
        path = tmp_path / name
        path.write_bytes(content)
        assert file_formats.damage(path) is None, name
        if name in wanted:
            assert file_formats.by_bytes(path) == wanted[name], name
    for name in ("onnx", "torchscript", "json", "ubj", "lightgbm", "safetensors", "ov_xml"):
        path.write_bytes(made[name][: len(made[name]) // 2])
        assert file_formats.damage(path) is not None, name
    (tmp_path / "w.xml").write_bytes(made["ov_xml"])
    (tmp_path / "w.bin").write_bytes(made["ov_bin"])
    assert file_formats.damage(tmp_path / "w.bin") is None
    (tmp_path / "w.bin").write_bytes(made["ov_bin"][:-1])
    assert file_formats.damage(tmp_path / "w.bin") is not None


#: The messages of other ONNX Runtime releases for a missing file of weights.
EXTERNAL = (
    "onnx runtime error 1: Deserialize tensor W failed.GetFileLength for ./w.data failed:open file "
    "./w.data fail, errcode = 2 - unknown error",
    'onnx runtime error 6: Exception during initialization: open file "w.data" failed: No such '
    "file or directory",
    "onnx runtime error 1: filesystem error: cannot get file size: No such file or directory "
    "[/models/m/1/w.data]",
)


@pytest.mark.parametrize("message", EXTERNAL)
def test_other_releases_on_weights_that_are_not_there(
    made: dict[str, bytes], tmp_path: Path, message: str
) -> None:
    folder = tmp_path / "m"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(HEADS["ort"])
    (folder / "1/model.onnx").write_bytes(made["external"])
    error = load_error("m", message, folder)
    assert (error.rule, error.where) == ("external-data", "1/w.data"), str(error)


@pytest.mark.parametrize("file", ["model.engine", "model.trt", "model.plan"])
def test_an_engine_on_a_server_with_a_gpu(tmp_path: Path, file: str) -> None:
    """An engine has several usual endings; a pointer in its place is a pointer."""
    folder = tmp_path / "m"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(f'platform: "tensorrt_plan"\nmax_batch_size: 8\n{IO}')
    (folder / "1" / file).write_bytes(b"ftrt" + bytes(30))
    if file != "model.plan":
        message = "unable to find '/models/m/1/model.plan' for model instance 'm'"
        assert f"Rename {file} to model.plan" in load_error("m", message, folder).todo
    else:
        assert (
            load_error("m", "unable to create TensorRT engine", folder).rule == "engine-elsewhere"
        )
        (folder / "1" / file).write_bytes(LFS)
        error = load_error("m", "unable to create TensorRT engine", folder)
        assert GIT_LFS in error.what


@pytest.mark.server
def test_a_name_of_a_model_is_one_that_an_address_can_hold(
    server: Triton, write_model: Callable[..., Path]
) -> None:
    """Clients write `+` and others as %2B; Triton's HTTP endpoint looks for that very name."""
    from urllib.parse import quote

    import httpx

    code = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
    config = f'backend: "python"\n{IO}'
    for character in "+!$&'()*,;=:@~^[]{}|<>\"`%#?\\ é_-.":
        name = f"a{character}b"
        write_model(name, config, {"1/model.py": code})
        url = f"{server.url}/v2/repository/models/{quote(name, safe='')}/load"
        loads = httpx.post(url, timeout=60).status_code == 200
        try:
            allowed = check_name(name) == name
        except Exception:
            allowed = False
        assert loads or not allowed, name
        assert allowed == (character in "_-."), name
