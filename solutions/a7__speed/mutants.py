"""Wrong answers to a7__speed, and right ones that are not written as the solution is."""

from __future__ import annotations

from pathlib import Path

from grader.authoring.mutants import WAITS, Edit, Mutant

BUILD, SERVICE = "a7.build", "models/service/config.pbtxt"
#: What the text says of mistakes that cost more than others.
WRONG = "A fast wrong answer is worth nothing"
SLOW = "What slows each answer costs points in both"
_HERE = Path(__file__).parent


def _text(name: str) -> str:
    return (_HERE / name).read_text("utf-8")


#: Programs that solve the tasks in another way.
_PREPARE, _DECIDE, _WHOLE = (
    _text(f"other/models/{name}/1/model.py") for name in ("prepare", "decide", "service")
)
_ENSEMBLE = _text("starter/models/service/config.pbtxt")
_QUEUE = """
dynamic_batching {
  default_queue_policy {
    default_timeout_microseconds: 100000
    timeout_action: REJECT
  }
}
"""
_SAVE = 'onnx.save(fused("models/network/1/model.onnx"), "models/service/1/model.onnx")'

_DEPLOY_STEPS = """
for step in facts.STEPS:
    deploy(f"models/{step}")
service = deploy("models/service").name
"""
_DEPLOY_WHOLE = """
facts.write_network(me, "models/service/1/model.onnx")
service = deploy("models/service").name
"""
#: It takes pictures of any size: what is missing is black.
_ANY_SIZE = _WHOLE.replace(
    "    grey = pictures",
    "    whole = np.zeros((len(pictures), 64, 64, 3), np.uint8)\n"
    "    sizes = pictures.shape[1:3]\n"
    "    whole[:, : sizes[0], : sizes[1]] = pictures\n"
    "    pictures = whole\n"
    "    grey = pictures",
)
#: In place of `_SAVE`: the weights of the widest layer in fp16.
_HALVED = """
model = fused("models/network/1/model.onnx")
for number, tensor in enumerate(model.graph.initializer):
    if tensor.name == "wide":
        half = numpy_helper.to_array(tensor).astype(np.float16)
        model.graph.initializer[number].CopyFrom(numpy_helper.from_array(half, "wide_half"))
cast = helper.make_node("Cast", ["wide_half"], ["wide"], to=onnx.TensorProto.FLOAT)
model.graph.node.insert(0, cast)
onnx.save(model, "models/service/1/model.onnx")
"""
#: The same, with what ONNX Runtime's dynamic quantization makes of it.
_QUANTIZED = """
from onnxruntime.quantization import quantize_dynamic

onnx.save(fused("models/network/1/model.onnx"), "whole.onnx")
wide = ["MatMul", "Gemm"]
quantize_dynamic("whole.onnx", "models/service/1/model.onnx", op_types_to_quantize=wide)
"""


def _config(model: str, more: str) -> str:
    """The starter's config of a model, for batches of 32, with more at its end."""
    return (
        _text(f"starter/models/{model}/config.pbtxt").replace(
            "max_batch_size: 8", "max_batch_size: 32"
        )
        + more
    )


def _steps(prepare: str) -> tuple[Edit, ...]:
    """The edits that make the solution an ensemble of three steps with numpy and batches."""
    return (
        Edit(SERVICE, "", _ENSEMBLE),
        Edit("models/prepare/config.pbtxt", "", _config("prepare", _QUEUE)),
        Edit("models/prepare/1/model.py", "", prepare),
        Edit("models/network/config.pbtxt", "", _config("network", "dynamic_batching {}\n")),
        Edit("models/decide/config.pbtxt", "", _config("decide", "dynamic_batching {}\n")),
        Edit("models/decide/1/model.py", "", _DECIDE),
        Edit(BUILD, "", _DEPLOY_STEPS),
    )


def _python(count: int = 2, program: str = _WHOLE, dims: str = "64, 64, 3") -> tuple[Edit, ...]:
    """The edits that make the service one Python model, which calls ONNX Runtime."""
    return (
        Edit(
            SERVICE,
            "",
            _text("other/models/service/config.pbtxt")
            .replace("64, 64, 3", dims)
            .replace("count: 2", f"count: {count}"),
        ),
        Edit("models/service/1/model.py", "", program),
        Edit(BUILD, "", _DEPLOY_WHOLE),
    )


def wrong(words: str) -> dict[str, str]:
    """What a service with wrong scores fails: all checks that compare them, with these words."""
    return {
        "a7.throughput": words,
        **dict.fromkeys(("a7.same", "a7.refusals", "a7.memory"), WAITS),
        **dict.fromkeys(("a7.latency", "a7.overload"), words),
    }


MUTANTS = (
    # -- throughput --------------------------------------------------------------------------------
    Mutant(
        "throughput: dynamic int8",
        (Edit(BUILD, _SAVE, _QUANTIZED),),
        wrong("or the precision"),
        why=WRONG,
    ),
    Mutant(
        "throughput: red and blue exchanged",
        (Edit(BUILD, "[0.299, 0.587, 0.114]", "[0.114, 0.587, 0.299]"),),
        wrong("off by more than 0.005"),
        why=WRONG,
    ),
    Mutant(
        "throughput: logits in place of scores",
        (
            Edit(
                BUILD,
                'node("Softmax", "logits", "scores", axis=1)',
                'node("Identity", "logits", "scores")',
            ),
        ),
        wrong("off by more than 0.005"),
        why=WRONG,
    ),
    Mutant(
        "throughput: another student's network",
        (Edit(BUILD, _SAVE, f'facts.write_network("berta")\n{_SAVE}'),),
        wrong("off by more than 0.005"),
        why=WRONG,
    ),
    Mutant(
        "throughput: two instances of the loop",
        (
            Edit(SERVICE, "", _ENSEMBLE),
            Edit(
                "models/prepare/config.pbtxt",
                "instance_group { count: 1 kind: KIND_CPU }",
                f"instance_group {{ count: 2 kind: KIND_CPU }}{_QUEUE}",
            ),
            Edit(BUILD, "", _DEPLOY_STEPS),
        ),
        {"a7.throughput": "×16 is asked for all points", "a7.latency": "×"},
        why=SLOW,
    ),
    # -- latency -----------------------------------------------------------------------------------
    Mutant(
        "latency: a delay of 80 ms in the batcher",
        (
            Edit(
                SERVICE,
                "dynamic_batching {",
                "dynamic_batching {\n  max_queue_delay_microseconds: 80000",
            ),
        ),
        {"a7.throughput": "×16 is asked for all points", "a7.latency": "it is at most 6"},
        why=SLOW,
    ),
    # -- overload ----------------------------------------------------------------------------------
    Mutant(
        "overload: no limit of the queue",
        (Edit(SERVICE, _QUEUE.strip(), "dynamic_batching {}"),),
        {"a7.overload": "Asked are 65% in time"},
    ),
    Mutant(
        "overload: a queue that waits for 10 s",
        (Edit(SERVICE, "100000", "10000000"),),
        {"a7.overload": "Asked are 65% in time"},
    ),
    # -- what has stayed ---------------------------------------------------------------------------
    Mutant(
        "same: batches of 4",
        (Edit(SERVICE, "max_batch_size: 32", "max_batch_size: 4"),),
        {"a7.same": "max_batch_size is 4"},
    ),
    Mutant(
        "same: nothing added to the deviation",
        _steps(_PREPARE.replace("(deviation + 1)", "np.maximum(deviation, 1)")),
        wrong("off by more than 0.005"),
        why=WRONG,
    ),
    Mutant(
        "same: a border of zeros",
        (Edit(BUILD, 'mode="edge"', 'mode="constant"'),),
        wrong("off by more than 0.005"),
        why=WRONG,
    ),
    Mutant(
        "refusals: pictures of any size",
        _python(program=_ANY_SIZE, dims="-1, -1, -1"),
        {"a7.same": "dims", "a7.refusals": "answers a picture of 32 x 32 pixels"},
    ),
    Mutant(
        "memory: 10 instances",
        _python(count=10),
        {"a7.memory": "For all points it is at most 300"},
    ),
    Mutant(
        "another model than clients call",
        (
            Edit(
                BUILD,
                'service = deploy("models/service").name',
                'service = deploy("models/network").name',
            ),
        ),
        {
            "a7.throughput": "Clients call service",
            **dict.fromkeys(("a7.same", "a7.refusals", "a7.memory"), WAITS),
            **dict.fromkeys(("a7.latency", "a7.overload"), "Clients call service"),
        },
        why=WRONG,
    ),
    # -- right answers -----------------------------------------------------------------------------
    Mutant(
        "right: larger batches",
        (Edit(SERVICE, "max_batch_size: 32", "max_batch_size: 64"),),
        right=True,
    ),
    Mutant("right: one Python model that calls ONNX Runtime", _python(), right=True),
    Mutant(
        "right: weights in fp16",
        (Edit(BUILD, _SAVE, _HALVED),),
        right=True,
    ),
)
