"""For 04__sequences: models with a memory, and a plan that shows two strategies differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbook import measure
from workbook.lessons import files, runs
from workbook.lessons.premises import Premise, attempt
from workbook.lessons.runs import Run
from workbook.lessons.shared.digits_model import save_weights
from workbook.measure import style
from workbook.server import Server

#: The number that each request of a sequence adds to its sum: one decimal digit per sequence.
WORTH = {"A": 1.0, "B": 10.0, "C": 100.0, "D": 1000.0}
#: Which sequences send a request in each round. B ends with the second; D begins with the third.
ROUNDS = ("ABC", "ABC", "ADC", "ADC")
#: The digit that the prior of `votes` prefers, and by how much.
PRIOR, WEIGHT = 7, 2.0

#: Milliseconds from one request of a round to the next. Even on a busy machine the second must not
#: overtake the first, and the third must arrive before the first has been computed (20 ms).
APART_MS = 5.0

HERE = Path(__file__).parent / "models"


def apart(models: Path) -> None:
    """Make the task's model, with the two files that lie beside the notebook."""
    files.place(models, HERE / "direct", name="apart")
    files.place(models, HERE / "apart")


def plan(every_ms: float = 60.0) -> list[measure.Request]:
    """Plan four sequences in four rounds, as the notebook does, for `measure.send`.

    In each round A comes first, the others a moment later.

    Args:
        every_ms: from one round to the next, in milliseconds.

    Returns:
        Requests A1, B1, C1, A2, …; each carries the number `WORTH` of its letter.
    """
    requests = []
    for number, names in enumerate(ROUNDS, 1):
        for place, name in enumerate(names):
            requests.append(
                measure.Request(
                    f"{name}{number}",
                    (number - 1) * every_ms + APART_MS * place,
                    inputs={"X": np.array([[WORTH[name]]], np.float32)},
                    sequence=ord(name),
                    start=number == 1 or name not in ROUNDS[number - 2],
                    end=number == len(ROUNDS) or name not in ROUNDS[number],
                )
            )
    return requests


def right_sums() -> dict[str, float]:
    """Return the right sum of each request of `plan`, by its id."""
    sums: dict[str, float] = {}
    for number, names in enumerate(ROUNDS, 1):
        for name in names:
            sums[f"{name}{number}"] = WORTH[name] + sums.get(f"{name}{number - 1}", 0.0)
    return sums


def seats(run: Run) -> pd.DataFrame:
    """Return the slot of each request of a run, and the sum that it received.

    Args:
        run: of a model with a memory. Its answers have `id`, `slot` and `sum`.

    Returns:
        One row per request, in the order of their executions: `id`, `execution`, `start_ms`,
        `end_ms`, `slot`, `sum`, and `right`, the sum that its sequence should have.
    """
    table = run.places.merge(run.answers, left_on="request_id", right_on="id")
    table["right"] = table["id"].map(right_sums())
    columns = ["id", "execution", "start_ms", "end_ms", "slot", "sum", "right"]
    return table.sort_values(["start_ms", "slot"])[columns].reset_index(drop=True)


def in_rounds(table: pd.DataFrame) -> Premise:
    """Premise: in each round the first request ran alone, and then the other two together, in slots
    in the order in which they were sent.

    If the last request overtakes the one before it, a wrong memory gives different sums.

    Args:
        table: of `seats`.
    """
    batches = table.groupby("execution", sort=False)["id"].agg("".join)
    wanted = [
        "".join(f"{name}{number}" for name in part)
        for number, names in enumerate(ROUNDS, 1)
        for part in (names[:1], names[1:])
    ]
    return Premise(
        list(batches) == wanted, f"the executions were {', '.join(batches)}, not as planned"
    )


def record(server: Server, model: str, play: Callable[[str], pd.DataFrame]) -> pd.DataFrame:
    """Let a function of the notebook send the plan to a model, and read the server's traces.

    If the requests did not run in rounds, the plan is sent again.

    Args:
        play: takes the model's name; returns `id`, `slot` and `sum` of each request.

    Returns:
        The table of `seats`.

    Raises:
        ServerError: no server, or no such model.
    """
    return attempt(lambda: seats(runs.record(server, model, lambda: play(model))), in_rounds)


def plot_slots(tables: Mapping[str, pd.DataFrame]) -> style.Picture:
    """Draw executions as columns of slots: one panel per model, all over the same axis of time.

    Args:
        tables: from `record`, by the panels' titles. Slots without a request are dashed; wrong sums
            are marked.

    Example:
        plot_slots({"direct": record(lab, "direct", play)})
    """
    deep = 1 + int(max(table["slot"].max() for table in tables.values()))
    summary = "; ".join(f"{name}: {_describe(table)}" for name, table in tables.items())
    figure = style.Picture(8.6, 0.6 + (0.45 + 0.42 * deep) * len(tables), f"Slots. {summary}")
    panels = figure.subplots(len(tables), 1, sharex=True, squeeze=False)[:, 0]
    colours = dict(zip("ABCD", style.COLOURS, strict=False))
    for axes, (name, table) in zip(panels, tables.items(), strict=True):
        style.panel(axes, name, grid="x")
        for _, batch in table.groupby("execution"):
            left, wide = batch["start_ms"].iloc[0], (batch["end_ms"] - batch["start_ms"]).iloc[0]
            taken = set(batch["slot"])
            for slot in set(range(max(taken))) - taken:
                axes.barh(
                    slot, wide, 0.8, left=left, fill=False, edgecolor=style.GREY, linestyle="--"
                )
            for row in batch.itertuples():
                axes.barh(row.slot, wide, 0.8, left=left, color=colours[row.id[0]])
                wrong = "" if row.sum == row.right else " ✗"
                axes.text(
                    left + wide / 2, row.slot, f"{row.id}: {row.sum:g}{wrong}", ha="center",
                    va="center_baseline", fontsize=8, color=style.INK,
                )  # fmt: skip
        axes.set_yticks(range(deep), [f"slot {slot}" for slot in range(deep)])
        axes.set_ylim(deep - 0.5, -0.5)
        axes.set_xlim(left=-2)
        axes.tick_params(axis="y", length=0)
    panels[-1].set_xlabel(
        "milliseconds; in a box: request and sum, ✗ if it is wrong", color=style.GREY
    )
    return figure


def _describe(table: pd.DataFrame) -> str:
    return ", ".join(f"{row.id} in slot {row.slot}" for row in table.itertuples())


def votes(models: Path) -> None:
    """Make `votes`, an ONNX model that adds a picture's scores to its state.

    Inputs `image` and `before` (the state), outputs `total` and `after` (the new state, the same
    numbers). The state begins as a prior, which prefers the digit `PRIOR`.

    Args:
        models: the repository's folder.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    files.place(models, HERE / "votes")
    home = models / "votes"
    weights_file = models / "weights.npy"
    save_weights(weights_file)
    weights = np.load(weights_file)
    weights_file.unlink()
    arrays = {"flat": np.array([-1, 64]), "weights": weights[:64], "bias": weights[64]}
    graph = helper.make_graph(
        [
            helper.make_node("Reshape", ["image", "flat"], ["row"]),
            helper.make_node("MatMul", ["row", "weights"], ["product"]),
            helper.make_node("Add", ["product", "bias"], ["scores"]),
            helper.make_node("Add", ["scores", "before"], ["total"]),
            helper.make_node("Identity", ["total"], ["after"]),
        ],
        "votes",
        [
            helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8]),
            helper.make_tensor_value_info("before", TensorProto.FLOAT, ["batch", 10]),
        ],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 10])
            for name in ("total", "after")
        ],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, home / "1/model.onnx")
    prior = np.zeros(10, np.float32)
    prior[PRIOR] = WEIGHT
    (home / "initial_state").mkdir(exist_ok=True)
    (home / "initial_state/prior").write_bytes(prior.tobytes())


def plot_votes(totals: Any, digit: int) -> style.Picture:
    """Draw how the total of each digit grows, with the pictures' digit in colour.

    Labels name that digit, and each digit that had the largest total at some time.

    Args:
        totals: an array (n, 10), one row per request of the sequence.
        digit: the digit that the pictures show.
    """
    values = np.asarray(totals)
    steps = range(1, len(values) + 1)
    figure = style.Picture(8.4, 2.6, f"Totals of each digit over {len(values)} pictures")
    axes = figure.subplots()
    style.panel(axes, "Total of each digit's scores", below="pictures seen in this sequence")
    for other in range(10):
        mine = other == digit
        colour = style.COLOURS[0] if mine else style.GREY
        axes.plot(
            steps, values[:, other], color=colour, linewidth=2.4 if mine else 0.9,
            marker="o" if mine else None, alpha=1 if mine else 0.6,
        )  # fmt: skip
        if mine or other in values.argmax(axis=1):
            axes.text(
                len(values) + 0.08, values[-1, other], str(other), va="center", fontsize=9,
                color=style.GREY, weight="bold" if mine else "normal",
            )  # fmt: skip
    axes.set_xticks(list(steps))
    return figure
