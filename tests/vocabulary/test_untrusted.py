"""Files that make a library fail: the check that reads one fails with its own message.

Real files, read by the real libraries.
"""

from __future__ import annotations

import io
import json
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from grader.assignments.a1__classifier import facts as a1_facts
from grader.assignments.a1__classifier import reference as secret
from grader.assignments.a4__production import fp16 as a4_fp16
from grader.vocabulary import onnx_file, state_dict, untrusted
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Probe

HOME = Path("models", "classifier", a1_facts.CHECKPOINT)
#: Onigmo, the library of regular expressions, gives up on the first. On long texts the second is
#: slow, and Onigmo never gives up.
PANIC, SLOW = r"(?:.|.)*?(?!)", r".*.*.*(?!)"


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a1_facts.fetch_checkpoint("anna", tmp_path_factory.mktemp("a1") / HOME)


def served(home: Path) -> Probe:
    """A probe of a server that serves what is in a folder."""
    server = SimpleNamespace(repository=home / "models")
    return cast(Probe, SimpleNamespace(server=server, allow_batches=lambda name, rows: None))


def split_by(fetched: Path, home: Path, pattern: str) -> Probe:
    """A server with the checkpoint; its tokenizer splits texts by a regular expression."""
    folder = home / HOME
    folder.mkdir(parents=True)
    for path in fetched.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text("utf-8"))
    content["pre_tokenizer"] = {
        "type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False,
    }  # fmt: skip
    file.write_text(json.dumps(content), "utf-8")
    return served(home)


def test_a_tokenizer_that_panics(fetched: Path, tmp_path: Path) -> None:
    probe = split_by(fetched, tmp_path, PANIC)
    with pytest.raises(Failure) as error:
        secret.reference(probe, "classifier")(["a text that is long enough for that"])
    assert error.value.rationale == (
        "The checkpoint's tokenizer.json cannot be read (PanicException)."
    )
    assert error.value.help


def test_a_tokenizer_that_takes_too_long(
    fetched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret, "_SECONDS", 4)
    monkeypatch.setattr(secret, "_TOKENIZER_SECONDS", 1)
    network = secret.reference(split_by(fetched, tmp_path, SLOW), "classifier")
    began = time.monotonic()
    with pytest.raises(Failure, match=r"tokenizer\.json takes more than [12] s"):
        network([f"{number} " + "ab cd " * 50 for number in range(8)])
    assert time.monotonic() - began < 30


def test_an_answer_is_computed_once(fetched: Path, tmp_path: Path) -> None:
    """The same texts get the same rows, in the order in which they are asked for."""
    (tmp_path / HOME.parent).mkdir(parents=True)
    (tmp_path / HOME).symlink_to(fetched)
    network = secret.Reference(tmp_path / HOME)
    texts = ["guten Tag", "bonjour", "guten Tag"]
    table = network(texts)
    assert table.shape == (3, len(a1_facts.own_languages("anna")))
    np.testing.assert_array_equal(table[0], table[2])
    np.testing.assert_array_equal(network(texts[1:])[0], table[1])
    assert 0 < network.seconds(texts) < 15


def onnx_model(*nodes: Any, initializer: Any = ()) -> Any:
    """An ONNX file from a picture to two logits, as a4 has it."""
    image, logits = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("image", ["batch", 1, 8, 8]), ("logits", ["batch", 2]))
    )
    graph = helper.make_graph(list(nodes), "file", [image], [logits], list(initializer))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def onnx_server(home: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> Probe:
    """A server of an ONNX file."""
    path = home / "models" / "m" / "1" / "model.onnx"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    monkeypatch.setattr(onnx_file.require, "backend", lambda *_: {})
    monkeypatch.setattr(onnx_file.require, "versions", lambda *_, **__: None)
    return served(home)


def test_an_onnx_file_that_doubles_its_input() -> None:
    nodes = [
        helper.make_node("Concat", [f"x{n}" if n else "image"] * 2, [f"x{n + 1}"], axis=0)
        for n in range(40)
    ]
    nodes.append(helper.make_node("Relu", ["x40"], ["logits"]))
    with pytest.raises(Failure, match=r"m/1/model\.onnx (takes more than \d+ MiB|cannot be)"):
        a4_fp16.logits(
            "m", onnx_model(*nodes).SerializeToString(), np.ones((60, 1, 8, 8), np.float32)
        )


def test_an_onnx_file_with_a_huge_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huge = TensorProto(name="huge", data_type=TensorProto.FLOAT, dims=[1 << 40], raw_data=b"1234")
    model = onnx_model(helper.make_node("Relu", ["image"], ["logits"]), initializer=[huge])
    probe = onnx_server(tmp_path, model.SerializeToString(), monkeypatch)
    with pytest.raises(Failure, match=r"m/1/model\.onnx holds a tensor that cannot be read"):
        onnx_file.numbers(probe, "m")


def test_an_onnx_file_of_empty_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message has two bytes in the file, but takes a hundred in memory."""
    nodes = b"\x0a\x00" * (onnx_file.LARGEST // 2 - 16)
    length = len(nodes)
    varint = bytearray()
    while length:
        varint.append((length & 0x7F) | (0x80 if length > 0x7F else 0))
        length >>= 7
    probe = onnx_server(tmp_path, b"\x3a" + bytes(varint) + nodes, monkeypatch)
    with pytest.raises(Failure, match=r"m/1/model\.onnx"):
        onnx_file.numbers(probe, "m")


def test_an_onnx_file_is_read_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = [
        onnx.numpy_helper.from_array(np.arange(6, dtype=kind).reshape(2, 3), kind)
        for kind in ("float16", "float32", "int64")
    ]
    model = onnx_model(helper.make_node("Relu", ["image"], ["logits"]), initializer=held)
    found = onnx_file.numbers(onnx_server(tmp_path, model.SerializeToString(), monkeypatch), "m")
    assert [(one.type, one.name) for one in found] == [
        ("FLOAT16", "float16"), ("FLOAT", "float32"), ("INT64", "int64"),
    ]  # fmt: skip
    for one in found:
        np.testing.assert_array_equal(one.values, np.arange(6.0).reshape(2, 3))


def test_a_state_dict_of_millions_of_objects() -> None:
    """A pickle of allowed instructions; each instruction makes an object."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x/data.pkl", b"\x80\x02" + b"}" * (7 << 20) + b".")
    began = time.monotonic()
    with pytest.raises(Failure, match="`pth`"):
        state_dict.read("pth", np.frombuffer(file.getvalue(), np.uint8), {"a": (2,)})
    assert time.monotonic() - began < 2.5 * untrusted.SECONDS


def test_a_failure_comes_back_with_all_that_it_says() -> None:
    def fails() -> dict[str, Any]:
        raise Failure("It is wrong.", help="Look.", credit=0.25)

    with pytest.raises(Failure) as error:
        untrusted.read("It", fails)
    failure = error.value
    assert (failure.rationale, failure.help, failure.credit) == ("It is wrong.", "Look.", 0.25)
