"""For 10__llm_serving: the models' programs and weights, premises, static batches, the timeline.

setup.prepare(models)           # programs and weights beside the configs; the network of the loop
print(setup.engine())           # vLLM, or Transformers in its place
setup.plot(runs)                # who waits, whose tokens are computed, and which are thrown away
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from workbook import zoo
from workbook.common import paths
from workbook.lessons import workspace
from workbook.lessons.premises import Premise
from workbook.lessons.shared.llm_engine import engine, has_vllm, link, write_program
from workbook.measure import style

__all__ = ["engine", "has_vllm"]

HERE = Path(__file__).parent / "models"
#: A Llama of 40 million random weights: most of a step's time is arithmetic.
WEIGHTS = "llama_large"
_HUGGING_FACE = ("one", "two", "static")


# -- models ----------------------------------------------------------------------------------------


def prepare(models: Path) -> None:
    """Put programs and weights beside the configs, and the network that `loop` asks."""
    source = paths.root() / "model_repository/llama_hf/1/model.py"
    for name in _HUGGING_FACE:
        own = workspace.version(models, name)
        shutil.copy(source, own)
        shutil.copy(paths.package() / "llm/sampling.py", own)
        _place_weights(own)
    prepare_engine(models)
    workspace.copy(models, "llama_onnx", "step", {})


def prepare_engine(models: Path) -> None:
    """Put the weights beside the engine's files; without vLLM, also Transformers' program."""
    own = workspace.version(models, "engine")
    _place_weights(own)
    if not has_vllm():
        write_program(own)
        config = models / "engine/config.pbtxt"
        text = config.read_text("utf-8").replace('backend: "vllm"', 'backend: "python"')
        config.write_text(text, "utf-8")


def _place_weights(own: Path) -> None:
    shutil.copytree(
        zoo.checkpoint(WEIGHTS), own / "checkpoint", copy_function=link, dirs_exist_ok=True
    )


# -- premises and limits ---------------------------------------------------------------------------


def limit(with_vllm: float, *, without_vllm: float) -> float:
    """The limit of a claim: Transformers, in vLLM's place, computes a token for one row a step."""
    return with_vllm if has_vllm() else without_vllm


def repeated(tries: Sequence[pd.Series[float]], factor: float = 1.6) -> Premise:
    """Premise: of each row's measurements, the two best agree; the largest is the best.

    Args:
        tries: the measurements of all rows, a series per try.
        factor: the best may be less than this many times the second best.
    """
    table = pd.concat(tries, axis=1)
    spread = table.max(axis=1) / table.apply(lambda row: row.nlargest(2).iloc[-1], axis=1)
    return Premise(
        spread.max() < factor,
        f"the two best measurements of {spread.idxmax()} differ by a factor of {spread.max():.1f}, "
        "perhaps because other programs used the cores",
    )


# -- batches, and their picture --------------------------------------------------------------------

#: Answers that end within this many seconds of each other were in one static batch.
_TOGETHER = 0.05


def computed(run: pd.DataFrame, *, batched: bool = False) -> pd.DataFrame:
    """When each answer was computed, in seconds; of an answer that came whole, this is deduced.

    Args:
        run: a row per answer: `sent`, `first`, `end` and `tokens`.
        batched: whether answers that end together were one batch; else each is a batch of its own.

    Returns:
        The rows by their end, with `batch` (answers that ended together), `begin`, and `useful`,
        the time of the last token that was asked for.
    """
    table = run.sort_values("end").reset_index(drop=True)
    table["batch"] = (table["end"].diff() > _TOGETHER).cumsum() if batched else table.index
    if (table["first"] < table["end"]).any():
        return table.assign(begin=table["first"], useful=table["end"])
    group = table.groupby("batch")
    free = group["end"].max().shift(fill_value=0.0)
    begin = pd.concat([group["sent"].max(), free], axis=1).max(axis=1)
    table["begin"] = table["batch"].map(begin)
    share = table["tokens"] / group["tokens"].transform("max")
    return table.assign(useful=table["begin"] + share * (table["end"] - table["begin"]))


def batches(run: pd.DataFrame) -> pd.DataFrame:
    """Each static batch: its rows, and the tokens of all its answers and of the longest."""
    found = []
    for _, own in computed(run, batched=True).groupby("batch"):
        found.append(
            {
                "rows": len(own),
                "tokens": own["tokens"].sum(),
                "longest_tokens": own["tokens"].max(),
            }
        )
    return pd.DataFrame(found)


def plot(runs: Mapping[str, pd.DataFrame]) -> style.Picture:
    """Draw who waits and who is computed: a panel per deployment, a line per answer."""
    words = (
        "A line per answer: waiting (thin), computed (thick), thrown away (pale; deduced from the "
        "lengths)"
    )
    figure = style.Picture(8.6, 1.6 * len(runs) + 0.6, words)
    panels = figure.subplots(len(runs), 1, sharex=True)
    for axes, (name, run) in zip(panels, runs.items(), strict=True):
        style.panel(axes, name, below="seconds" if axes is panels[-1] else "", grid="x")
        table = computed(run, batched=name == "static")
        for place, row in enumerate(table.sort_values("sent").itertuples()):
            colour = style.COLOURS[place % len(style.COLOURS)]
            axes.plot([row.sent, row.begin], [place, place], color=style.GREY, linewidth=0.8)
            axes.barh(place, row.end - row.begin, 0.8, row.begin, color=colour, alpha=0.25)
            axes.barh(place, row.useful - row.begin, 0.8, row.begin, color=colour)
        axes.set_yticks([])
        axes.invert_yaxis()
    figure.suptitle(words, color=style.GREY, fontsize=10, x=0.01, ha="left")
    return figure
