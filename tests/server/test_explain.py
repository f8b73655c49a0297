"""Cause every entry of the catalogue of failures on a real server: it must say what to do."""

from __future__ import annotations

import dataclasses
import os
import queue
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from onnx import TensorProto, helper
from onnx_graphs import graph
from tritonclient.utils import InferenceServerException

from workbook import lessons
from workbook.common.errors import LoadError, RequestError, ServerError
from workbook.server import Triton
from workbook.server.assemble import find
from workbook.server.catalogue import LOADS, REQUESTS, STARTS, Evidence
from workbook.server.catalogue.evidence import short
from workbook.server.catalogue.rules import Advice, Catalogue, Rule, pattern
from workbook.server.explain import (
    _first_version,
    dangerous_folder,
    explain,
    load_error,
    start_error,
    table,
)
from workbook.server.pbtxt import Scalar
from workbook.zoo.progress import published

IO = """\
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""
HEAD = 'backend: "python"\nmax_batch_size: 8\n'
OK = HEAD + IO
CODE = """\
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        tensors = [pb_utils.get_input_tensor_by_name(r, "x").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", 2 * t)]) for t in tensors]
"""
Files = dict[str, str | bytes]
PYTHON: Files = {"1/model.py": CODE}


def code(*lines: str) -> Files:
    """A model.py whose class ends with more lines (the first is line 7 of the file)."""
    return {"1/model.py": CODE + "".join(f"    {line}\n" for line in lines)}


def warmup(text: str) -> str:
    return f'{OK}model_warmup [ {{ name: "w" batch_size: 1 {text} }} ]\n'


def linear(
    batch: str | int = "n",
    name: str = "x",
    takes: int = TensorProto.FLOAT,
    gives: int = TensorProto.FLOAT,
    added: str = "",
) -> bytes:
    """An ONNX model: y = 2 x, [batch, 4]; or x + `added`, a constant of FP32."""
    return graph(
        [helper.make_node("Add", [name, added or name], ["y"])],
        [(name, takes, [batch, 4])],
        [("y", gives, [batch, 4])],
        [helper.make_tensor(added, TensorProto.FLOAT, [1], [2.0])] if added else [],
    )


def half_answer() -> bytes:
    """An ONNX model that takes FP32 and answers in FP16: [n, 4] → [n, 4]."""
    return graph(
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT16)],
        [("x", TensorProto.FLOAT, ["n", 4])],
        [("y", TensorProto.FLOAT16, ["n", 4])],
    )


def batch_alone() -> bytes:
    """An ONNX model with one value per row, and no dimension for it: [n, 4] → [n]."""
    return graph(
        [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)],
        [("x", TensorProto.FLOAT, ["n", 4])],
        [("y", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor("axes", TensorProto.INT64, [1], [1])],
    )


def dali(config: str) -> tuple[str, Files]:
    """A DALI pipeline that declares no type of its input or output (see `weights`)."""
    return f'backend: "dali"\nmax_batch_size: 8\n{config}', {"1/model.dali": "PIPELINE"}


def torch_file(file: str, head: str = 'platform: "pytorch_libtorch"\n') -> tuple[str, Files]:
    """A model whose file `weights` saves: TorchScript, a state dict or an exported program."""
    return f"{head}max_batch_size: 8\n{IO}", {file: ""}


def openvino_bounded(dims: str) -> tuple[str, Files]:
    """A model that finds the positions in x that are not 0 (see `weights`)."""
    config = f"""backend: "openvino"
max_batch_size: 0
input [ {{ name: "x" data_type: TYPE_FP32 dims: [ 1, 8 ] }} ]
output [ {{ name: "y" data_type: TYPE_INT64 dims: [ {dims} ] }} ]
"""
    return config, {"1/model.xml": ""}


def openvino_option(key: str, value: str) -> tuple[str, Files]:
    """A good model (see `weights`) with one parameter."""
    parameter = f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}\n'
    config = 'backend: "openvino"\nmax_batch_size: 0\n' + IO.replace("[ 4 ]", "[ -1, 4 ]")
    return config + parameter, {"1/model.xml": ""}


def saved_model(more: str = "", output: str = "y") -> tuple[str, Files]:
    """A SavedModel with two signatures: x → y, and `predict`, x → z (see `weights`)."""
    config = 'platform: "tensorflow_savedmodel"\nmax_batch_size: 8\n'
    config += IO.replace('"y"', f'"{output}"') + more
    return config, {"1/model.savedmodel/saved_model.pb": ""}


IN, OUT = IO.splitlines(keepends=True)
FIL_IO = IO.replace('"x"', '"input__0"').replace('"y"', '"output__0"')
ORT = 'platform: "onnxruntime_onnx"\nmax_batch_size: 8\ninstance_group [ { count: 1 } ]\n'


def onnx_case(config: str, model: bytes | None = None) -> tuple[str, Files]:
    return ORT + config, {"1/model.onnx": linear() if model is None else model}


def ensemble(
    member: str = "good",
    version: str = "-1",
    x: str = "x",
    y: str = "y",
    tensor_x: str = "x",
    tensor_y: str = "y",
    io: str = IO,
    more: str = "",
    batch: int = 8,
) -> tuple[str, Files]:
    step = (
        f'{{\n    model_name: "{member}"\n    model_version: {version}\n'
        f'    input_map {{ key: "{x}" value: "{tensor_x}" }}\n'
        f'    output_map {{ key: "{y}" value: "{tensor_y}" }}\n  }}{more}'
    )
    config = (
        f'platform: "ensemble"\nmax_batch_size: {batch}\n{io}'
        f"ensemble_scheduling {{\n  step [ {step} ]\n}}\n"
    )
    return config, {"1/.keep": ""}


def steps(*tensors: str) -> tuple[str, Files]:
    """An ensemble of `good`, with the tensors that each step takes and gives."""
    each = [
        f'{{ model_name: "good" model_version: -1 input_map {{ key: "x" value: "{x}" }} '
        f'output_map {{ key: "y" value: "{y}" }} }}'
        for x, y in zip(tensors[::2], tensors[1::2], strict=True)
    ]
    head = f'platform: "ensemble"\nmax_batch_size: 8\n{IO}'
    return f"{head}ensemble_scheduling {{ step [ {', '.join(each)} ] }}\n", {"1/.keep": ""}


def fil(io: str = "", batch: int = 8, **parameters: str | None) -> tuple[str, Files]:
    """A forest of two classes and 4 features; a parameter of None is left out."""
    given = {"model_type": "treelite_checkpoint", "output_class": "true", "threshold": "0.5"}
    lines = [
        f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'
        for key, value in {**given, **parameters}.items()
        if value is not None
    ]
    config = f'backend: "fil"\nmax_batch_size: {batch}\n{io or FIL_IO}{"".join(lines)}'
    return config, {"1/checkpoint.tl": "FOREST"}


@dataclasses.dataclass
class Case:
    """A broken model folder, and the message that it must get."""

    rule: str
    config: str | bytes
    where: str
    todo: str
    files: Files = dataclasses.field(default_factory=lambda: PYTHON)
    what: str = ""
    #: Only the server's log has the reason; without it the entry says how to read the log.
    log_only: bool = False


def case(
    rule: str, source: str | bytes | tuple[str, Files], where: str, todo: str, **more: Any
) -> Case:
    if isinstance(source, tuple):
        return Case(rule, source[0], where, todo, source[1], **more)
    return Case(rule, source, where, todo, **more)


def at(line: int, field: str) -> str:
    """The place of a field in the config."""
    return f"config.pbtxt, line {line}, field {field}"


SECOND = (
    '  }}, {{\n    model_name: "{}"\n    model_version: -1\n    input_map {{ key: "x" value: "z" }}'
)

CASES: dict[str, Case] = {
    "binary": case("binary-config", b"\x00\x01\xff\xfejunk\x00" * 9, "config.pbtxt", "plain text"),
    "bom": case("byte-order-mark", ("\ufeff" + OK).encode(), "line 1", "without BOM"),
    "quotes": case("foreign-character", OK.replace('"python"', "\u201cpython\u201d"),
         "config.pbtxt, line 1, column 10", 'Write " in its place'),
    "name_of_a_file": case("unsafe-name",
         (OK + 'default_model_filename: "my model.py"\n', {"1/my model.py": CODE}),
         at(5, "default_model_filename"), "Use letters, digits and"),
    "map": case("map-entry", OK + 'parameters { threads: "4" }\n', at(5, "parameters.threads"),
         'parameters { key: "threads" value { string_value: "4" } }'),
    "misspelt": case("misspelt-field", OK.replace("max_batch_size", "max_batchsize"),
         at(2, "max_batchsize"), "Write max_batch_size in place"),
    "misplaced": case("misspelt-field", OK + "preferred_batch_size: [ 4 ]\n",
         at(5, "preferred_batch_size"), "Move preferred_batch_size into dynamic_batching"),
    "enum": case("enum-value", OK.replace("TYPE_FP32", "FP32"), at(3, "input[0].data_type"),
         "Write TYPE_FP32"),
    "enum_quoted": case("quoted-enum", OK.replace("TYPE_FP32", '"TYPE_FP32"'),
         at(3, "input[0].data_type"), "Write TYPE_FP32, without quotes"),
    "unquoted": case("unquoted-string", OK.replace('"python"', "python"), at(1, "backend"),
         'backend: "python"'),
    "quoted_number": case("not-an-integer", OK.replace(": 8", ': "8"'), at(2, "max_batch_size"),
         "max_batch_size: 8, without quotes"),
    "fraction": case("not-an-integer", OK.replace(": 8", ": 8.5"), at(2, "max_batch_size"), ": 8."),
    "round_list": case("not-an-integer", OK.replace("[ 4 ]", "(4)"), "config.pbtxt, line 3",
         "square brackets"),
    "list_without_brackets": case("list-without-brackets",
         OK + "version_policy { specific { versions: 1, 3 } }\n", at(5, "versions"),
         "Write versions: [ 1, 3 ]"),
    "boolean": case("not-a-boolean", OK + "response_cache { enable: yes }\n",
         at(5, "response_cache.enable"), "enable: true"),
    "twice": case("field-twice", OK + 'backend: "python"\n', "lines 1 and 5, field backend",
         "Keep the one"),
    "two_batchers": case("one-of-two", OK + "sequence_batching { }\ndynamic_batching { }\n",
         "lines 5 and 6, field dynamic_batching", "For a model with state keep sequence_batching"),
    "ensemble_batcher": case("one-of-two", ensemble()[0] + "dynamic_batching { }\n",
         "field dynamic_batching", "an ensemble does not batch"),
    "open_quote": case("unclosed-string", OK.replace('"python"', '"python'), at(1, "backend"),
         'Write "python"'),
    "json": case("json-config", '{ "backend": "python" }', "config.pbtxt, line 1", "backend:"),
    "slashes": case("comment-sign", f"// my model\n{OK}", "config.pbtxt, line 1", "Write #"),
    "no_colon": case("missing-colon", OK.replace('backend: "', 'backend "'), at(1, "backend"),
         'Write backend: "python"'),
    "trailing_comma": case("trailing-comma", OK.replace("} ]\noutput", "}, ]\noutput"), "line 3",
         "comma before ]"),
    "open_brace": case("unclosed-bracket", OK.replace("[ 4 ] } ]\noutput", "[ 4 ] ]\noutput"),
         at(3, "input[0]"), "Write }"),
    "no_comma": case("missing-comma",
         OK.replace("} ]\noutput", '} { name: "z" data_type: TYPE_FP32 dims: [ 4 ] } ]\noutput'),
         "config.pbtxt, line 3", "Write a comma"),
    "plain_value": case("section-expected", OK + 'parameters { key: "a" value: "x" }\n',
         at(5, "parameters.value"), 'value { string_value: "x" }'),
    "plain_policy": case("section-expected", OK + 'version_policy: "all"\n',
         at(5, "version_policy"), "version_policy { all { } }"),
    "nonsense": case("not-text-format", OK + "?!\n", "config.pbtxt, line 5", "name:"),
    "platform": case("unknown-platform", OK.replace('backend: "python"', 'platform: "python"'),
         at(1, "platform"), 'Write backend: "python"'),
    "platform_near": case("unknown-platform",
         OK.replace('backend: "python"', 'platform: "onnxruntime-onnx"'), at(1, "platform"),
         'Write platform: "onnxruntime_onnx"'),
    "backend_platform": case("unknown-backend", 'backend: "onnxruntime_onnx"\n' + IO,
         at(1, "backend"), 'Write platform: "onnxruntime_onnx" or backend: "onnxruntime".',
         files={"1/model.onnx": "w"}, what='"onnxruntime_onnx" is a platform'),
    "backend": case("unknown-backend", OK.replace('"python"', '"pythn"'), at(1, "backend"),
         'Write backend: "python"'),
    "unknown_kind": case("no-backend", b"", "config.pbtxt", "Write backend:",
         files={"1/weights.bin": "w"}, what="1/ holds weights.bin, and there is no config.pbtxt"),
    "misnamed_config": case("no-backend", b"", "config.pbtxt", "Rename config.pbtxt.txt",
         files={"config.pbtxt.txt": OK, "1/weights.bin": "w"}),
    "name": case("name-differs", 'name: "other"\n' + OK, at(1, "name"), 'Write name: "name"'),
    "preferred": case("preferred-over-max",
         OK + "dynamic_batching {\n  preferred_batch_size: [ 4,\n   16 ]\n}\n",
         at(7, "dynamic_batching.preferred_batch_size"), "Write at most 8", log_only=True),
    "priority": case("priority-out-of-range",
         OK + "dynamic_batching { priority_levels: 2 default_priority_level: 5 }\n",
         at(5, "dynamic_batching.default_priority_level"), "from 1 to 2", log_only=True),
    "control": case("control-values",
         OK + 'sequence_batching { control_input [ { name: "S"\n control [ {' +
          " kind: CONTROL_SEQUENCE_START int32_false_true: [ 0 ] } ] } ] }\n",
         "line 6, field sequence_batching.control_input[0].control[0].kind",
         "int32_false_true: [ 0, 1 ]", log_only=True),
    "cached_stream": case("decoupled-cache",
         OK + "response_cache { enable: true }\nmodel_transaction_policy { decoupled: true }\n",
         at(5, "response_cache"), "Take response_cache out", log_only=True),
    "agent": case("no-repository-agent",
         OK + 'model_repository_agents { agents [ { name: "checksum" } ] }\n',
         at(5, "model_repository_agents"), "Take model_repository_agents out", log_only=True),
    "sequence_cache": case("sequence-cache",
         OK + "response_cache { enable: true }\nsequence_batching { }\n", at(5, "response_cache"),
         "Take response_cache out", log_only=True),
    "control_id": case("control-values",
         OK + 'sequence_batching { control_input [ { name: "C" control [ {\n kind: '
          "CONTROL_SEQUENCE_CORRID fp32_false_true: [ 0, 1 ] } ] } ] }\n",
         at(6, "sequence_batching.control_input[0].control[0].kind"), "Take the pair of values out",
         log_only=True),
    **{f"state_{name}": case("sequence-state", OK +
         'sequence_batching { state [ { input_name: "i" output_name: "o" data_type: '
         f"TYPE_FP32 dims: [ {dims} ]\n initial_state: {{ {text} }} }} ] }}\n", at(6,
         "sequence_batching.state[0].initial_state"), "the data_type and the dims of its state",
         what=message) for name, dims, text, message in (("type", 1,
         'name: "s" data_type: TYPE_INT32 dims: 1 zero_data: true',
         "does not match the state data type"), ("name", 1,
         "data_type: TYPE_FP32 dims: 1 zero_data: true", "'name' must be set"), ("dims", 1,
         'name: "s" data_type: TYPE_FP32 dims: [ 1, 2 ] zero_data: true', "2 != 1"), ("open", -1,
         'name: "s" data_type: TYPE_FP32 dims: -1 zero_data: true', "contains variable dimensions"
         ))},
    "state_file": case("file-unreadable",
         OK +
          'sequence_batching { state [ { input_name: "i" output_name: "o" data_type: TYPE_FP32 '
          'dims: 4\n initial_state: { name: "s" data_type: TYPE_FP32 dims: 4 data_file: "f" }'
          " } ] }\n", at(6, "sequence_batching.state[0].initial_state.data_file"),
         "Put f there, as state_file/initial_state/f"),
    "gpus_of_a_model": case("gpus-on-cpu",
         OK + "instance_group [ { kind: KIND_MODEL gpus: [ 0 ] } ]\n",
         at(5, "instance_group[0].gpus"), "Take gpus out, or write kind: KIND_GPU"),
    "version_word": case("no-version", OK, "version_word/", "Rename v1/ to 1/",
         files={"v1/model.py": CODE}),
    "version_none": case("no-version", OK, "version_none/", "Move model.py into the folder",
         files={"model.py": CODE}),
    "version_three": case("no-version", OK + "version_policy { specific { versions: [ 3 ] } }\n",
         at(5, "version_policy.specific.versions"), "Write versions: [ 1 ]"),
    "brace": case("missing-brace",
         OK + 'parameters { key: "a" value { string_value: "1" }\n\n'
          'parameters { key: "b" value { string_value: "2" } }\n', "config.pbtxt, line 5",
         "Write } before line 7.", what="parameters, which begins on line 5, is still open"),
    "no_data_type": case("no-data-type", HEAD + IO.replace("data_type: TYPE_FP32 ", "", 1),
         at(3, "input[0]"), "data_type: TYPE_FP32"),
    "no_dims": case("no-dims", HEAD + IO.replace("dims: [ 4 ] ", "", 1), at(3, "input[0]"),
         "dims:"),
    "dim_zero": case("bad-dim", HEAD + IO.replace("[ 4 ]", "[ 0 ]", 1), at(3, "input[0].dims"),
         "-1 for a size"),
    "nameless": case("tensor-without-name", HEAD + IO.replace('name: "x" ', "", 1),
         at(3, "input[0]"), "name:"),
    "gpu": case("no-gpu", OK + "instance_group [ { kind: KIND_GPU } ]\n",
         at(5, "instance_group[0].kind"), "Leave kind out"),
    "gpu_openvino": case("no-gpu",
         OK.replace('"python"', '"openvino"') + "instance_group [ { kind: KIND_GPU } ]\n",
         at(5, "instance_group[0].kind"),
         "Write KIND_CPU, or leave kind out. Instances of OpenVINO models are KIND_CPU",
         files={"1/model.xml": ""}),
    "gpu_0_openvino": case("unknown-gpu",
         OK.replace('"python"', '"openvino"') +
          "instance_group [ { kind: KIND_GPU gpus: [ 0 ] } ]\n", at(5, "instance_group[0].gpus"),
         "Take gpus out. Write KIND_CPU, or leave kind out. Instances of OpenVINO",
         files={"1/model.xml": ""}),
    "gpus_on_cpu_openvino": case("gpus-on-cpu",
         OK.replace('"python"', '"openvino"') +
          "instance_group [ { kind: KIND_CPU gpus: [ 0 ] } ]\n", at(5, "instance_group[0].gpus"),
         "Take gpus out. Instances of OpenVINO models are KIND_CPU", files={"1/model.xml": ""}),
    "gpu_seven": case("unknown-gpu", OK + "instance_group [ { kind: KIND_GPU gpus: [ 7 ] } ]\n",
         at(5, "instance_group[0].gpus"), "Leave gpus and kind out"),
    "warmup_name": case("warmup-input",
         warmup('inputs { key: "z" value { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } }'),
         "model_warmup[0].inputs.key", 'key: "x"'),
    "warmup_type": case("warmup-input",
         warmup('inputs { key: "x" value { data_type: TYPE_INT32 dims: [ 4 ] zero_data: true } }'),
         "model_warmup[0].inputs.value.data_type", "data_type: TYPE_FP32"),
    "warmup_bytes": case("warmup-data",
         warmup('inputs { key: "x" value { data_type: TYPE_FP32 dims: 4 input_data_file: "r" } }'),
         "input_data_file", "tofile()", files={**PYTHON, "warmup/r": "abc"},
         what="The warm-up's file warmup/r has 3 bytes, its dims need 16."),
    **{f"warmup_{name}": case("warmup-strings", (OK +
         'model_warmup [ { name: "w" batch_size: 1 inputs { key: "x" value {\n'
         f'data_type: TYPE_STRING dims: {dims} input_data_file: "raw" }} }} }} ]\n') .replace(
         "TYPE_FP32 dims: [ 4 ]", "TYPE_STRING dims: [ -1 ]"),
         "warmup/raw (config.pbtxt, line 6, field model_warmup[0].inputs.value.input_data_file)",
         "serialize_byte_tensor(array)", files={**PYTHON, "warmup/raw": raw}, what=what) for name,
         dims, raw, what in (("plain", 1, "abc", "each string has its length in front"), ("text",
         1, "a line of text", "each string has its length in front"), ("less", 3, b"\1\0\0\0a",
         "It holds 1 string; dims: [ 3 ] wants 3."), ("more", 1, b"\1\0\0\0a\1\0\0\0b",
         "It holds 2 strings; dims: [ 1 ] wants 1."))},
    "environment": case("no-environment",
         OK + 'parameters { key: "EXECUTION_ENV_PATH" value { ' +
          'string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }\n', at(5, "parameters"),
         "venv-pack -o env.tar.gz"),
    "environment_dollar": case("environment-one-dollar",
         OK + 'parameters { key: "EXECUTION_ENV_PATH" value { ' +
          'string_value: "$TRITON_MODEL_DIRECTORY/env.tar.gz" } }\n', at(5, "parameters"),
         "Write two"),
    "environment_folder": case("no-environment",
         OK + 'parameters { key: "EXECUTION_ENV_PATH" value { ' +
          'string_value: "$$TRITON_MODEL_DIRECTORY/env" } }\n', at(5, "parameters"),
         "bin must be at the top", files={**PYTHON, "env/inner/bin/activate": ""}),
    "environment_junk": case("broken-environment",
         OK + 'parameters { key: "EXECUTION_ENV_PATH" value { ' +
          'string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }\n', at(5, "parameters"),
         "Pack it again", files={**PYTHON, "env.tar.gz": "junk"}),
    "parameter": case("bad-parameter",
         OK + 'parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "x" } }\n',
         at(5, "parameters"), '"true" or "false"'),
    "syntax": case("syntax-error", OK, "1/model.py, line 7: def initialize(self args):",
         "Correct this line", files=code("def initialize(self args):", "    pass")),
    "indent": case("syntax-error", OK, "1/model.py, line 8", "Let the line begin",
         files=code("def initialize(self, args):", "pass")),
    "class_name": case("no-model-class", OK, "1/model.py, line 3: class MyModel:", "Rename MyModel",
         files={"1/model.py": CODE.replace("TritonPythonModel", "MyModel")}),
    "beside_name": case("import-name", OK, "1/model.py, line 1: from .writing import Answr",
         "Write Answer in place of Answr.", what="1/writing.py has no Answr.",
         files={"1/model.py": f"from .writing import Answr\n{CODE}",
          "1/writing.py": "class Answer:\n    pass\n"}),
    "package": case("missing-package", OK, "1/model.py, line 1: import cv3", "pip install cv3",
         files={"1/model.py": f"import cv3\n{CODE}"}),
    "package_name": case("missing-package", OK, "1/model.py, line 8, in initialize: import skimage",
         "pip install scikit-image",
         files=code("def initialize(self, args):", "    import skimage")),
    "package_misspelt": case("missing-package", OK, "1/model.py, line 1: import nunpy",
         "Did you mean numpy? Write numpy in place of nunpy.",
         files={"1/model.py": f"import nunpy\n{CODE}"}),
    "import_name": case("import-name", OK, "1/model.py, line 1: from numpy import ary",
         "Correct the name, or install the version of numpy",
         files={"1/model.py": f"from numpy import ary\n{CODE}"}),
    "import_standard": case("import-name", OK, "1/model.py, line 1: from json import lod",
         "Correct the name: Python's own module json has no such name.",
         files={"1/model.py": f"from json import lod\n{CODE}"}),
    "signature": case("method-signature", OK, "1/model.py, line 7: def initialize(self):",
         "def initialize(self, args)", files=code("def initialize(self):", "    pass")),
    "completes_none": case("auto-complete-returns-nothing", OK, "1/model.py",
         "return auto_complete_model_config",
         files=code("@staticmethod", "def auto_complete_config(config):", "    pass")),
    "completes_key": case("auto-complete-property", OK,
         "1/model.py, line 9, in auto_complete_config", '"data_type"',
         files=code("@staticmethod", "def auto_complete_config(config):",
          "    config.add_input({'name': 'x', 'dtype': 'TYPE_FP32', 'dims': [4]})")),
    "completes_batch": case("auto-complete-batch", OK, "1/model.py, line 9",
         "set_max_batch_size(8)",
         files=code("@staticmethod", "def auto_complete_config(config):",
          "    config.set_max_batch_size(4)")),
    "completes_type": case("tensor-data-type", OK, at(3, "input[0].data_type"),
         "1/model.py, line 9",
         files=code("@staticmethod", "def auto_complete_config(config):",
          "    config.add_input({'name': 'x', 'data_type': 'TYPE_INT32', 'dims': [4]})")),
    "dies": case("process-died", OK, "1/model.py", "too little memory",
         files=code("def initialize(self, args):", "    import os", "    os._exit(3)")),
    "opens": case("file-not-found", OK, "1/model.py, line 8, in initialize: open('w.bin')",
         "lies in the model's folder as 1/w.bin",
         files={**code("def initialize(self, args):", "    open('w.bin')"), "1/w.bin": "w"}),
    "raises": case("python-exception", OK,
         "1/model.py, line 10, in helper: raise ValueError('no weights')", "Correct 1/model.py",
         files=code("def initialize(self, args):", "    self.helper()", "def helper(self):",
          "    raise ValueError('no weights')"),
         what="raised ValueError in initialize: no weights"),
    "unwritten": case("python-exception", OK,
         "1/model.py, line 8, in initialize: raise NotImplementedError",
         "Write this part in place of line 8, and load the model again.",
         files=code("def initialize(self, args):", "    raise NotImplementedError"),
         what="A part of unwritten is not written yet: initialize in 1/model.py."),
    "json_text": case("python-exception", OK, "1/model.py, line 8", "json.loads",
         files=code("def initialize(self, args):", "    args['model_config']['input']")),
    "e_unused": case("ensemble-unused", ensemble(tensor_x="xx"), "input_map.value",
         'Write value: "x"', log_only=True),
    "e_unused_more": case("ensemble-unused",
         ensemble(io=IO.replace("] } ]\noutput",
          '] }, { name: "mask" data_type: TYPE_FP32 dims: [ 4 ] } ]\noutput')), at(3, "input[1]"),
         "Map it in a step", log_only=True),
    "e_unused_tensor": case("ensemble-tensor-unused", steps("x", "y", "x", "spare"),
         "step[1].output_map.value", "take this output_map out",
         what='gives the tensor "spare", and nothing takes it', log_only=True),
    "e_from_nowhere": case("ensemble-tensor-missing", steps("x", "spare", "spares", "y"),
         "step[1].input_map.value", 'Write value: "spare"',
         what='takes the tensor "spares", and no step gives it', log_only=True),
    "e_never": case("ensemble-tensor-missing", steps("x", "spare", "b", "a", "a", "b", "a", "y"),
         "input_map.value", "without a circle", what='"y" can never be computed', log_only=True),
    "e_instances": case("ensemble-instances",
         ("instance_group [ { count: 1 } ]\n" + ensemble()[0], ensemble()[1]),
         at(1, "instance_group"), "Take instance_group out", log_only=True),
    "e_optimization": case("ensemble-field",
         ("optimization { graph { level: 1 } }\n" + ensemble()[0], ensemble()[1]),
         at(1, "optimization"), "Take optimization out", log_only=True),
    "e_and_backend": case("ensemble-platform",
         ('backend: "python"\n' + ensemble()[0], ensemble()[1]), at(1, "backend"),
         "Take the line backend out", log_only=True),
    "e_missing": case("ensemble-member-missing", ensemble(member="goood"), "step[0].model_name",
         'Write model_name: "good"'),
    "e_broken": case("ensemble-member-missing", ensemble(member="platform"),
         "platform/config.pbtxt", "Load platform alone"),
    "e_failing": case("ensemble-member-failed", ensemble(member="package"),
         "the mistake is in package/", "Load package alone", what="No module named 'cv3'"),
    "e_version": case("ensemble-member-version", ensemble(version="7"), "step[0].model_version",
         "model_version: -1"),
    "e_input": case("ensemble-map", ensemble(x="xx"), "input_map", 'Write key: "x"',
         what='has no input "xx"'),
    "e_dims": case("ensemble-shape", ensemble(io=IO.replace("[ 4 ]", "[ 5 ]", 1)),
         at(3, "input[0].dims"), "Write dims: [4]"),
    "e_type": case("ensemble-data-type", ensemble(io=IO.replace("FP32", "INT32", 1)),
         at(3, "input[0].data_type"), "Write data_type: TYPE_FP32"),
    "e_batch": case("ensemble-batch", ensemble(batch=16), at(2, "max_batch_size"),
         "max_batch_size: 8"),
    "llm_no_arguments": case("engine-arguments-missing", ('backend: "vllm"\n', {"1/.keep": ""}),
         "1/", 'e.g. {"model": "…"}'),
    "llm_parameter": case("engine-arguments-missing",
         ('backend: "vllm"\nparameters { key: "model_checkpoint" value { string_value: "/w" } }\n',
          { "1/.keep": ""}), "1/",
         'e.g. {"model": "/w"}. The backend does not read the parameter model_checkpoint'),
    "llm_no_json": case("engine-arguments-broken",
         ('backend: "vllm"\n', {"1/model.json": '{"model": "x",}'}), "1/model.json",
         "no comma after the last entry", what="is not JSON"),
    "llm_batches": case("engine-batches",
         ('backend: "vllm"\nmax_batch_size: 4\n', {"1/model.json": "{}"}), at(2, "max_batch_size"),
         "Write max_batch_size: 0"),
    "llm_gpu": case("engine-kind",
         ('backend: "vllm"\ninstance_group [ { kind: KIND_GPU } ]\n', {"1/model.json": "{}"}),
         at(2, "instance_group[0].kind"), "Write KIND_MODEL"),
    "trtllm_package": case("engine-package", (OK, {"1/model.py": "from tensorrt_llm import LLM\n"}),
         "1/model.py", "trtllm-python-py3"),
    "ort_type": case("tensor-data-type", onnx_case(IO.replace("FP32", "INT64", 1)),
         at(4, "input[0].data_type"), "Write data_type: TYPE_FP32"),
    "ort_batch_in_dims": case("tensor-dims", onnx_case(IO.replace("[ 4 ]", "[ -1, 4 ]", 1)),
         at(4, "input[0].dims"), "Write dims: [ 4 ]. Triton puts the batch in front",
         what="hold the batch as well"),
    "ort_unbatched": case("tensor-dims", (ORT.replace("8", "0") + IO, {"1/model.onnx": linear()}),
         at(4, "input[0].dims"),
         "Write dims: [ -1, 4 ], and the batch in front of the other tensors too; or a "
          "max_batch_size above 0, with which [ 4 ] is right.",
         what="max_batch_size is 0, so the dims"),
    "ort_unbatched_dims": case("tensor-dims",
         (ORT.replace("8", "0") + IO.replace("4", "-1, 5"), {"1/model.onnx": linear()}),
         at(4, "input[0].dims"), "Write dims: [ -1, 4 ].", what="the model has [ -1, 4 ]."),
    "ort_fixed": case("fixed-batch", onnx_case(IO, linear(1)), at(2, "max_batch_size"),
         "Export the model with a variable first dimension (torch.onnx.export: dynamic_shapes, or "
          "dynamic_axes where dynamo is False). Or write max_batch_size: 0 and dims: [ 1, 4 ] (the "
          "batch included): that gives up batching, and each request must have exactly 1 row."),
    "ort_name": case("tensor-name", onnx_case(IO.replace('"x"', '"X"')), at(4, "input[0].name"),
         'Write name: "x"'),
    "ort_more": case("number-of-tensors",
         onnx_case(IO.replace("] } ]\noutput",
          '] }, { name: "w" data_type: TYPE_FP32 dims: [ 4 ] } ]\noutput')), at(4, "input[0]"),
         "List every input"),
    "ort_missing": case("missing-file", (ORT + IO, {"1/net.onnx": linear()}), "1/",
         'write default_model_filename: "net.onnx"'),
    "other_backend": case("missing-file", ('backend: "pytorch"\n' + IO, {"1/model.onnx": linear()}),
         at(1, "backend"), 'Write backend: "onnxruntime"', what="names pytorch"),
    "ort_renamed": case("missing-file",
         ('default_model_filename: "net.onx"\n' + ORT + IO, {"1/net.onnx": linear()}),
         at(1, "default_model_filename"), "net.onnx"),
    "ort_junk": case("damaged-file", onnx_case(IO, b"version https://git-lfs"), "1/model.onnx",
         "git lfs pull"),
    "ort_types": case("onnx-types-differ",
         onnx_case(IO, linear(takes=TensorProto.FLOAT16, added="c")), "1/",
         "one that belongs to them was not: the message names the node",
         what="Add takes tensor(float16) and tensor(float)"),
    "ort_declared": case("onnx-types-differ", onnx_case(IO, linear(gives=TensorProto.FLOAT16)),
         "1/", "convert the fp32 model once more", what="y is declared as tensor(float16)"),
    "ort_accelerator": case("unknown-accelerator",
         onnx_case(IO + "optimization { execution_accelerators { cpu_execution_accelerator "
          '[ { name: "openvno" } ] } }\n'), at(6, "optimization.execution_accelerators"),
         'Write name: "openvino"'),
    "trt": case("needs-gpu",
         (f'platform: "tensorrt_plan"\nmax_batch_size: 8\n{IO}', {"1/model.plan": "p"}),
         at(1, "platform"), "onnxruntime_onnx"),
    "torch": case("torch-names",
         ('platform: "pytorch_libtorch"\nmax_batch_size: 8\n' + IO +
          'sequence_batching { control_input [ { name: "START"\n control [ { kind: '
          "CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ] }\n", {"1/model.pt": ""}),
         at(5, "sequence_batching.control_input[0].name"), 'Write name: "START__0"'),
    "torch_number": case("torch-names",
         torch_file("1/model.pt")[0].replace('"x"', '"INPUT__1"').replace('"y"', '"OUTPUT__0"'),
         at(3, "input[0].name"), 'Write name: "INPUT__0"', what="one argument, number 0",
         files={"1/model.pt": ""}),
    "torch_saved": case("other-format",
         ('platform: "pytorch_libtorch"\nmax_batch_size: 8\n' + IO, {"1/model.pt": ""}),
         "1/model.pt", "torch.jit.script", what="1/model.pt is a file of torch.save"),
    "torch_exported": case("other-format", torch_file("1/model.pt"), "1/model.pt",
         "or export the module as ONNX", what="1/model.pt is a file of torch.export"),
    "torch_pt2": case("missing-file", torch_file("1/model.pt2"), "1/model.pt2",
         'torch.jit.script(module.eval()).save("model.pt")', what="reads TorchScript only"),
    "torch_pt2_named": case("other-format",
         torch_file("1/model.pt2", 'backend: "pytorch"\ndefault_model_filename: "model.pt2"\n'),
         "1/model.pt2", "or export the module as ONNX",
         what="1/model.pt2 is a file of torch.export"),
    "torch_aoti_both": case("platform-and-backend",
         torch_file("1/model.pt2", 'backend: "pytorch"\nplatform: "torch_aoti"\n'),
         at(2, "platform"), "or export the module as ONNX", what="later releases of Triton have",
         log_only=True),
    "platform_and_backend": case("platform-and-backend",
         torch_file("1/model.onnx", 'backend: "pytorch"\nplatform: "onnxruntime_onnx"\n'),
         at(1, "backend"), "Take the line backend out",
         what='The backend "pytorch" and the platform "onnxruntime_onnx"', log_only=True),
    "dali_no_outputs": case("pipeline-tensor", dali(IN), "config.pbtxt",
         'Write output [ { name: "…" data_type: TYPE_… dims: [ … ] } ]',
         what="The config has no output for what the pipeline returns"),
    "dali_no_inputs": case("pipeline-tensor", dali(OUT), "config.pbtxt",
         'Write input [ { name: "x" data_type: TYPE_… dims: [ … ] } ]',
         what='The config lacks the pipeline\'s input "x"'),
    "dali_cut": case("broken-pipeline", dali(IO), "1/model.dali", "compare its size with",
         what="model.dali cannot be read as a serialized pipeline: it ends inside a field at byte"),
    "dali_python": case("pipeline-program",
         ('backend: "dali"\nmax_batch_size: 8\n' + IO, {"1/dali.py": "import nunpy\n"}),
         "1/dali.py", "run it alone", what="dali.py does not give a pipeline: ModuleNotFoundError"),
    "openvino_bare": case("no-openvino-weights",
         ('backend: "openvino"\nmax_batch_size: 8\n' + IO, {"1/model.xml": ""}), "1/",
         "Copy model.bin", what="OpenVINO's weights are missing"),
    "openvino_auto": case("tensor-dims", ('backend: "openvino"\n', {"1/model.xml": ""}),
         "config.pbtxt", 'Write { name: "x" data_type: TYPE_… dims: [ -1, 4 ] } into input',
         what="completes it with -1 for every dimension where one of them is variable"),
    "openvino_bounded": case("bounded-dims", openvino_bounded("2, 8"), at(4, "output[0].dims"),
         "(dimension 1 may be 1 to 7), e.g. dims: [ 2, 7 ]",
         what='output "y" of the model has a dimension with bounds: dimension 1 is 0 to 8.'),
    "openvino_bounded_open": case("bounded-dims", openvino_bounded("2, -1"),
         at(4, "output[0].dims"), "Or export the model without the bounds.",
         what="takes neither -1 nor a bound for it"),
    "openvino_cut": case("openvino-error",
         ('backend: "openvino"\nmax_batch_size: 8\n' + IO, {"1/model.xml":
          '<?xml version="1.0"?><net name="a" version="11"><lay></net>'}), "1/model.xml",
         "openvino.Core().read_model", what="OpenVINO cannot read 1/model.xml: "),
    "openvino_empty": case("damaged-file",
         ('backend: "openvino"\nmax_batch_size: 8\n' + IO, {"1/model.xml": ""}), "1/model.xml",
         "Copy it again", what="1/model.xml is empty"),
    "openvino_option": case("openvino-error", openvino_option("COMPILATION_NUM_THREADS", "1"),
         at(5, "parameters"), "Take COMPILATION_NUM_THREADS out",
         what="Unsupported property COMPILATION_NUM_THREADS by CPU plugin"),
    "openvino_device": case("openvino-error", openvino_option("TARGET_DEVICE", "TOASTER"),
         at(5, "parameters"), 'Write string_value: "CPU"', what="TOASTER"),
    "signature_unknown": case("unknown-signature",
         saved_model('parameters { key: "TF_SIGNATURE_DEF" value: { string_value: "train" } }\n'),
         at(5, "parameters"), "Write one of predict or serving_default.",
         what='The SavedModel has no signature "train"; it has predict and serving_default.'),
    "signature_other": case("other-signature", saved_model(output="z"), at(4, "output[0].name"),
         'Write parameters { key: "TF_SIGNATURE_DEF" value: { string_value: "predict" } }.',
         what='has no output "z"; the signature "predict" of the same file has it'),
    "signature_field": case("parameter-as-field", saved_model('signature_def: "predict"\n'),
         at(5, "signature_def"),
         'Write parameters { key: "TF_SIGNATURE_DEF" value: { string_value: "predict" } }',
         what="an option of the TensorFlow backend, TF_SIGNATURE_DEF"),
    "fil_shap": case("fil-names",
         fil(io=FIL_IO + 'output [ { name: "shap" data_type: TYPE_FP32 dims: [ 10 ] } ]\n'),
         at(5, "output[1].name"), 'Write name: "treeshap_output"', what='output "shap"'),
    "fil_shap_dims": case("fil-shap-dims",
         fil(io="[ 2 ]".join(FIL_IO.rsplit("[ 4 ]", 1)) +
          'output [ { name: "treeshap_output" data_type: TYPE_FP32 dims: [ 7 ] } ]\n',
          predict_proba="true"), at(5, "output[1].dims"), "Write dims: [ 2, 5 ]",
         what="each of the 4 features"),
    "fil_key": case("fil-output-dims", fil(predict_probs="true"), at(8, "parameters[3]"),
         'Write key: "predict_proba" in place of "predict_probs"',
         what="no parameter predict_probs"),
    "fil_key_required": case("required-parameter", fil(threshold=None, treshold="0.5"),
         at(7, "parameters[2]"), 'Write key: "threshold" in place of "treshold"'),
    "fil_output": case("fil-output-dims", fil(), at(4, "output[0].dims"),
         'Write dims: [ 1 ]; for probabilities set predict_proba to "true"'),
    "fil_format": case("fil-format",
         (fil(model_type="lightgbm")[0], {"1/model.txt": '{"learner": {}}'}), "1/model.txt",
         'Write model_type "xgboost_json" and rename the file to xgboost.json',
         what="not in LightGBM's text format"),
    "fil": case("fil-names", fil(io=IO), at(3, "input[0].name"), 'name: "input__0"'),
    "fil_parameter": case("required-parameter", fil(output_class=None, threshold=None),
         "field parameters", 'key: "output_class"'),
}  # fmt: skip


Shelf = dict[str, LoadError | None]


@pytest.fixture(scope="module")
def shelf(server: Triton) -> Shelf:
    """Every broken folder and a good model, loaded, in one repository; the refusals by name.

    The loads wait more than they work, so they run together; an ensemble waits for its members,
    and a refused config has its reason in the log, so those are loaded again one by one.
    """
    write(server.repository / "good", OK, PYTHON)
    for name, broken in CASES.items():
        write(server.repository / name, broken.config, broken.files)
    weights(server.repository)
    server.load("good")

    def refusal(name: str) -> LoadError | None:
        try:
            server.load(name, timeout=100)
        except LoadError as error:
            return error
        return None

    together = [name for name in CASES if not name.startswith("e_")]
    with ThreadPoolExecutor(16) as pool:
        return dict(zip(together, pool.map(refusal, together), strict=True))


def write(folder: Path, config: str | bytes, files: Files) -> None:
    folder.mkdir()
    if config:
        content = config.encode() if isinstance(config, str) else config
        (folder / "config.pbtxt").write_bytes(content)
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content.encode() if isinstance(content, str) else content)


def weights(repository: Path) -> None:
    """Write real weights for FIL and PyTorch: in their cases the config is wrong.

    Also write files that lack something: a TorchScript, a forward(), OpenVINO's weights.
    """
    import openvino
    import torch
    import treelite
    from nvidia.dali import fn, pipeline_def
    from sklearn.ensemble import RandomForestClassifier

    for name in ("torch", "torch_number"):
        file = repository / name / "1/model.pt"
        torch.jit.trace(torch.nn.Identity(), torch.ones(1, 4)).save(file)
    module = openvino.convert_model(torch.nn.Linear(4, 4), example_input=torch.ones(1, 4))
    openvino.save_model(module, repository / "openvino_bare/1/model.xml")
    (repository / "openvino_bare/1/model.bin").unlink()
    for name in ("openvino_auto", "openvino_option", "openvino_device"):
        openvino.save_model(openvino_relu(), repository / name / "1/model.xml")
    for name in ("openvino_bounded", "openvino_bounded_open"):
        openvino.save_model(openvino_positions(), repository / name / "1/model.xml")
    for name in ("signature_unknown", "signature_other", "signature_field"):
        (repository / name / "1/model.savedmodel/saved_model.pb").write_bytes(two_signatures())
    torch.save(torch.nn.Linear(4, 4).state_dict(), repository / "torch_saved/1/model.pt")
    program = torch.export.export(torch.nn.Linear(4, 4), (torch.ones(1, 4),))
    torch.export.save(program, repository / "torch_pt2/1/model.pt2")
    exported = (repository / "torch_pt2/1/model.pt2").read_bytes()
    (repository / "torch_exported/1/model.pt").write_bytes(exported)
    (repository / "torch_pt2_named/1/model.pt2").write_bytes(exported)
    define = pipeline_def(batch_size=8, num_threads=1, device_id=None)
    pipeline = define(lambda: fn.external_source(device="cpu", name="x") * 2)().serialize()
    for name in (name for name in CASES if "1/model.dali" in CASES[name].files):
        (repository / name / "1/model.dali").write_bytes(pipeline)
    (repository / "dali_cut/1/model.dali").write_bytes(pipeline[: len(pipeline) // 2])
    trees = RandomForestClassifier(2, max_depth=2, random_state=0)
    trees.fit(np.random.default_rng(0).random((20, 4)), np.arange(20) % 2)
    model = treelite.sklearn.import_model(trees)
    for name in (name for name in CASES if "1/checkpoint.tl" in CASES[name].files):
        model.serialize(repository / name / "1" / "checkpoint.tl")


def openvino_relu() -> Any:
    """y = relu(x), [-1, 4]."""
    import openvino
    from openvino import opset13

    x = opset13.parameter([-1, 4], np.float32, name="x")
    x.output(0).set_names({"x"})
    y = opset13.relu(x)
    y.output(0).set_names({"y"})
    return openvino.Model([y], [x], "relu")


def openvino_positions() -> Any:
    """The places in x, [1, 8], that are not 0: two rows, with at most eight columns."""
    import openvino
    from openvino import opset13

    x = opset13.parameter([1, 8], np.float32, name="x")
    x.output(0).set_names({"x"})
    y = opset13.non_zero(x, "i64")
    y.output(0).set_names({"y"})
    return openvino.Model([y], [x], "positions")


def two_signatures() -> bytes:
    """A SavedModel's description. Signatures are compared before anything is computed."""
    from tensorflow.core.framework.types_pb2 import DT_FLOAT
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    saved = SavedModel(saved_model_schema_version=1)
    meta = saved.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    for name, output in (("serving_default", "y"), ("predict", "z")):
        signature = meta.signature_def[name]
        for tensors, key in ((signature.inputs, "x"), (signature.outputs, output)):
            tensors[key].name, tensors[key].dtype = f"{name}_{key}:0", DT_FLOAT
            for size in (-1, 4):
                tensors[key].tensor_shape.dim.add().size = size
    return bytes(saved.SerializeToString())


@pytest.mark.server
@pytest.mark.parametrize("name", CASES)
def test_refused_models(server: Triton, shelf: Shelf, name: str) -> None:
    wanted, folder = CASES[name], server.repository / name
    refused = shelf.get(name)
    log = ""
    if refused is None or "failed to poll" in refused.message:
        start = len(server.log_text())
        with pytest.raises(LoadError) as caught:
            server.load(name, timeout=60)
        refused = caught.value
        log = server.log_text()[start:]
    error = load_error(name, refused.message, folder, log)
    assert error.rule == wanted.rule, str(error)
    assert wanted.where in error.where, str(error)
    assert wanted.todo in error.todo, str(error)
    assert wanted.what in error.what, str(error)
    assert name in error.what
    assert not error.what.rstrip(".").endswith((";", ":", ",")), str(error)
    first = refused.message.splitlines()[0]
    assert error.message.startswith(first)
    assert "backends/base.py" not in str(error)
    assert not re.search(r"^;|At:\s*\Z", str(error), re.MULTILINE), str(error)
    # A container's log may be out of reach: then the answer and the folder must be enough.
    blind = load_error(name, first, folder)
    if "failed to poll" in blind.message and wanted.log_only:
        assert blind.rule == "config-refused"
        assert "Poll failed for model directory" in blind.todo
    elif "failed to poll" in blind.message:
        assert (blind.rule, blind.where, blind.todo) == (error.rule, error.where, error.todo)
    assert_fits(error, folder)
    # A misspelt name is never a package to install.
    assert "pip install" not in error.todo or "did you mean" not in error.todo.lower()
    # One bad model never stops the others.
    assert server.ready("good")


#: Entries about something that is missing: a file, or a folder of the model.
ABSENT = {"missing-file", "no-version", "file-unreadable", "no-such-model"}


def assert_fits(error: LoadError, folder: Path) -> None:
    """Check that the place that an explanation names exists, and differs from its advice."""
    named = re.search(
        r"config\.pbtxt, lines? (\d+)(?: and \d+)?(?:, field ([\w.\[\]]+))?", error.where
    )
    if named is None:
        place = error.where.partition(",")[0].partition(":")[0].partition(";")[0].rstrip("/")
        parts = (folder / place, folder.parent / place, folder.parent)
        assert any(path.exists() for path in parts) or error.rule in ABSENT, str(error)
        return
    config = Evidence(error.model, folder, "").config
    assert 1 <= int(named[1]) <= len(config.lines) + 1, str(error)
    here = [f for f in config.walk() if named[2] in (f.path, short(f), f.name)]
    assert here or not named[2] or error.rule in ("one-of-two", "field-twice"), str(error)
    numbers = [field.value.raw for field in here if isinstance(field.value, Scalar)]
    written = {f"{here[0].name}: {raw}" for raw in numbers} if here else set()
    written |= {f"{here[0].name}: [ {', '.join(numbers)} ]"} if here else set()
    if error.rule not in ("unclosed-string", "missing-colon"):  # only a sign is missing
        for advice in re.findall(
            r"[Ww]rite ([a-z_]+: (?:\"[^\"]*\"|\[[^\]]*\]|[\w-]+))(?! reshape)", error.todo
        ):
            assert advice not in written, f"circular: {error}"


@pytest.mark.server
def test_the_advice_for_one_value_a_row_works(server: Triton) -> None:
    """With a reshape the rows of [n] are answered as [n, 1]."""
    config = "1".join(IO.rsplit("4", 1)).replace("[ 1 ]", "[ 1 ] reshape { shape: [ ] }")
    write(server.repository / "ort_reshaped", ORT + config, {"1/model.onnx": batch_alone()})
    server.load("ort_reshaped")
    with server.http_client() as client:
        answer = ask(client, httpclient, "ort_reshaped", {"x": np.ones((3, 4), np.float32)})
    assert answer.as_numpy("y").tolist() == [[4], [4], [4]]


#: The message of a server if vLLM's engine does not find the weights.
NO_WEIGHTS = {
    "there are no weights at 'TODO': no such folder in /models, and the hub cannot be reached": (
        'The repository has no folder "TODO" (looked for in /models), and the hub cannot be',
        "m/1/ holds model.json, and no folder. Put the folder of the weights there",
    ),
    "there are no weights at 'a/b': no such folder in /models, and HF_HUB_OFFLINE forbids to ask "
    "the hub": ('no folder "a/b"', "A name on the hub needs a network."),
    "there are no weights at '/w': no such folder in /models, and it is not a name that the hub "
    "can have": ("There is no folder /w, and it is not", "a path begins in the repository"),
    "vLLM's engine did not start: We couldn't connect to 'https://huggingface.co' to load the "
    "files, and couldn't find them in the cached files.": (
        "There are no weights at TODO, and the hub cannot be reached.",
        "A name on the hub needs a network.",
    ),
}


@pytest.mark.parametrize("message", NO_WEIGHTS)
def test_weights_that_an_engine_does_not_find(tmp_path: Path, message: str) -> None:
    what, todo = NO_WEIGHTS[message]
    write(tmp_path / "m", 'backend: "vllm"\n', {"1/model.json": '{\n  "model": "TODO"\n}\n'})
    error = load_error("m", f"unable to load model 'm', {message}", tmp_path / "m")
    assert (error.rule, error.where) == ("engine-weights", '1/model.json, line 2: "model": "TODO"')
    assert what in error.what
    assert todo in error.todo
    (tmp_path / "m/1/checkpoint").mkdir()
    error = load_error("m", f"unable to load model 'm', {message}", tmp_path / "m")
    assert error.todo.startswith('Write "m/1/checkpoint" as "model"')


#: An engine's messages about its arguments: third line of the file, message, where, what to do.
REFUSED = {
    "a number in quotes": (
        '"max_num_seqs": "8"',
        "'<' not supported between instances of 'int' and 'str'",
        "The engine did not start: '<' not supported between instances of 'int' and 'str'.",
        '"8" is a text there. Write 8 without quotes.',
    ),
    "a constant in quotes": (
        '"enable_lora": "True"',
        "unsupported value",
        "The engine did not start: unsupported value.",
        '"True" is a text there. Write true without quotes.',
    ),
    "a type that it does not know": (
        '"dtype": "fp32"',
        "2 validation errors for ModelConfig\ndtype.literal['auto','half','float32']\n  Input "
        "should be 'auto', 'half' or 'float32' [type=literal_error, input_value='fp32', "
        "input_type=str]\n"
        "    For further information visit https://errors.pydantic.dev/2.14/v/literal_error",
        "The engine does not take 'fp32' as dtype.",
        "Input should be 'auto', 'half' or 'float32'.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_argument_that_an_engine_refuses(tmp_path: Path, name: str) -> None:
    line, message, what, todo = REFUSED[name]
    text = '{\n  "model": "m/1/checkpoint",\n  ' + line + "\n}\n"
    write(tmp_path / "m", 'backend: "vllm"\n', {"1/model.json": text})
    message = f"unable to load model 'm', vLLM's engine did not start: {message}"
    error = load_error("m", message, tmp_path / "m")
    assert (error.rule, error.where) == ("engine-refused", f"1/model.json, line 3: {line}")
    assert (error.what, error.todo) == (f"m did not load. {what}", todo)


OVERRIDES = {
    "override-field": ({"backend": "python", "max_batchsize": 3}, 'Write "max_batch_size"'),
    "override-value": (
        {"backend": "python", "input": [{"name": "x", "data_type": "FP32", "dims": [4]}]},
        'Write "TYPE_FP32"',
    ),
}


@pytest.mark.server
@pytest.mark.parametrize("rule", OVERRIDES)
def test_refused_overrides(server: Triton, shelf: Shelf, rule: str) -> None:
    config, todo = OVERRIDES[rule]
    start = len(server.log_text())
    with pytest.raises(LoadError) as caught:
        server.load("good", config=config)
    log = server.log_text()[start:]
    error = load_error("good", caught.value.message, server.repository / "good", log)
    assert (error.rule, error.where) == (rule, "the config given at load")
    assert todo in error.todo


@pytest.mark.server
def test_a_model_that_is_not_there(server: Triton, shelf: Shelf) -> None:
    with pytest.raises(LoadError) as caught:
        server.load("godo")
    error = load_error("godo", caught.value.message, server.repository / "godo")
    assert (error.rule, error.todo) == ("no-such-model", "Load good.")


MISSING = "qqq"


def missing(server: Triton) -> tuple[LoadError, RequestError]:
    """The explanations of a load and of a request for a model that the repository lacks."""
    with pytest.raises(LoadError) as refused:
        server.load(MISSING)
    with server.http_client() as client, pytest.raises(InferenceServerException) as failed:
        ask(client, httpclient, MISSING)
    error = explain(failed.value, server)
    assert isinstance(error, RequestError)
    assert (refused.value.rule, error.rule) == ("no-such-model", "unknown-model")
    return refused.value, error


@pytest.mark.server
def test_a_missing_model_is_deployed_into_the_shared_repository_alone(
    server: Triton, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = "Put its folder into this server's model repository first."
    monkeypatch.setenv("TRITON_REPOSITORY", str(server.repository / "another"))
    for error in missing(server):
        assert error.todo.endswith(put), str(error)
    monkeypatch.setenv("TRITON_REPOSITORY", str(server.repository))
    for error in missing(server):
        assert error.todo.endswith("Deploy it first: `workbook deploy FOLDER`."), str(error)


@pytest.mark.server
def test_a_missing_model_of_a_lecture_is_written_by_its_cells() -> None:
    models = lessons.folder("test_explain_missing")
    with lessons.laboratory(models, only=[]) as lab:
        refused, failed = missing(lab)
    models.rmdir()
    cells = "Run the cells of the notebook that write it first."
    assert refused.todo == f"It holds no model. {cells}"
    assert failed.todo == f"{cells} server.index() lists what there is."


HAZARDS = {
    "no_model_py": (OK, {"1/models.py": CODE}, "no-model-py", "Rename 1/models.py to model.py"),
    "other_file": (
        'default_model_filename: "net.py"\n' + OK,
        PYTHON,
        "no-model-py",
        "Rename 1/model.py to net.py",
    ),
    "config_folder": (b"", {"config.pbtxt/x": "", **PYTHON}, "config-is-a-folder", "in its place"),
    "warmup_batch": (
        warmup("").replace("batch_size: 1", "batch_size: 100"),
        PYTHON,
        "warmup-batch",
        "batch_size: 8 or less",
    ),
    "metric_tag": (
        'metric_tags { key: "my team" value: "x y" }\n' + OK,
        PYTHON,
        "metric-tag",
        "do not begin with '_'",
    ),
    "labels_folder": (
        OK.replace('"y" data_type', '"y" label_filename: "1" data_type'),
        PYTHON,
        "file-is-a-folder",
        "Name the file",
    ),
    "batch_output": (
        OK + 'batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "x" }\n',
        PYTHON,
        "batch-output",
        "Write target_name",
    ),
}


@pytest.mark.parametrize("name", HAZARDS)
def test_what_would_hang_or_kill_the_server_is_seen_before(tmp_path: Path, name: str) -> None:
    config, files, rule, todo = HAZARDS[name]
    write(tmp_path / name, config, files)
    error = dangerous_folder(name, tmp_path / name)
    assert error is not None
    assert error.rule == rule
    assert todo in error.todo


def test_a_good_model_is_no_hazard(tmp_path: Path) -> None:
    write(tmp_path / "good", warmup("").replace("batch_size: 1", "batch_size: 8"), PYTHON)
    assert dangerous_folder("good", tmp_path / "good") is None
    assert dangerous_folder("nowhere", tmp_path / "nowhere") is None


@pytest.mark.server
def test_a_module_that_is_missing_at_a_request(loaded: Triton) -> None:
    with loaded.http_client() as client, pytest.raises(InferenceServerException) as caught:
        ask(client, httpclient, "imports")
    error = explain(caught.value, loaded, "imports")
    assert isinstance(error, RequestError)
    assert error.where == "1/model.py, line 3, in execute: import pandsa"
    assert error.todo == "Did you mean pandas? Write pandas in place of pandsa."


LATE = {
    "from .writing import Answer": (
        "writing.py is not in {}/1.",
        "copy it from beside_name/1/writing.py",
    ),
    "from .helping import hepl": ("1/helping.py has no hepl.", "Write help in place of hepl."),
    "raise NotImplementedError": (
        "A part of {} is not written yet: execute in 1/model.py.",
        "Write this part in place of line 3, and load the model again.",
    ),
    "raise NotImplementedError('the loop')": ("(NotImplementedError: the loop)", "line 3"),
    "raise NameError": ("{} raised NameError.", "Correct it there and load {} again."),
    "raise ValueError": ("{} raised ValueError.", "To refuse one request and answer the others"),
}


@pytest.mark.server
@pytest.mark.parametrize("line", LATE)
def test_what_a_model_lacks_at_a_request(loaded: Triton, line: str) -> None:
    what, todo = LATE[line]
    name = f"late_{[*LATE].index(line)}"
    model = f"class TritonPythonModel:\n    def execute(self, requests):\n        {line}\n"
    files: Files = {"1/model.py": model, "1/helping.py": "def help(): pass\n"}
    write(loaded.repository / name, OK, files)
    loaded.load(name)
    with loaded.http_client() as client, pytest.raises(InferenceServerException) as caught:
        ask(client, httpclient, name)
    error = explain(caught.value, loaded, name)
    assert error.where == f"1/model.py, line 3, in execute: {line}"
    assert what.format(name) in error.what
    assert todo.format(name) in error.todo
    if "ValueError" not in line:
        assert "To refuse one request" not in error.todo


@pytest.mark.server
def test_a_demonstration_model_without_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_REPOSITORY", str(tmp_path))
    course = Path(__file__).parents[2] / "model_repository"
    given = ("language_tokenizer", "language_onnx", "language_labels")
    for name in ("digits_onnx", "image_classifier", "language", *given):
        (tmp_path / name / "1").mkdir(parents=True)
        for file in ("config.pbtxt", "labels.txt", "1/model.py"):
            if (course / name / file).is_file():
                shutil.copyfile(course / name / file, tmp_path / name / file)
    (tmp_path / "digits_onnx/1").rmdir()
    with Triton(tmp_path, models=[]) as server:
        for model in ("digits_onnx", "image_classifier"):
            with pytest.raises(LoadError) as caught:
                server.load(model)
            assert caught.value.rule == "weights-not-built", str(caught.value)
            assert f"`workbook models {model}`" in caught.value.todo
            with server.http_client() as client, pytest.raises(InferenceServerException) as failed:
                ask(client, httpclient, model)
            error = explain(failed.value, server)
            assert f"Run `workbook models {model}`" in error.todo, str(error)
            with published(tmp_path, [model]) as table:
                table.started([model])
                assert "still being built" in explain(failed.value, server).what
        with pytest.raises(LoadError) as caught:
            server.load("language")
        assert "`workbook models language_" in caught.value.todo, str(caught.value)


@pytest.mark.server
@pytest.mark.parametrize("control", ["none", "poll"])
def test_bad_models_in_the_repository_do_not_stop_the_good_ones(
    tmp_path: Path, control: Any
) -> None:
    write(tmp_path / "good", OK, PYTHON)
    bad = (
        "misspelt",
        "platform",
        "backend",
        "version_word",
        "gpu",
        "syntax",
        "package",
        "e_missing",
    )
    for name in bad:
        write(tmp_path / name, CASES[name].config, CASES[name].files)
    with Triton(tmp_path, control=control) as server:
        assert server.ready("good")
        log = server.log_text()
        for name in bad:
            assert not server.ready(name)
        message = re.findall(r'Poll failed for model directory \'misspelt\': (.*)"', log)
        error = load_error("misspelt", message[0], tmp_path / "misspelt", log)
        assert error.rule == "misspelt-field"
        assert "Write max_batch_size" in error.todo


#: The config's tensors → the message of upstream's DALI backend, and the advice.
UNDECLARED = {
    IN: ('Missing data_type config for "__Resize_3"', "Write output [ {"),
    OUT: ('Missing data_type config for "JPEG"', 'Write input [ { name: "JPEG"'),
    IN + OUT: ('Missing dims config for "y"', "Write its dims there"),
    "": ('Missing data_type config for "JPEG"', 'Write input [ { name: "JPEG"'),
}


@pytest.mark.parametrize("config", UNDECLARED)
def test_a_container_does_not_say_which_of_dalis_tensors_is_meant(
    tmp_path: Path, config: str
) -> None:
    message, todo = UNDECLARED[config]
    write(tmp_path / "m", *dali(config))
    error = load_error(
        "m", f"is at UNAVAILABLE state: Invalid argument: {message};", tmp_path / "m"
    )
    assert error.rule == "pipeline-tensor"
    assert todo in error.todo


#: Entries that look at a file of the model, at the repository, or at the course's own models: the
#: tests above and test_explain_files.py cause them.
OF_FILES = {
    "weights-not-built", "damaged-file", "not-a-forest", "other-format", "python-exception",
    "no-such-model",
}  # fmt: skip
RULES = [(group, rule) for group in (*LOADS, REQUESTS, STARTS) for rule in group]
#: The message for each example: `name | what | where | what to do`, in the order of RULES.
RECORDED = Path(__file__).with_name("explanations.txt")


def explained(group: Catalogue[Any], rule: Rule, home: Path) -> str:
    """The explanation of an entry's example, in one line."""
    if group is STARTS:
        found = group.explain(rule.example, f"\n{rule.example}")
        assert found is not None
        name, advice = found
    else:
        write(home / "m", rule.config or OK, PYTHON)
        error: Any = explain(rule.example)
        if group is not REQUESTS:
            error = load_error("m", rule.example, home / "m")
        what = error.what.removeprefix("m did not load. ")
        name, advice = error.rule, Advice(what, error.where, error.todo)
    return " | ".join((name, advice.what, advice.where, advice.todo)).replace("\n", " ")


@pytest.mark.parametrize("number", range(len(RULES)), ids=lambda n: f"{n}-{RULES[n][1].id}")
def test_each_example(tmp_path: Path, number: int) -> None:
    """The example fits this entry and no earlier one, and what is said of it is as recorded."""
    group, rule = RULES[number]
    assert any(pattern(message).search(f"\n{rule.example}") for message in rule.messages)
    if rule.id in OF_FILES:
        return
    text = explained(group, rule, tmp_path)
    assert text.startswith(f"{rule.id} | ")
    assert text in RECORDED.read_text("utf-8").splitlines()
    assert not re.search(r"\{\w+(:\w+)?\??\}", text), text


def test_each_explanation_is_recorded_once(tmp_path: Path) -> None:
    recorded = [line.partition(" | ")[0] for line in RECORDED.read_text("utf-8").splitlines()]
    assert recorded == [rule.id for _, rule in RULES if rule.id not in OF_FILES]


def test_unknown_words_are_passed_on(tmp_path: Path) -> None:
    error = load_error("m", "something quite new", tmp_path / "m")
    assert error.rule == ""
    assert "something quite new" in str(error)
    assert "quite new" in str(explain("something quite new"))
    assert start_error("all is well") is None


FILLS = (
    {"": "", "int": "0", "id": "x", "word": "x", "dims": "", "rest": "", "text": ""},
    {
        "": "é[",
        "int": "-99",
        "id": "_",
        "word": "/a/b.",
        "dims": "-1,",
        "rest": "(%s) {0} \\",
        "text": '"x".";',
    },
    {
        "": "x",
        "int": "3",
        "id": "input",
        "word": "input",
        "dims": "1, 4",
        "rest": "x, y';",
        "text": "x, y",
    },
)
JUNK = (b"", b"\xff\xfe{[", OK.encode(), b"input { name: 3 dims } parameters: [ value step {")


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("junk", JUNK)
def test_no_words_and_no_folder_break_an_explanation(
    tmp_path: Path, fill: dict[str, str], junk: bytes
) -> None:
    write(tmp_path / "m", junk, {"1/x": ""})
    for catalogue in (*LOADS, REQUESTS, STARTS):
        for entry in catalogue:
            for words in entry.messages:
                message = re.sub(r"\{\w+(?::(\w+))?\}", lambda m: fill[m[1] or ""], words)
                for folder in (tmp_path / "m", tmp_path / "nowhere" / "m"):
                    assert load_error("m", message, folder, "").todo
                assert explain(message).todo
                answer = start_error(message)
                assert answer is None or answer.todo


# -- requests ------------------------------------------------------------------------------------

MISBEHAVES = """\
import os
import time
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        how = int(pb_utils.get_input_tensor_by_name(requests[0], "x").as_numpy().ravel()[0])
        answer = pb_utils.InferenceResponse([pb_utils.Tensor("y", np.ones((1, 4), np.float32))])
        if how == 1:
            raise ValueError("a bad day")
        if how == 2:
            return []
        if how == 3:
            return [np.ones(4) for _ in requests]
        if how == 4:
            x = pb_utils.get_input_tensor_by_name(requests[0], "x")
            asked = pb_utils.InferenceRequest(
                model_name="goood", requested_output_names=["y"], inputs=[x]
            ).exec()
            error = pb_utils.TritonError(asked.error().message())
            return [pb_utils.InferenceResponse([], error)]
        if how == 5:
            for request in requests:
                sender = request.get_response_sender()
                sender.send(answer)
                sender.send(answer)
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            return None
        if how == 6:
            os._exit(1)
        if how == 7:
            time.sleep(0.5)
        return [answer for _ in requests]
"""
ROW = np.ones((1, 4), np.float32)


@pytest.fixture(scope="module")
def loaded(server: Triton, shelf: Shelf) -> Triton:
    """A server with models to ask wrongly."""
    two = 'backend: "python"\n' + IO.replace(
        "] } ]\noutput", '] }, { name: "w" data_type: TYPE_FP32 dims: [ 4 ] } ]\noutput'
    )
    write(server.repository / "two", two, PYTHON)
    write(server.repository / "pair", two.replace("\n", "\nmax_batch_size: 8\n", 1), PYTHON)
    write(server.repository / "sequence", OK + "sequence_batching { }\n", PYTHON)
    write(
        server.repository / "stream",
        OK + "model_transaction_policy { decoupled: true }\n",
        PYTHON,
    )
    write(
        server.repository / "misbehaves",
        HEAD.replace("8", "1") + IO + "dynamic_batching { default_queue_policy { max_queue_size: 1 "
        "allow_timeout_override: true default_timeout_microseconds: 9000000 } }\n",
        {"1/model.py": MISBEHAVES},
    )
    mortal = ("mortal_http", "mortal_grpc", "mortal_2")
    for name in mortal:
        write(server.repository / name, OK, {"1/model.py": MISBEHAVES})
    write(server.repository / "lazy", OK, {"1/model.py": "class TritonPythonModel:\n    pass\n"})
    late = "class TritonPythonModel:\n    def execute(self, requests):\n        import pandsa\n"
    write(server.repository / "imports", OK, {"1/model.py": late})
    write(server.repository / "gather", ORT, {"1/model.onnx": table_of_three()})
    types = {"words": "TYPE_STRING", "halves": "TYPE_FP16", "brains": "TYPE_BF16"}
    for name, kind in types.items():
        config = OK.replace("TYPE_FP32", kind)
        one = config.replace("[ 4 ]", "[ 1 ]") if name == "words" else config
        write(server.repository / name, one, PYTHON)
    with ThreadPoolExecutor(16) as pool:
        models = (
            "two",
            "pair",
            "sequence",
            "stream",
            "misbehaves",
            "lazy",
            "gather",
            "imports",
            *mortal,
            *types,
        )
        assert len(list(pool.map(server.load, models))) == len(models)
    return server


def ask(
    client: Any,
    module: Any,
    model: str,
    inputs: dict[str, Any] | None = None,
    *,
    outputs: tuple[str, ...] = (),
    datatype: str = "",
    shape: list[int] | None = None,
    **more: Any,
) -> Any:
    sent = []
    types = {"f4": "FP32", "f8": "FP64", "i4": "INT32", "i8": "INT64"}
    for name, array in (inputs if inputs is not None else {"x": ROW}).items():
        kind = datatype or types[array.dtype.str[1:]]
        tensor = module.InferInput(name, shape or list(array.shape), kind)
        tensor.set_data_from_numpy(array)
        sent.append(tensor)
    wanted = [module.InferRequestedOutput(name) for name in outputs] or None
    return client.infer(model, sent, outputs=wanted, **more)


def how(number: float) -> dict[str, Any]:
    return {"x": ROW * np.float32(number)}


#: rule, model, arguments of the request, the expected message
ASKED: list[tuple[str, str, dict[str, Any], str]] = [
    ("unknown-input", "good", {"inputs": {"X": ROW}}, 'Write "x"'),
    ("unknown-output", "good", {"outputs": ("yy",)}, 'Write "y"'),
    ("missing-input", "two", {"inputs": {"x": ROW[0]}}, 'Add InferInput("w", …)'),
    ("missing-input", "good", {"inputs": {"x": ROW, "z": ROW}}, "z is none of them"),
    ("input-shape", "good", {"inputs": {"x": ROW[0]}}, "Send [1, 4]: array[np.newaxis]"),
    ("input-shape", "good", {"inputs": {"x": np.ones((1, 5), np.float32)}}, "is 5; send 4"),
    ("input-shape", "two", {"inputs": {"x": ROW, "w": ROW}}, "Send [4], one request for each"),
    ("input-shape", "good", {"inputs": {"x": ROW[:, :, None]}}, "Send 2 dimensions, not 3"),
    ("input-data-type", "good", {"inputs": {"x": ROW.astype(np.float64)}}, "astype(np.float32)"),
    ("client-data-type", "good", {"datatype": "INT32"}, 'Write "FP32" in InferInput'),
    ("client-shape", "good", {"shape": [4]}, "InferInput(name, array.shape, type)"),
    ("input-size", "good", {"inputs": {"x": ROW[:0]}}, "at least one row"),
    ("batch-too-large", "good", {"inputs": {"x": np.ones((9, 4), np.float32)}}, "Send 8 rows"),
    ("rows-differ", "pair", {"inputs": {"x": ROW, "w": np.ones((2, 4), np.float32)}}, "of pair"),
    ("unknown-model", "goood", {}, "Ask good"),
    ("unknown-model", "misspelt", {}, 'server.load("misspelt")'),
    ("unknown-version", "good", {"model_version": "7"}, "1 is"),
    ("model-not-ready", "package", {}, "No module named 'cv3'"),
    ("decoupled-model", "stream", {}, "async_stream_infer"),
    ("no-correlation-id", "sequence", {}, "sequence_start=True"),
    ("sequence-not-started", "sequence", {"sequence_id": 5}, "sequence_start=True"),
    ("no-execute", "lazy", {}, "def execute(self, requests)"),
    ("model-exception", "misbehaves", {"inputs": how(1)}, "1/model.py, line 11, in execute"),
    ("number-of-responses", "misbehaves", {"inputs": how(2)}, "and returned 0 response(s)."),
    ("not-a-response", "misbehaves", {"inputs": how(3)}, "returned numpy.ndarray in place"),
    ("member-not-ready", "misbehaves", {"inputs": how(4)}, 'model_name="good"'),
    ("several-responses", "misbehaves", {"inputs": how(5)}, "decoupled: true"),
    ("client-timeout", "misbehaves", {"inputs": how(7), "client_timeout": 0.2}, "Wait longer"),
    (
        "stub-died",
        "mortal_{protocol}",
        {"inputs": how(6)},
        "The laptop server loads the model again",
    ),
]


@pytest.mark.server
@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize(("rule", "model", "request_", "message"), ASKED)
def test_failed_requests(
    loaded: Triton, protocol: str, rule: str, model: str, request_: dict[str, Any], message: str
) -> None:
    if rule == "model-not-ready":
        with pytest.raises(LoadError):
            loaded.load(model)
    model = model.format(protocol=protocol)
    http = protocol == "http"
    request = dict(request_)
    options: dict[str, Any] = {}
    if http and "client_timeout" in request:
        options["network_timeout"] = request.pop("client_timeout")
    client = loaded.http_client(**options) if http else loaded.grpc_client()
    try:
        with pytest.raises((InferenceServerException, TimeoutError)) as caught:
            ask(client, httpclient if http else grpcclient, model, **request)
    finally:
        client.close()
    error = explain(caught.value, loaded, model)
    assert isinstance(error, RequestError)
    assert error.rule == rule, str(error)
    assert message in str(error), str(error)
    assert "server:" in str(error)
    # Without a server, the message alone must be enough to find the rule.
    assert explain(caught.value).rule == rule  # type: ignore[attr-defined]


def post(server: Triton, path: str, body: Any) -> str:
    import httpx

    kind = {"content": body} if isinstance(body, bytes) else {"json": body}
    answer = httpx.post(f"{server.url}/v2/models/{path}", **kind, timeout=10)
    return str(answer.json()["error"])


def got(server: Triton, path: str) -> str:
    import httpx

    return str(httpx.get(f"{server.url}/v2/models/{path}", timeout=10).json()["error"])


def posted(path: str, body: Any) -> Callable[[Triton], str]:
    return lambda server: post(server, path, body)


def tensor(**more: Any) -> dict[str, Any]:
    whole = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
    return {"inputs": [{k: v for k, v in {**whole, **more}.items() if v is not None}]}


def all_errors(server: Triton, *timeouts: int | None) -> list[str]:
    """Send a slow request for each timeout (in microseconds) and return what failed."""
    answers: queue.Queue[Any] = queue.Queue()
    with server.grpc_client() as client:
        for timeout in timeouts:
            time.sleep(0.2 if timeout else 0)  # the first is computed, the next one waits
            x = grpcclient.InferInput("x", [1, 4], "FP32")
            x.set_data_from_numpy(how(7)["x"])
            client.async_infer(
                "misbehaves", [x], lambda result, error: answers.put(error), timeout=timeout
            )
        errors = [answers.get(timeout=20) for _ in timeouts]
    return [str(error) for error in errors if error]


def full_queue(server: Triton) -> str:
    return all_errors(server, *[None] * 6)[0]


def old_request(server: Triton) -> str:
    return all_errors(server, None, 1000)[0]


def nobody(server: Triton) -> str:
    try:
        ask(grpcclient.InferenceServerClient("127.0.0.1:1"), grpcclient, "good")
    except InferenceServerException as error:
        return str(error)
    raise AssertionError


def bad_version(server: Triton) -> str:
    with server.grpc_client() as client, pytest.raises(InferenceServerException) as caught:
        ask(client, grpcclient, "good", model_version="x")
    return str(caught.value)


def table_of_three() -> bytes:
    """An ONNX model that fails on an index above 2."""
    gather = helper.make_graph(
        [helper.make_node("Gather", ["t", "i"], ["o"])],
        "g",
        [helper.make_tensor_value_info("i", TensorProto.INT64, ["n", 1])],
        [helper.make_tensor_value_info("o", TensorProto.FLOAT, ["n", 1])],
        [helper.make_tensor("t", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])],
    )
    opset = [helper.make_opsetid("", 17)]
    content = helper.make_model(gather, ir_version=9, opset_imports=opset).SerializeToString()
    return bytes(content)


def framework(server: Triton) -> str:
    indices = {"i": np.array([[7]], np.int64)}
    with server.http_client() as client, pytest.raises(InferenceServerException) as caught:
        ask(client, httpclient, "gather", indices)
    return str(caught.value)


def other_type(server: Triton) -> str:
    """PyTorch's message for an output with another type than in the config."""
    import torch

    names = IO.replace('"x"', '"x__0"').replace('"y"', '"y__0"')
    config = 'platform: "pytorch_libtorch"\nmax_batch_size: 8\n' + "FP64".join(
        names.rsplit("FP32", 1)
    )
    write(server.repository / "torch_type", config, {"1/x": ""})
    identity = torch.jit.trace(torch.nn.Identity(), torch.ones(1, 4))
    identity.save(server.repository / "torch_type/1/model.pt")
    server.load("torch_type")
    with server.http_client() as client, pytest.raises(InferenceServerException) as caught:
        ask(client, httpclient, "torch_type", {"x__0": ROW})
    return str(caught.value)


def ended(server: Triton) -> str:
    """The error of the request after the one that ended the model's process."""
    with server.http_client() as client:
        for _ in range(2):
            with pytest.raises(InferenceServerException) as caught:
                ask(client, httpclient, "mortal_2", how(6))
    return str(caught.value)


SAID: dict[str, tuple[str, Callable[[Triton], str], str]] = {
    "stub-ended": ("mortal_2", ended, "Ask again in some seconds"),
    "bad-version": ("good", bad_version, 'e.g. "1"'),
    "queue-full": ("misbehaves", full_queue, "raise max_queue_size"),
    "request-timeout": ("misbehaves", old_request, "Raise that limit"),
    "no-server": ("", nobody, "workbook serve"),
    "bad-json": ("good", posted("good/infer", b"{not json"), "json.dumps"),
    "invalid-data-type": ("good", posted("good/infer", tensor(datatype="TYPE_FP32")), "Write FP32"),
    "generate-parameter": ("good", posted("good/generate", {"X": [1, 2]}), 'Write "x"'),
    "not-found": ("", posted("good/versions/x/infer", tensor()), "/v2/models/NAME/infer"),
    "output-data-type": ("torch_type", other_type, "Write data_type: TYPE_FP32"),
    "framework-refused": ("gather", framework, "could not compute"),
}


@pytest.mark.server
@pytest.mark.parametrize("rule", SAID)
def test_failed_requests_of_other_kinds(loaded: Triton, rule: str) -> None:
    model, provoke, message = SAID[rule]
    error = explain(provoke(loaded), loaded, model)
    assert isinstance(error, RequestError)
    assert error.rule == rule, str(error)
    assert message in str(error), str(error)


@pytest.mark.server
def test_bad_json_says_what_is_lacking(loaded: Triton) -> None:
    for body, message in (
        (tensor(shape=None), "lacks shape"),
        (tensor(data=[1, 2, 3]), "Let shape and data agree"),
        (tensor(data=["a", 2, 3, 4]), "data cannot be read"),
        ({"input": []}, "lacks inputs"),
    ):
        assert message in str(explain(post(loaded, "good/infer", body)))


TEXT = {"datatype": "BYTES", "shape": [1, 1], "data": ["a"]}
RAW = {"Inference-Header-Content-Length": "9999"}
BODY = tensor()["inputs"]
#: rule, path, body, headers, the expected message.
FRONT: list[tuple[str, str, Any, dict[str, str], str]] = [
    ("bad-json", "words/infer", tensor(**{**TEXT, "data": [3]}), {}, "Write text, in quotes"),
    ("bad-json", "words/generate", {"x": 3}, {}, "Write text, in quotes"),
    ("bad-json", "good/infer", tensor(data=[1, None, 3, 4]), {}, "there is no null"),
    ("bad-json", "good/infer", tensor(shape=[-1, 4]), {}, "-1 is for config.pbtxt"),
    ("bad-json", "good/infer", {"inputs": {}}, {}, "a list in square brackets"),
    ("bad-json", "good/infer", {**tensor(), "id": 3}, {}, "Write text, in quotes"),
    ("input-twice", "good/infer", {"inputs": BODY * 2}, {}, 'the input "x" twice'),
    ("binary-request", "good/infer", b"", {}, "without JSON"),
    ("binary-request", "good/infer", tensor(), RAW, "Inference-Header-Content-Length is 9999"),
]  # fmt: skip


@pytest.mark.server
@pytest.mark.parametrize(("rule", "path", "body", "headers", "message"), FRONT)
def test_requests_that_the_front_end_refuses(
    loaded: Triton, rule: str, path: str, body: Any, headers: dict[str, str], message: str
) -> None:
    import httpx

    kind = {"content": body} if isinstance(body, bytes) else {"json": body}
    answer = httpx.post(f"{loaded.url}/v2/models/{path}", **kind, headers=headers, timeout=10)
    error = explain(answer.json()["error"], loaded, path.partition("/")[0])
    assert error.rule == rule, str(error)  # type: ignore[attr-defined]
    assert message in str(error), str(error)
    assert error.where
    assert "See below" not in str(error)


#: What forward() returns → rule, where, what to do.
RETURNS = {
    "{'y': x}": ("torch-output", "forward() of the module", "return tuple(out)"),
    "x.sum()": ("torch-output", "forward() of the module", "keepdim=True"),
}


@pytest.mark.server
@pytest.mark.parametrize("returned", RETURNS)
def test_outputs_of_a_module_that_are_no_tensors(
    loaded: Triton, tmp_path: Path, returned: str
) -> None:
    """The output is at fault, not the input: the place is forward()."""
    import importlib.util

    import torch

    rule, where, todo = RETURNS[returned]
    name = f"torch_returns_{[*RETURNS].index(returned)}"
    source = "import torch\n\nclass M(torch.nn.Module):\n    def forward(self, x):\n"
    source += f"        return {returned}\n"
    (tmp_path / f"{name}.py").write_text(source)
    spec = importlib.util.spec_from_file_location(name, tmp_path / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    io = IO.replace('output [ { name: "y"', 'output [ { name: "y__0"')
    io = io.replace("] } ]\n", "] } ]\n", 1)
    write(
        loaded.repository / name,
        f'platform: "pytorch_libtorch"\nmax_batch_size: 8\n{io}',
        {"1/x": ""},
    )
    torch.jit.script(module.M()).save(loaded.repository / name / "1/model.pt")
    loaded.load(name)
    with loaded.http_client() as client, pytest.raises(InferenceServerException) as caught:
        ask(client, httpclient, name)
    error = explain(caught.value, loaded, name)
    assert error.rule == rule, str(error)  # type: ignore[attr-defined]
    assert where in error.where, str(error)
    assert todo in error.todo, str(error)
    assert "inputs" not in error.where


@pytest.mark.server
def test_arrays_that_the_client_refuses(loaded: Triton) -> None:
    for array, kind, message in (
        (np.array([["a"]]), "BYTES", "array.astype(np.object_)"),
        (ROW, "BF16", "ml_dtypes.bfloat16"),
    ):
        with pytest.raises(InferenceServerException) as caught:
            httpclient.InferInput("x", [1, 4], kind).set_data_from_numpy(array)
        assert message in explain(caught.value, loaded, "good").todo


@pytest.mark.server
def test_streams_deliver_errors_that_can_be_explained(loaded: Triton) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    with loaded.grpc_client() as client:
        client.start_stream(lambda result, error: answers.put(error))
        x = grpcclient.InferInput("X", [1, 4], "FP32")
        x.set_data_from_numpy(ROW)
        client.async_stream_infer("stream", [x])
        error = explain(answers.get(timeout=10), loaded, "stream")
        client.stop_stream()
    assert 'Write "x"' in str(error)


@pytest.mark.server
def test_a_restricted_server(tmp_path: Path) -> None:
    options = [
        "--http-restricted-api=inference:key=secret",
        "--grpc-restricted-protocol=inference:key=secret",
    ]
    with Triton(tmp_path, options=options) as server:
        for module, client in (
            (httpclient, server.http_client()),
            (grpcclient, server.grpc_client()),
        ):
            with pytest.raises(InferenceServerException) as caught:
                ask(client, module, "good")
            client.close()
            error = explain(caught.value, server)
            assert error.rule == "restricted"  # type: ignore[attr-defined]
            assert 'key"' in error.todo


# -- requests of a Python model to another one ---------------------------------------------------

CALLER = """\
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    {how}execute(self, requests):
        answers = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x")
            response = {request}
            {look}
            y = pb_utils.get_output_tensor_by_name(response, "{name}")
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", y.as_numpy())]))
        return answers
"""
LOOK = "if response.has_error(): raise pb_utils.TritonModelException(response.error().message())"


@dataclasses.dataclass(frozen=True)
class Call:
    """A Python model that asks another one wrongly, and what must be said of it."""

    rule: str
    what: str
    todo: str
    model: str = "good"
    inputs: str = "[x]"
    send: str = "exec()"
    more: str = ""
    wait: str = ""
    how: str = "def "
    look: str = LOOK
    name: str = "y"
    output: str = "y"
    where: str = "{}/1/model.py, line 9: response ="

    def code(self) -> str:
        """The model's code."""
        asked = f'model_name="{self.model}", inputs={self.inputs}, '
        asked += f'requested_output_names=["{self.output}"]'
        request = f"{self.wait}pb_utils.InferenceRequest({asked}{self.more}).{self.send}"
        return CALLER.format(how=self.how, request=request, look=self.look, name=self.name)


AT_LINE = "1/model.py, line {}, in execute"
CALLS = {
    "not_loaded": Call("member-not-ready", "calls idle, which is not ready", "Load idle", "idle"),
    "misspelt_name": Call("member-not-ready", "goood, which is not in the repository",
                          'Write model_name="good"', "goood"),
    "no_such": Call("member-not-ready", "quite_else, which is not in the repository",
                    "put quite_else there and load it", "quite_else"),
    "version": Call("member-not-ready", "good, of which the version asked for is not ready",
                    "good is loaded with version 1.", more=", model_version=7"),
    "input_name": Call("unknown-input", 'good has no input "X"; it has x', 'Write "x"',
                       inputs='[pb_utils.Tensor("X", x.as_numpy())]'),
    "input_name_and": Call("missing-input", 'pair has no input "X"; its inputs are x and w',
                           'Write "x" in place of "X". The request lacks w as well.', "pair",
                           '[pb_utils.Tensor("X", x.as_numpy())]'),
    "input_lacks": Call("missing-input", "lacks the input w of pair",
                        'Add pb_utils.Tensor("w", …)', "pair"),
    "input_too_many": Call("missing-input", "good has 1 input, and the request has 2",
                           "Send x alone", inputs='[x, pb_utils.Tensor("z", x.as_numpy())]'),
    "input_type": Call("input-data-type", '"x" of good is FP32, and the request sends FP64',
                       'Write pb_utils.Tensor("x", array.astype(np.float32))',
                       inputs='[pb_utils.Tensor("x", x.as_numpy().astype(np.float64))]'),
    "input_size": Call("input-shape", '"x" of good has shape [-1, 4]', "is 3; send 4",
                       inputs='[pb_utils.Tensor("x", x.as_numpy()[:, :3])]'),
    "input_row": Call("input-shape", 'batch dimension of "x" is missing: good', "np.newaxis",
                      inputs='[pb_utils.Tensor("x", x.as_numpy()[0])]'),
    "input_rows": Call("rows-differ", "one request of pair have different numbers of rows",
                       "The first dimension of every input is the batch", "pair",
                       '[x, pb_utils.Tensor("w", np.ones((2, 4), np.float32))]'),
    "batch": Call("batch-too-large", "good takes at most 8 rows", "Send 8 rows",
                  inputs='[pb_utils.Tensor("x", np.ones((9, 4), np.float32))]'),
    "decoupled": Call("decoupled-call", "pieces is decoupled", "exec(decoupled=True)", "pieces"),
    "several": Call("model-exception", "ResponseIterator", "for response in",
                    send="exec(decoupled=True)", where=AT_LINE.format(10)),
    "not_awaited": Call("model-exception", "Future", "write `await` before it", how="async def ",
                        send="async_exec()", where=AT_LINE.format(10)),
    "awaited": Call("model-exception", "can't be used in 'await'", "or take await out",
                    how="async def ", wait="await ", where=AT_LINE.format(9)),
    "no_coroutine": Call("model-exception", "no running event loop", "Write `async def execute`",
                         send="async_exec()", where=AT_LINE.format(9)),
    "arrays": Call("model-exception", "gives pb_utils.InferenceRequest something",
                   "a list of names and a list of tensors", inputs="[x.as_numpy()]",
                   where=AT_LINE.format(9)),
    "swapped": Call("model-exception", "gives pb_utils.Tensor something", "in this order",
                    inputs='[pb_utils.Tensor(x.as_numpy(), "x")]', where=AT_LINE.format(9)),
    "refuses": Call("model-exception", "gives pb_utils.TritonError something", "give str(error)",
                    look="pb_utils.TritonError(ValueError('too hot'))", where=AT_LINE.format(10)),
    "not_sent": Call("model-exception", "object has no attribute 'has_error'", "request.exec()",
                     send="inputs() and request", where=AT_LINE.format(10)),
    "fails": Call("model-exception", "bad_day, which {} calls, raised ValueError: too hot",
                  "load bad_day again", "bad_day", where="bad_day/" + AT_LINE.format(3)),
    "computes": Call("model-exception", "gather, which {} calls, could not compute its input",
                     "an index out of range", "gather",
                     '[pb_utils.Tensor("i", np.array([[7]]))]', output="o"),
    "unchecked": Call("unchecked-response", "goood, which is not in the repository. The response "
                      "holds this error alone, and the code does not look at it.",
                      "`if response.has_error(): raise", "goood", look="pass"),
    "unchecked_shape": Call("unchecked-response", '"x" of good has shape [-1, 4]',
                            "is 3; send 4. Look at each response before its tensors",
                            inputs='[pb_utils.Tensor("x", x.as_numpy()[:, :3])]', look="pass"),
    "unchecked_awaited": Call("unchecked-response", "calls idle, which is not ready.", "Load idle",
                              "idle", how="async def ", wait="await ", send="async_exec()",
                              look="pass"),
    "unchecked_list": Call("model-exception", "IndexError", "response with an error has no output",
                           "goood", look="response.output_tensors()[0]",
                           where=AT_LINE.format(10)),
    "output_name": Call("model-mistake", 'has no output "yy"; its outputs are y', "such a name",
                        name="yy", where="1/model.py, line 11: y ="),
    "through": Call("unknown-input", 'good has no input "X"', 'Write "x"', "call_input_name",
                    where="call_input_name/1/model.py, line 9"),
}  # fmt: skip


@pytest.fixture(scope="module")
def calling(loaded: Triton) -> Triton:
    """A server with the models of CALLS, and those that they ask."""
    pieces = CODE.replace("return [", "for r in requests: r.get_response_sender().send(flags=1) #")
    decoupled = OK + "model_transaction_policy { decoupled: true }\n"
    hot = "class TritonPythonModel:\n    def execute(self, requests):\n        "
    hot += "raise ValueError('too hot')\n"
    write(loaded.repository / "idle", OK, PYTHON)
    write(loaded.repository / "pieces", decoupled, {"1/model.py": pieces})
    write(loaded.repository / "bad_day", OK, {"1/model.py": hot})
    for name, call in CALLS.items():
        write(loaded.repository / f"call_{name}", OK, {"1/model.py": call.code()})
    with ThreadPoolExecutor(8) as pool:
        names = ["pieces", "bad_day", "call_input_name"]
        assert len(list(pool.map(loaded.load, names))) == len(names)
    return loaded


@pytest.mark.server
@pytest.mark.parametrize("name", CALLS)
def test_a_model_that_asks_another_one_wrongly(calling: Triton, name: str) -> None:
    call, model = CALLS[name], f"call_{name}"
    calling.load(model)
    with calling.http_client() as client, pytest.raises(InferenceServerException) as caught:
        ask(client, httpclient, model)
    if model != "call_input_name":  # another model calls it
        calling.unload(model)
    error = explain(caught.value, calling, model)
    assert isinstance(error, RequestError)
    assert (error.rule, error.model) == (call.rule, model), str(error)
    assert call.what.format(model) in error.what, str(error)
    assert call.where.format(model) in error.where, str(error)
    assert call.todo in error.todo, str(error)
    assert "InferInput" not in error.where + error.todo
    assert "To refuse one request" not in error.todo or name == "fails"
    # Without a server, the message alone must be enough.
    assert explain(caught.value).rule == call.rule  # type: ignore[attr-defined]


@pytest.mark.server
def test_a_model_that_asks_itself_never_answers(tmp_path: Path) -> None:
    """Its only instance waits for itself. The server ends all the same."""
    write(tmp_path / "itself", OK, {"1/model.py": Call("", "", "", "itself").code()})
    with Triton(tmp_path, models=["itself"]) as server:
        with (
            server.http_client(network_timeout=2) as client,
            pytest.raises((InferenceServerException, TimeoutError)) as caught,
        ):
            ask(client, httpclient, "itself")
        error = explain(caught.value, server, "itself")
    assert "itself calls itself" in error.what
    assert error.where.startswith("1/model.py, line 9: response =")


@pytest.mark.server
@pytest.mark.parametrize("name", ["y", "yy"])
def test_without_the_checks_of_answers_both_causes_are_named(tmp_path: Path, name: str) -> None:
    code = Call("", "", "", "nobody" if name == "y" else "good", look="pass", name=name).code()
    write(tmp_path / "asks", OK, {"1/model.py": code})
    write(tmp_path / "good", OK, PYTHON)
    with Triton(tmp_path, models=["asks", "good"], plain=True) as server:
        with server.http_client() as client, pytest.raises(InferenceServerException) as caught:
            ask(client, httpclient, "asks")
        error = explain(caught.value, server, "asks")
    assert error.rule == "tensor-is-none"  # type: ignore[attr-defined]
    assert f'found no output "{name}" in a response' in error.what
    assert "if response.has_error()" in error.todo
    assert f'its answer has no output "{name}"' in error.todo


# -- a server that does not start -----------------------------------------------------------------

START: dict[str, tuple[list[str], str]] = {
    "unknown-option": (["--model-repositry=x"], "Write --model-repository"),
    "option-without-value": (["--log-verbose"], "Write --log-verbose=VALUE"),
    "bad-option-value": (["--model-control-mode=all"], "none, poll or explicit"),
    "load-needs-explicit": (["--model-control-mode=none", "--load-model=m"], 'control="explicit"'),
    "bad-certificate": (
        ["--grpc-use-ssl=true", "--grpc-server-cert=/no.pem", "--grpc-server-key=/no.key"],
        "PEM files that exist",
    ),
    "port-taken": ([], "workbook stop"),
    "no-repository": (["--model-repository=/nowhere/at/all"], "Give --repository"),
    "no-cache": (["--cache-config=redis,host=x"], "redis comes with"),
    "cache-size": (
        ["--cache-config=local,size=1048576", "--cache-config=redis,host=x"],
        "not both",
    ),
    "bad-option": (["--host-policy=x,y=1"], "Correct the option"),
}


@pytest.mark.server
@pytest.mark.parametrize("rule", START)
def test_servers_that_do_not_start(server: Triton, tmp_path: Path, rule: str) -> None:
    options, message = START[rule]
    place = find()
    grpc_port = server.grpc_url.rpartition(":")[2] if rule == "port-taken" else "0"
    words = [
        f"--backend-directory={place.backends}",
        f"--cache-directory={place.caches}",
        "--allow-http=false",
        "--allow-metrics=false",
        "--grpc-address=127.0.0.1",
        f"--grpc-port={grpc_port}",
    ]
    if rule != "no-repository":
        words.append(f"--model-repository={tmp_path}")
    libraries = os.pathsep.join(map(str, place.libraries))
    done = subprocess.run(
        [str(place.binary), *words, *options],
        env={**os.environ, "LD_LIBRARY_PATH": libraries},
        cwd=tmp_path,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode != 0
    error = start_error((done.stdout + done.stderr).decode("utf-8", errors="replace"))
    assert isinstance(error, ServerError)
    assert message in str(error)


def said_at_start(options: list[str], folder: Path) -> str:
    """What tritonserver prints with these options; without a repository it ends at once."""
    place = find()
    done = subprocess.run(
        [str(place.binary), "--model-repository=/nowhere/at/all", *options],
        env={**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, place.libraries))},
        cwd=folder,  # --log-file=foo writes there
        capture_output=True,
        timeout=60,
        check=False,
    )
    return (done.stdout + done.stderr).decode("utf-8", errors="replace")


@pytest.mark.server
def test_every_option_of_the_server_with_a_wrong_value(tmp_path: Path) -> None:
    """The advice fits what the server complains of, and the server takes what it names."""
    listed = set(
        re.findall(r"^\s*--([a-z0-9-]+)", said_at_start(["--help"], tmp_path), re.MULTILINE)
    )
    assert len(listed) > 80
    accepted: dict[str, set[str]] = {}
    for option in sorted(listed - {"help", "version", "id"}):
        message = said_at_start([f"--{option}=foo"], tmp_path)
        if "Bad option" not in message:
            continue  # a path, an address, a pattern: any text
        error = start_error(message)
        assert error is not None, message
        assert error.where == f"--{option}"
        if error.todo == "Write a whole number.":
            assert "Invalid option value. Got foo" in message, message
        elif error.todo != "Write true or false.":
            form = error.todo.removeprefix("Write ").removesuffix(".")
            _, _, example = form.partition("e.g. ")
            accepted[option] = set(re.split(", | or ", example or form))
    assert len(accepted) >= 14
    for option, values in accepted.items():
        for value in values:
            if option == "rate-limit-resource":
                continue  # it needs --rate-limit too
            message = said_at_start([f"--{option}={value}"], tmp_path)
            assert "Bad option" not in message, (option, value, message)


def test_the_table_lists_every_entry() -> None:
    lines = table().splitlines()
    assert len(lines) == 2 + len({rule.id for c in (*LOADS, REQUESTS, STARTS) for rule in c})
    for line in lines:
        assert line.count("|") == 4
    assert len({line.split("|")[1] for line in lines}) == len(lines)


def test_versions_that_fail_alike_have_no_other_reason() -> None:
    """Each reason may name its version's own file; this does not count as a difference."""
    reason = (
        "version {0} is at UNAVAILABLE state: Load model from /m/{0}/model.onnx failed: too new"
    )
    alike = "; ".join(map(reason.format, (2, 1)))
    first, others = _first_version(f"failed to load 'm', {alike};")
    assert "/m/1/model.onnx" in first
    assert "/m/2/" not in first
    assert others == ""
    unlike = alike.replace("/m/2/model.onnx failed: too new", "/m/2/model.onnx failed: too short")
    assert "version 2 failed for another reason" in _first_version(f"failed, {unlike};")[1]
