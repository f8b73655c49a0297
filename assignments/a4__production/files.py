"""What the checks of a4__production ask of the ONNX files that the models are served from."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.vocabulary import onnx_file, untrusted
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Probe

from . import facts
from .network import CUT, SHAPES, Network

#: How many numbers a file may hold beside the weights: shapes, the camera's two numbers, a limit.
_MORE = 200
#: How many numbers may be fp32 in a file whose weights are fp16.
_SINGLE = 8
#: Task 10: how many numbers with fractions such a file may hold beside the weights, and how many
#: whole ones. A second copy of the smallest layer has 160.
_BESIDE, _WHOLE = 8, 40
#: How far a number may be from the one in fp16 to which it was rounded, as a share of it.
_APART = 2.0**-11 * 1.01
#: No weight and no bias of a folded network is larger than this; black is.
_LARGE = 4_096.0


def of_task(model: Any, wanted: str) -> None:
    """Fail if the model of another task was handed over. A student's own name for a model passes.

    Args:
        model: what was handed over.
        wanted: the model that the task is about.
    """
    if isinstance(model, str) and model in facts.MODELS and model != wanted:
        raise Failure(
            f"This task is about models/{wanted}, and {model} was handed over.",
            help=f'Deploy that folder, and hand over its name: deploy("models/{wanted}").name.',
        )


def same(server: Probe, model: str, network: Network, type: str) -> None:
    """Fail unless a model's file holds the network's weights, and hardly anything else.

    Args:
        server: the check's probe.
        model: the model's name.
        network: with the student's weights.
        type: the type in which they are to be stored: "FLOAT" or "FLOAT16".
    """
    again = f"Make models/{model}/1/model.onnx from the network of eights.pth, and deploy again."
    held = onnx_file.numbers(server, model, help=again)
    holds(held, f"{model}/1/model.onnx", network, type, again)


def holds(
    held: list[onnx_file.Numbers], where: str, network: Network, type: str, again: str
) -> None:
    """Fail unless the numbers of a file are the network's weights, and hardly anything else.

    Args:
        held: the numbers.
        where: the file's name, for messages.
        network: with the student's weights.
        type: the type in which they are to be stored.
        again: how to make the file anew.
    """
    others = [h for h in held if h.is_floating and h.type != type and h.values.size > _SINGLE]
    if others:
        raise Failure(
            f"{where} holds {onnx_file.count(held, others[0].type):,} numbers as "
            f"{others[0].type}; its weights should be {type}.",
            help="Is it the file that the task asks for, and deployed after you made it? "
            "op_block_list keeps the weights of the operators in it as they were.",
        )
    apart = _APART if type == "FLOAT16" else 2.0**-22
    cut = CUT if type == "FLOAT16" else np.inf
    for name, tensor in network.weights.items():
        if not onnx_file.holds(held, type, np.clip(tensor, -cut, cut), apart=apart):
            help = f"It is another network, or from before you folded. {again}"
            if type == "FLOAT16" and (sizes := _cut_to(held, tensor)):
                help = (
                    f"All its numbers lie between {sizes[0]:.3g} and {sizes[1]:.5g}, without the "
                    "sign: the converter has changed smaller or larger ones. Leave out "
                    "min_positive_val and max_finite_val."
                )
            raise Failure(f"{where} does not hold {name} of eights.pth.", help=help)
    if (numbers := onnx_file.count(held)) > _weights() + _MORE:
        raise Failure(
            f"{where} holds {numbers:,} numbers; the network has {_weights():,}.",
            help="Export the network alone.",
        )


def _cut_to(
    held: list[onnx_file.Numbers], tensor: np.ndarray[Any, Any]
) -> tuple[float, float] | None:
    """The least and the largest number of a tensor in which a converter has cut some; else None."""
    for one in held:
        sizes = np.abs(one.values[one.values != 0]).astype(np.float64)
        if one.values.size == tensor.size and sizes.size:
            least, most = float(sizes.min()), float(sizes.max())
            cut = np.copysign(np.clip(np.abs(tensor), least, most), tensor)
            some = 0 < (cut != tensor).mean() < 0.5
            if some and onnx_file.holds([one], "FLOAT16", cut, apart=_APART):
                return least, most
    return None


def _weights() -> int:
    """How many weights and biases the network has."""
    return sum(int(np.prod(shape)) for shape in SHAPES.values())


def all_in_half(server: Probe, model: str) -> None:
    """Fail unless a file's weights are all fp16, and are no more than the network has."""
    held = onnx_file.numbers(server, model, help=f"Save it as models/{model}/1/model.onnx.")
    if not onnx_file.count(held, "FLOAT16"):
        raise Failure(
            f"{model}/1/model.onnx holds no number as FLOAT16: it is not converted.",
            help="Run halve on the exported file first, and deploy the folder again.",
        )
    single = [one for one in held if one.is_floating and one.type != "FLOAT16"]
    if (numbers := onnx_file.count(single)) > _SINGLE:
        large = [one for one in single if one.values.size > 1]
        named = ", ".join(f"{one.name} {list(one.values.shape)}" for one in large or single)[:300]
        equal = ", ".join(one.name for one in large if np.ptp(one.values) == 0)[:300]
        help = "The weights of every layer are to be fp16. What else could keep the first layer "
        help += "from multiplying small weights by large counts?"
        if equal:
            help = f"In each of these all numbers are equal, so one is enough: {equal}."
        raise Failure(
            f"{model}/1/model.onnx holds {numbers:,} numbers as {single[0].type}; at most "
            f"{_SINGLE} may be anything else than FLOAT16. They are in: {named}.",
            help=help,
        )
    fractions = onnx_file.count([one for one in held if one.is_floating])
    whole = onnx_file.count(held) - fractions
    if fractions > _weights() + _BESIDE or whole > _WHOLE:
        which = f" {whole:,} of them are whole: shapes take a few." if whole > _WHOLE else ""
        raise Failure(
            f"{model}/1/model.onnx holds {fractions + whole:,} numbers; the network has "
            f"{_weights():,}, and at most {_BESIDE} more with fractions are allowed.{which}",
            help="Is a layer, or a part of it, in the file twice? Only its input needs another "
            "form.",
        )


def compares_with(server: Probe, model: str, limit: float) -> None:
    """Fail where a file holds a threshold rounded to fp16, and not the threshold itself."""
    try:
        held = [one for one in onnx_file.numbers(server, model) if one.is_floating]
    except Failure:
        return
    single = {(one.type == "FLOAT16", one.values.item()) for one in held if one.values.size == 1}
    with np.errstate(over="ignore"):
        exact, rounded = float(np.float32(limit)), float(np.float16(limit))
    if exact != rounded and (True, rounded) in single and (False, exact) not in single:
        raise Failure(
            f"{model}/1/model.onnx compares with {rounded:.7g}, and `chosen` is {limit:.7g}: the "
            "converter has rounded the threshold to fp16.",
            help="Put the operator that compares into op_block_list, too: its type, with the "
            "capitals that node.op_type shows.",
            credit=0.5,
        )


def large(server: Probe, model: str) -> str:
    """What to do where a file holds a large number in fp16, such as black; else "".

    The converter has cut it, or the operator that it belongs to runs in fp16.
    """
    try:
        held = onnx_file.numbers(server, model)
    except Failure:
        return ""
    found = [
        (one.name, float(np.abs(one.values).max()))
        for one in held
        if one.type == "FLOAT16" and one.values.size and _LARGE < np.abs(one.values).max() < np.inf
    ]
    if not found:
        return ""
    name, number = found[0]
    what = f"{model}/1/model.onnx holds the number {number:,.0f} in fp16"
    if number == CUT:
        return (
            f"{what}: to this the converter cuts larger numbers, with a warning. Convert with "
            "halve, and keep the operator that this number belongs to in fp32 (op_block_list): "
            "then its constant stays fp32 as well."
        )
    data, where = onnx_file.content(server, model), f"{model}/1/model.onnx"

    def using() -> dict[str, list[str]]:
        nodes = onnx_file.graph(data, where).graph.node
        return {"operators": [node.op_type[:40] for node in nodes if name in node.input]}

    users = iter(untrusted.read(where, using)["operators"])
    return (
        f"{what}, where neighbouring numbers are {np.spacing(np.float16(number)):g} apart. The "
        f"{next(users, 'operator')} that uses it is itself computed in fp16: with fp16 arithmetic, "
        "as on a GPU, the counts are rounded to such steps as well. Which operators have to stay "
        "in fp32?"
    )
