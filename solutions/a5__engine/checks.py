"""The checks of a5__engine: one network in fp16 and int8, as a TensorRT engine, and in OpenVINO.

Students get this file, so it holds no expected answer. The network is drawn by the id, so every
check computes it anew. The hidden checks ask the models for other pictures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grader.vocabulary import collect, onnx_file, tensorrt_engine, values
from grader.vocabulary.define import define
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe

from . import engine as engines
from . import facts, files, half, serving, speed
from .network import own_network

#: The judge loads models of these backends only. Their models are data. No engine is loaded without
#: a GPU, and the judge's sandbox has none.
BACKENDS = ("onnxruntime", "openvino", "tensorrt")
#: Modules that libraries import when they are first used. No program names them, and they take
#: seconds in each process.
IMPORTED_LATE = {"checks": ("sklearn.datasets",)}  # the digits
#: Tasks without hints, the written answer: what to read in place of them.
NO_HINTS = {
    "a5.choice": "Its table says what earns points. Lecture 3 shows how to find out what ONNX "
    "Runtime makes of a file (notebook 05, `What was computed?`), and which operators take its "
    "time (notebook 06, `Where does the time go?`).",
}
#: How many pictures are computed with fp16 arithmetic, which takes long without a GPU.
_FEW = 4
#: What a right profile earns of task 3: 9 of its 15 points.
_PROFILE = 0.6
#: The share of the time that OpenVINO saves at least: it saves 0.7 and more.
_SAVES = 0.25
#: Times in ms that a request or a load can take.
_SHORTEST, _LONGEST = 0.01, 1e6


@define(
    "a5.fp16",
    server=False,
    hints=(
        "fp16 ends at 65,504. The camera has counts up to 4,095. Which operator of the network "
        "makes numbers above 65,504 of them?",
        'between("network.onnx", camera.pictures[:8]) has the numbers between the operators. Look '
        "for the largest. The operator that makes it has to compute in fp32, and those that take "
        "it, too, until the numbers are small again.",
        "node_block_list takes names of operators. Those of the normalization begin with "
        '"normalize": [n.name for n in model.graph.node if n.name.startswith("normalize")].',
    ),
    read="Read on: lecture 2, notebook 13, section fp16; onnxconverter-common's README.",
)
def fp16(server: Probe, me: str, fp16: Array) -> None:
    """The file has your network's weights in fp16, and its logits are right in fp16 arithmetic."""
    file, network = files.content("fp16", fp16), own_network(me)
    files.in_fp16(file, network)
    pictures = facts.own_camera(me).pictures[:_FEW]
    serving.near(
        "the logits of `fp16`, computed in fp16 as a GPU does,",
        half.logits(file, "`fp16`", pictures),
        network.logits(pictures),
        "fp16",
        help="On a CPU, ONNX Runtime computes in fp32, and does not show it; in_half does. Which "
        "numbers in between(…) are above 65,504? Each operator that makes or takes them has to "
        "stay in fp32. node_block_list takes the names of operators; those in between(…) are the "
        "names of their results.",
    )


@define(
    "a5.int8",
    hints=(
        "Two things count: the pictures that the ranges are measured on, and the types and zero "
        "points in the file. The table in the task has the options for these.",
        'The reader\'s get_next returns {"image": batch} until there is none, then None. Batches '
        "come from camera.calibration. In the table, choose QDQ, QInt8 twice, convolutions alone, "
        "zero points of 0, and biases in fp32.",
        "quantize_static(source, target, reader, quant_format=QuantFormat.QDQ, per_channel=True, "
        "reduce_range=True, activation_type=QuantType.QInt8, weight_type=QuantType.QInt8, "
        'op_types_to_quantize=["Conv"], extra_options={"ActivationSymmetric": True, '
        '"WeightSymmetric": True, "QuantizeBias": False}).',
    ),
    read="Read on: lecture 3, notebook 05, section int8; workbook/zoo/engines.py, `quantize`.",
)
def int8(server: Probe, me: str, model: str) -> None:
    """ONNX Runtime serves your network in int8: calibrated, symmetric, and it reads the same."""
    serving.of_task(model, facts.INT8)
    network, camera = own_network(me), facts.own_camera(me)
    config = serving.is_served(server, model, "onnxruntime")
    files.in_int8(onnx_file.content(server, model), f"{model}/1/model.onnx", network)
    serving.same_digits(
        model,
        facts.ask(server, model, camera.pictures),
        network.logits(camera.pictures),
        "your pictures",
        help="Scales come from the calibration: does the reader return camera.calibration, in "
        "counts as they are, and all of it?",
    )
    serving.takes_all(config, model)


@define(
    "a5.engine",
    server=False,
    hints=(
        "models/own_engine/config.pbtxt says how many pictures a client may send, and how many "
        "most requests have. For the second part: the memory grows with the largest batch of a "
        "profile.",
        "A function of the batch helps: it builds with a profile of 1, 8 and this batch, and "
        "returns .record.activation_bytes. Compare that with budget(me), and halve the range in "
        "which the answer lies.",
        'profile = engines.profile_of({"image": (1, 32, 32)}, (1, 8, 32)). Then low, high = 32, '
        "1025; while high - low > 1: build for the middle; if it fits, it is the new low, else the "
        "new high. At the end, largest = low.",
    ),
    read="Read on: lecture 2, notebook 10, `Profiles`.",
)
def engine(server: Probe, me: str, fp16: Array, int8: Array, profile: Any, largest: Any) -> None:
    """TensorRT builds both your files with your profile, and you know what fits into memory."""
    shapes, budget = engines.profile(profile), facts.budget(me)
    if not tensorrt_engine.can_build():
        engines.fits_requests(shapes)
        collect.note("TensorRT for RTX is not installed here: only the profile was looked at.")
        return
    help = "It is the largest batch that fits into budget(me), as a number."
    is_open = isinstance(largest, str) and largest == facts.NOT_ATTEMPTED
    most = 0 if is_open else values.whole("largest", largest, least=1, most=100_000, help=help)
    own_files = {name: files.content(name, file) for name, file in (("fp16", fp16), ("int8", int8))}
    files.converted(own_files["fp16"])
    for name, file in own_files.items():
        engines.build(f"`{name}`", file, shapes)
    engines.fits_requests(shapes)
    if is_open:
        raise Failure(
            "TensorRT builds both your files with your profile. `largest` is not there yet.",
            help=help,
            credit=_PROFILE,
        )
    taken = [
        engines.build("`fp16`", own_files["fp16"], engines.widened(batch))
        for batch in (most, most + 1)
    ]
    if not taken[0] <= budget < taken[1]:
        raise Failure(
            f"Up to {most:,} pictures, the engine of `fp16` takes {taken[0]:,} bytes for "
            f"activations, and up to {most + 1:,} it takes {taken[1]:,}. You have {budget:,}.",
            help="Wanted is the last batch that fits: the one after it does not. Build from "
            "fp16.onnx, with 1 as the smallest batch and 8 as the optimum.",
            credit=_PROFILE,
        )
    collect.note("TensorRT has built your engines. What they answer is judged only on a GPU.")


@define(
    "a5.accelerated",
    hints=(
        "The file is network.onnx as it is; one block in the config hands it to OpenVINO.",
        "The block stands in optimization, and there in execution_accelerators. That has two "
        "lists, one for instances on a CPU and one for those on a GPU. What is the kind of yours?",
        "optimization { execution_accelerators { cpu_execution_accelerator: [ { name: "
        '"openvino" } ] } }, and max_batch_size: 32.',
    ),
    read="Read on: lecture 3, notebook 06, `One line`.",
)
def accelerated(server: Probe, me: str, model: str) -> None:
    """ONNX Runtime serves your network in fp32 with OpenVINO; it takes 1 to 32 pictures."""
    serving.of_task(model, facts.ACCELERATED)
    config = serving.is_served(server, model, "onnxruntime")
    lists = config.get("optimization", {}).get("execution_accelerators") or {}
    names = [entry.get("name") for entry in lists.get("cpu_execution_accelerator", ())]
    if names != ["openvino"]:
        others = " It has a list for GPUs." if lists.get("gpu_execution_accelerator") else ""
        raise Failure(
            f"The config of {model} asks for no OpenVINO on the CPU.{others}",
            help="For instances on a CPU the server reads the list cpu_execution_accelerator in "
            "optimization, execution_accelerators. Deploy the folder again afterwards.",
        )
    serving.answers(server, model, own_network(me), facts.own_camera(me).pictures, "fp32")
    serving.takes_all(config, model)


@define(
    "a5.ir",
    hints=(
        "openvino.convert_model reads network.onnx, openvino.save_model writes model.xml and "
        "model.bin. How large is the largest request?",
        "The backend compiles for exactly max_batch_size pictures, and refuses fewer. One "
        "parameter lets it fill a smaller batch up: lecture 2, notebook 06, `A lone picture`.",
        'max_batch_size: 32, and parameters { key: "ENABLE_BATCH_PADDING" value: { '
        'string_value: "YES" } }.',
    ),
    read="Read on: lecture 2, notebook 06.",
)
def ir(server: Probe, me: str, model: str) -> None:
    """The OpenVINO backend serves your network as IR; it takes 1 to 32 pictures."""
    serving.of_task(model, facts.IR)
    config = serving.is_served(server, model, "openvino")
    name = str(config.get("default_model_filename") or facts.IR_FILE)
    if not name.endswith(".xml"):
        raise Failure(
            f"{model} is served from {name[:80]!r}.",
            help=f"This task is about IR: write 1/{facts.IR_FILE} with openvino.save_model, and "
            "take default_model_filename out of the config.",
        )
    serving.answers(server, model, own_network(me), facts.own_camera(me).pictures, "bf16")
    serving.takes_all(config, model)


@define(
    "a5.fast",
    hints=(
        "You have measured four models in task 5. Which one takes the least time for 32 pictures?",
        "Files and configs of these models can be copied. How fast a file is depends on the "
        "program that computes it.",
        "Copy the file and the config of own_accelerated to own_fast: that is fast enough for the "
        "points. For the bonus, read the hints of a5.bonus.",
    ),
    read="Read on: lecture 3, notebook 06, `Where does the time go?`.",
)
def fast(server: Probe, me: str, model: str) -> None:
    """Your fastest model takes at most half the time of ONNX Runtime, and reads the same."""
    config = serving.is_served(server, model, "onnxruntime", "openvino")
    network = own_network(me)
    with speed.reference(server, network) as plain:
        found = speed.ratio(server, model, plain, network, facts.RATIO, facts.HALF)
    speed.note(model, found, "ONNX Runtime in fp32")
    if not speed.at_least(found, facts.RATIO):
        raise Failure(
            f"{model} computes 32 pictures {found} as fast as ONNX Runtime in fp32; at least "
            f"×{facts.RATIO:g} is asked.",
            help="costs has the times of the models of task 5, and cost(fast) those of own_fast. "
            "Which file, or which line of the config, makes it slower than the best of them?",
            credit=0.5 if speed.at_least(found, facts.HALF) else 0.0,
        )
    serving.takes_all(config, model)


@define(
    "a5.bonus",
    hints=(
        "The network has numbers of 32 bits. In which of your files are they smaller?",
        "How fast a file is in ONNX Runtime does not say how fast it is in OpenVINO, which has "
        "only computed network.onnx so far. Which of your other files could it compute?",
        "openvino.convert_model reads int8.onnx, too. Save it as models/own_fast/1/model.xml, and "
        "take the config of own_ir.",
    ),
    read="Read on: OpenVINO's documentation, `Low-Precision Transformations`.",
)
def bonus(server: Probe, me: str, model: str) -> None:
    """Compared with OpenVINO in fp32, your fastest model is as fast as the bonus asks."""
    serving.is_served(server, model, "onnxruntime", "openvino")
    network = own_network(me)
    limit = facts.bonus_limit()
    with speed.reference(server, network, openvino=True) as other:
        found = speed.ratio(server, model, other, network, limit)
    speed.note(model, found, "OpenVINO in fp32")
    if not speed.at_least(found, limit):
        raise Failure(
            f"{model} computes 32 pictures {found} as fast as OpenVINO in fp32; at least "
            f"×{limit:g} is asked for the bonus.",
            help="Nothing is lost without it. In which type does OpenVINO multiply in this model? "
            "Which of your files has smaller numbers?",
        )


@define(
    "a5.costs",
    server=False,
    hints=(
        "A load takes longer, by some ms. Each request of 32 pictures saves some ms. How many "
        "requests save as much as the load takes longer?",
        "Divide the ms that the load of own_accelerated takes longer by the ms that a full request "
        "saves. fastest has two names: of the smallest `one`, and of the smallest `full`.",
        'The differences are those of "load" and of "full", between costs[accelerated] and '
        "costs[plain]. max(0, math.ceil(…)) rounds up, and fastest = {size: min(costs, key=lambda "
        'name: costs[name][size]) for size in ("one", "full")}.',
    ),
    read="Read on: lecture 3, notebook 06, `What the load costs`.",
)
def costs(server: Probe, me: str, model: str, costs: Any, earned: Any, fastest: Any) -> None:
    """You know after how many requests OpenVINO's load is earned, and who is fastest when."""
    table = times(costs)
    plain, other = table[facts.PLAIN], table[facts.ACCELERATED]
    saved = plain["full"] - other["full"]
    if saved < _SAVES * plain["full"]:
        raise Failure(
            f"In `costs`, 32 pictures take {plain['full']:.1f} ms in own_plain and "
            f"{other['full']:.1f} ms in own_accelerated: hardly less.",
            help="Does own_accelerated use OpenVINO? Look at a5.accelerated, then run the cell "
            "with cost(…) again: another program may have disturbed it.",
        )
    exact = (other["load"] - plain["load"]) / saved
    faults = []
    # Where the load takes no longer, the formula gives a number below 0, and 0 is right as well.
    least = 0 if exact > 0 else None
    given = values.whole("earned", earned, least=least, help="It is a number of requests.")
    if abs(given - exact) > 1 and (given or exact > 0):  # rounded up or down
        faults.append(f"`earned` is {given:g}, but `costs` gives another number")
    for size in ("one", "full"):
        name = fastest.get(size) if isinstance(fastest, Mapping) else None
        if not isinstance(name, str) or name not in table:
            raise Failure(
                f"`fastest[{size!r}]` is no name of a model in `costs`.",
                help="`fastest` is a dict with the entries one and full; each is a model's name.",
            )
        if table[name][size] > min(row[size] for row in table.values()):
            faults.append(f"`fastest[{size!r}]` is {name}, which has not the smallest {size!r}")
    if faults:
        is_half = len(faults) == 1 or faults[0].startswith("`fastest")
        raise Failure(
            "; ".join(faults) + ".",
            help="earned: what the load of own_accelerated takes longer than that of own_plain, "
            "divided by what each request of 32 pictures saves. fastest: a dict with the entries "
            "one and full; each is the name with the shortest time in that column.",
            credit=0.5 if is_half else 0.0,
        )


def times(costs: Any) -> dict[str, dict[str, float]]:
    """The table of task 5 as numbers; fails unless it has all models and all times.

    Args:
        costs: what was handed over.

    Returns:
        By a model's name: `load`, `one` and `full`, in ms.

    Raises:
        Failure: an entry is missing, or is no time.
    """
    form = "Deploy the models of tasks 2 and 4, and run the cell again that measures `costs`."
    table: dict[str, dict[str, float]] = {}
    for name in (facts.PLAIN, facts.INT8, facts.ACCELERATED, facts.IR):
        row = costs.get(name) if isinstance(costs, Mapping) else None
        if not isinstance(row, Mapping):
            raise Failure(f"`costs` has no entry {name!r}.", help=form)
        table[name] = {
            key: values.number(f"costs[{name!r}][{key!r}]", row.get(key), help=form)
            for key in ("load", "one", "full")
        }
        if not _SHORTEST < min(table[name].values()) <= max(table[name].values()) < _LONGEST:
            raise Failure(f"A time of {name} in `costs` is no time in ms.", help=form)
    return table
