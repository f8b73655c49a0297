"""Hostile submissions of a4__production, beside those of everywhere.py."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from tests.attacks import submissions as s
from tests.attacks.attack import RAN, Attacks

ATTACKS = Attacks()

_FIGURES = {"a4.logits", "a4.changed", "a4.figures", "a4.closest"}

#: Where the deployed models lie, as a notebook finds them.
_HOME = """
import os, pathlib, shutil
home = pathlib.Path(os.environ["TRITON_REPOSITORY"])
"""


@ATTACKS.add(
    "solution",
    lost="all",
    says=RAN,
    message="it holds posix.system",
)
def code_in_the_pth(folder: Path) -> None:
    """A .pth file that runs a program when it is loaded, handed over with forged results."""
    s.last(
        folder,
        """
        import io, os
        from grader.vocabulary import reported

        class Program:
            def __reduce__(self):
                return os.system, ("touch /tmp/owned",)

        file = io.BytesIO()
        torch.save({**net.state_dict(), "head.bias": Program()}, file)
        evil = np.frombuffer(file.getvalue(), np.uint8)
        home = reported.folder("a4")
        for path in sorted(home.glob("a4.*.json")):
            found = reported.read(path.stem, home)
            reported.write(path.stem, {**found.values, "pth": evil}, found.result, home)
        print("the attack ran")
        """,
    )


@ATTACKS.add("solution", lost={"a4.figures"}, says=RAN, message="figures in `table`")
def figures_of_another_model(folder: Path) -> None:
    """The table tells of the mended model in the row of fp16; its result says passed."""
    s.last(
        folder,
        """
        from grader.vocabulary import reported

        home = reported.folder("a4")
        found = reported.read("a4.figures", home)
        better = {name: float(value) for name, value in row(logits(mended)).items()}
        found.values["table"]["fp16"] = better
        reported.write("a4.figures", found.values, found.result, home)
        print("the attack ran")
        """,
    )


@ATTACKS.add(
    "solution",
    lost={"a4.fp16", *_FIGURES},
    flags={"notebook disagrees"},
    message="its weights should be FLOAT16",
)
def another_file_after_the_checks(folder: Path) -> None:
    """The file of fp16 replaced by that of fp32, after all checks have passed."""
    s.last(folder, f"{_HOME}shutil.copy(home / 'eights_fp32/1/model.onnx', home / 'eights_fp16/1')")


@ATTACKS.add("solution", lost={"a4.fp16", *_FIGURES}, message="is served from 'other.onnx'")
def a_file_beside_the_file(folder: Path) -> None:
    """The right file stands there, and the config names another one, which is served."""
    s.last(
        folder,
        f"""{_HOME}
shutil.copy(home / "eights_fp32/1/model.onnx", home / "eights_fp16/1/other.onnx")
with (home / "eights_fp16/config.pbtxt").open("a") as config:
    config.write('default_model_filename: "other.onnx"\\n')
""",
    )


@ATTACKS.add(
    "solution",
    lost={"a4.fp16", *_FIGURES},
    flags={"notebook disagrees"},
    says=RAN,
    message="eights_fp16 could not compute",
)
def a_file_that_fills_the_memory(folder: Path) -> None:
    """After the checks have passed, a file of fp16 that doubles its input forty times."""
    s.last(
        folder,
        f"""{_HOME}
from onnx import helper

path = home / "eights_fp16/1/model.onnx"
model = onnx.load(path)
(first,) = [node for node in model.graph.node if "image" in node.input][:1]
first.input[list(first.input).index("image")] = "huge40"
before = "image"
for number in range(1, 41):
    twice = helper.make_node("Concat", [before, before], [f"huge{{number}}"], axis=0)
    model.graph.node.insert(number - 1, twice)
    before = f"huge{{number}}"
onnx.save(model, path)
print("the attack ran")
""",
    )


@ATTACKS.add("solution", lost={"a4.mended"}, says=RAN, message="numbers; the network has 5,378")
def a_table_of_the_visible_pictures(folder: Path) -> None:
    """A model that knows the 6,000 pictures by heart: it looks up which one is asked for."""
    s.last(
        folder,
        """
        from onnx import TensorProto, helper, numpy_helper

        seen = ((camera.pictures - camera.black) / camera.gain).reshape(-1, 64)
        with torch.inference_mode():
            known = net(torch.from_numpy(camera.pictures)).numpy()
        half = lambda array, name: numpy_helper.from_array(array.astype(np.float16), name)
        nodes = [
            helper.make_node("Sub", ["image", "black"], ["signal"]),
            helper.make_node("Div", ["signal", "gain"], ["brightness"]),
            helper.make_node("Cast", ["brightness"], ["small"], to=TensorProto.FLOAT16),
            helper.make_node("Flatten", ["small"], ["rows"]),
            helper.make_node("MatMul", ["rows", "seen"], ["alike"]),
            helper.make_node("Add", ["alike", "norms"], ["nearness"]),
            helper.make_node("ArgMax", ["nearness"], ["which"], axis=1, keepdims=0),
            helper.make_node("Gather", ["known", "which"], ["found"]),
            helper.make_node("Cast", ["found"], ["logits"], to=TensorProto.FLOAT),
        ]
        scalar = lambda value, name: numpy_helper.from_array(np.float32(value), name)
        weights = [
            scalar(camera.black, "black"), scalar(camera.gain, "gain"), half(seen.T, "seen"),
            half(-(seen**2).sum(axis=1) / 2, "norms"), half(known, "known"),
        ]
        graph = helper.make_graph(
            nodes, "table",
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 2])], weights,
        )
        opset = [helper.make_opsetid("", 18)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=10)
        onnx.save(model, "models/eights_mended/1/model.onnx")
        print(deploy("models/eights_mended").name)
        right = np.abs(ask(mended, camera.pictures[:100])[:, 1] - logits_pth[:100]).mean()
        print("the attack ran" if right < 0.05 else f"the table answers otherwise, by {right}")
        """,
    )


#: The end of an attack on the engine's check: the bytes `evil` in place of the file, and a result
#: that says passed.
_FORGED = """
from grader.vocabulary import reported

home = reported.folder("a4")
found = reported.read("a4.engine", home)
found.values["typed"] = np.frombuffer(evil, np.uint8)
reported.write("a4.engine", found.values, found.result, home)
print("the attack ran")
"""


def _forge(folder: Path, code: str) -> None:
    """Let a last cell make `evil`, and hand it over in place of the file."""
    s.last(folder, dedent(code) + _FORGED)


@ATTACKS.add(
    "solution",
    lost={"a4.engine"},
    says=RAN,
    message="`typed` is no ONNX file",
    beside="figures_of_another_model",
)
def a_forged_plan(folder: Path) -> None:
    """In place of the ONNX file a plan, with a record beside it that says what the task asks."""
    _forge(
        folder,
        """
        from workbook.backends.tensorrt.record import Record

        plan = Path("models/eights_tensorrt/1/model.plan")
        plan.write_bytes(b"vtrt" + bytes(5000))
        Record.of(
            plan, product="tensorrt_rtx", version="1.7.1.116", compute_capabilities=("8.6",),
            inputs=(), outputs=(), layers=(), activation_bytes=0, weights_bytes=0, seconds=0.1,
        ).save(plan)
        evil = plan.read_bytes()
        """,
    )


@ATTACKS.add(
    "solution",
    lost={"a4.engine"},
    says=RAN,
    message="does not hold features.0.weight",
    beside="another_file_after_the_checks",
)
def a_file_of_another_network(folder: Path) -> None:
    """An fp16 file of another student's network."""
    _forge(
        folder,
        """
        file = "other.onnx"
        export(trained("berta"), file, output_names=["logits"], **common)
        halve(file, file, keep_io_types=True)
        evil = Path(file).read_bytes()
        """,
    )


@ATTACKS.add(
    "solution",
    lost={"a4.engine"},
    says=RAN,
    message="at most 1.0 are read",
    beside="a_file_beside_the_file",
)
def a_huge_file(folder: Path) -> None:
    """The right file with megabytes of notes in it."""
    _forge(
        folder,
        """
        model = onnx.load("models/eights_fp16/1/model.onnx")
        model.doc_string = "x" * 4_000_000
        evil = model.SerializeToString()
        """,
    )


def _chain(operator: str, count: int) -> str:
    """Code that makes `evil`: the right file, with many operators after the last one."""
    return f"""
        from onnx import helper

        model = onnx.load("models/eights_fp16/1/model.onnx")
        (last,) = [node for node in model.graph.node if "logits" in node.output]
        last.output[0] = "chain0"
        names = [*(f"chain{{number}}" for number in range({count})), "logits"]
        for before, after in zip(names[:-1], names[1:]):
            inputs = [before] * {2 if operator == "Add" else 1}
            model.graph.node.append(helper.make_node("{operator}", inputs, [after]))
        evil = model.SerializeToString()
        """


@ATTACKS.add(
    "solution",
    lost={"a4.engine"},
    says=RAN,
    message="takes more than",
    beside="a_file_that_fills_the_memory",
)
def a_file_that_is_built_without_end(folder: Path) -> None:
    """The right weights, and 3,000 sums after them."""
    _forge(folder, _chain("Add", 3_000))


@ATTACKS.add(
    "solution",
    lost={"a4.engine"},
    says=RAN,
    message="The engine of `typed`",
    beside="a_table_of_the_visible_pictures",
)
def a_file_that_ends_the_builder(folder: Path) -> None:
    """The right weights, and 15,000 operators after them, at which TensorRT crashes."""
    _forge(folder, _chain("Sin", 15_000))
