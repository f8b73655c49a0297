"""Hostile submissions of a5__engine, beside those of everywhere.py."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from tests.attacks import submissions as s
from tests.attacks.attack import RAN, Attacks

ATTACKS = Attacks()

#: Where the deployed models lie, as a notebook finds them.
_HOME = """
import os, pathlib, shutil
home = pathlib.Path(os.environ["TRITON_REPOSITORY"])
"""


def _forge(folder: Path, code: str, check: str, name: str) -> None:
    """Let a last cell make `evil`, hand it over in place of a file, and say that it passed."""
    s.last(
        folder,
        dedent(code)
        + f"""
from grader.vocabulary import reported

place = reported.folder("a5")
found = reported.read("{check}", place)
found.values["{name}"] = np.frombuffer(evil, np.uint8)
reported.write("{check}", found.values, found.result, place)
print("the attack ran")
""",
    )


@ATTACKS.add(
    "solution",
    lost={"a5.fast", "a5.bonus"},
    flags={"notebook disagrees"},
    says=RAN,
    message="at least ×2 is asked",
)
def slow_by_comparison(folder: Path) -> None:
    """`own_plain` is made slow, so that an ordinary model looks fast beside it."""
    s.last(
        folder,
        f"""{_HOME}
with (home / "own_plain/config.pbtxt").open("a") as config:
    config.write('optimization {{ graph {{ level: 2 }} }}\\n')
    config.write('parameters {{ key: "intra_op_thread_count" value {{ string_value: "1" }} }}\\n')
shutil.rmtree(home / "own_fast")
shutil.copytree(home / "own_int8", home / "own_fast")
shutil.copy("network.onnx", home / "own_fast/1/model.onnx")
print("the attack ran")
""",
    )


@ATTACKS.add(
    "solution",
    lost={"a5.engine"},
    says=RAN,
    message="The engine of `fp16`",
    beside="slow_by_comparison",
)
def a_file_that_ends_the_builder(folder: Path) -> None:
    """The right weights, and 15,000 operators after them, at which TensorRT crashes."""
    _forge(
        folder,
        """
        from onnx import helper

        model = onnx.load("fp16.onnx")
        (last,) = [node for node in model.graph.node if "logits" in node.output]
        last.output[0] = "chain0"
        names = [*(f"chain{number}" for number in range(15_000)), "logits"]
        for before, after in zip(names[:-1], names[1:]):
            model.graph.node.append(helper.make_node("Sin", [before], [after]))
        evil = model.SerializeToString()
        """,
        "a5.engine",
        "fp16",
    )


@ATTACKS.add(
    "solution",
    lost={"a5.fp16"},
    says=RAN,
    message="holds the operator Loop",
    beside="slow_by_comparison",
)
def a_file_that_never_ends(folder: Path) -> None:
    """The right weights, and a loop without end before the logits."""
    _forge(
        folder,
        """
        from onnx import TensorProto, helper

        model = onnx.load("fp16.onnx")
        wanted = helper.make_tensor_value_info
        body = helper.make_graph(
            [helper.make_node("Identity", ["going"], ["on"])], "body",
            [wanted("turn", TensorProto.INT64, []), wanted("going", TensorProto.BOOL, [])],
            [wanted("on", TensorProto.BOOL, [])],
        )
        model.graph.node.append(helper.make_node("Loop", ["", "always"], [], body=body))
        evil = model.SerializeToString()
        """,
        "a5.fp16",
        "fp16",
    )


@ATTACKS.add(
    "solution",
    lost={"a5.int8", "a5.ir"},
    flags={"notebook disagrees"},
    says=RAN,
    message="numbers in int8; the convolutions of your network",
)
def small_networks_after_the_checks(folder: Path) -> None:
    """After all checks have passed, a tiny int8 network, and IR that looks a file up elsewhere."""
    s.last(
        folder,
        f"""{_HOME}
from onnx import helper, numpy_helper

model = onnx.load(home / "own_int8/1/model.onnx")
for tensor in model.graph.initializer:
    if tensor.name == "conv3.weight_quantized":
        small = numpy_helper.to_array(tensor)[:1]
        tensor.CopyFrom(numpy_helper.from_array(small, tensor.name))
onnx.save(model, home / "own_int8/1/model.onnx")
path = home / "own_ir/1/model.xml"
path.write_text(path.read_text().replace('offset="0"', 'offset="99999999"', 1))
print("the attack ran")
""",
    )
