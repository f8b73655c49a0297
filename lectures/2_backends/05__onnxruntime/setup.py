"""For 05__onnxruntime: a small sentence encoder, sentences, and times from a profile."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from workbook import measure
from workbook.lessons import place
from workbook.lessons.premises import Premise
from workbook.lessons.shared import variants
from workbook.lessons.workspace import folder

#: The models that the reader opens.
HERE = Path(__file__).parent / "models"
#: The input names of a BERT, as the production guide's team agreed on them.
NAMES = ("input_ids", "attention_mask", "token_type_ids")
WORDS, WIDTH = 1000, 768
#: The options of the prediction, one per convolution, in the graph's order.
CONVOLUTIONS = (
    "the first: it sees the whole picture",
    "the second",
    "all alike: each halves the sides and has more channels",
    "the fourth: it has the most weights",
)
#: A config line with an execution mode that does not exist.
MODE = 'parameters { key: "execution_mode" value: { string_value: "2" } }'
#: A config section that names an accelerator that does not exist.
ACCELERATOR = """optimization { execution_accelerators {
  cpu_execution_accelerator: [ { name: "onednn" } ]
} }"""


class Encoder(torch.nn.Module):  # type: ignore[misc]
    """A BERT that gives a sentence's mean vector; padding is left out of the mean.

    Two layers, random weights: the vectors mean nothing. input_ids, attention_mask,
    token_type_ids: int64 (n, tokens) → vector float32 (n, 768).
    """

    def __init__(self) -> None:
        super().__init__()
        self.bert = _bert()

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> torch.Tensor:
        """Return the mean of the words' vectors."""
        words = self.bert(input_ids, attention_mask, token_type_ids).last_hidden_state
        mask = attention_mask[:, :, None].to(words.dtype)
        return (words * mask).sum(1) / mask.sum(1)


def models() -> Path:
    """Make a fresh repository: two configs, and an empty version 1 of each of the four models."""
    home = folder("onnxruntime")
    place(home, HERE / "onnx_model", HERE / "sps_sbert_onnx")
    for name in ("onnx_model", "focus_onnx", "older", "sps_sbert_onnx"):
        (home / name / "1").mkdir(parents=True, exist_ok=True)
    return home


def _bert() -> Any:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    shape = BertConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=12,
        intermediate_size=WIDTH, max_position_embeddings=64, attn_implementation="eager",
    )  # fmt: skip
    return BertModel(shape, add_pooling_layer=False).eval()


def example() -> tuple[torch.Tensor, ...]:
    """Make inputs for the exporter: three separate tensors int64 (2, 7)."""
    return tuple(torch.ones((2, 7), dtype=torch.int64) for _ in NAMES)


def sentence(tokens: int, padded: int = 0) -> dict[str, npt.NDArray[np.int64]]:
    """Make a sentence as numbers: the inputs of one request, each an int64 array (1, tokens).

    Args:
        tokens: the number of words.
        padded: fill up with zeros to this length; the attention mask is 0 there.
    """
    length = max(tokens, padded)
    ids = np.zeros((1, length), np.int64)
    ids[0, :tokens] = np.random.default_rng(tokens).integers(1, WORDS, tokens)
    mask = (np.arange(length) < tokens).astype(np.int64)[None]
    return dict(zip(NAMES, (ids, mask, np.zeros_like(ids)), strict=True))


def sentences(lengths: Iterable[int], *, padded: int = 0) -> list[measure.Request]:
    """Plan one sentence of each length, all sent at once.

    Args:
        padded: fill each up to this length.
    """
    return [measure.Request(f"s{n}", inputs=sentence(n, padded)) for n in lengths]


def nodes(profile: str | Path) -> pd.DataFrame:
    """Read the time of each node from ONNX Runtime's profile.

    Args:
        profile: the file that `session.end_profiling()` names; it is deleted.

    Returns:
        One row per node, the slowest first: `operator`, and `ms`, the time of the fastest call.
        Convolutions are called `convolution N (NODE)`, with N in the order of the graph. ONNX
        Runtime names a node after the last operator that it has joined to the convolution.
    """
    file = Path(profile)
    events = json.loads(file.read_text("utf-8"))
    file.unlink()
    rows = [
        (event["name"].removesuffix("_kernel_time"), event["args"]["op_name"], event["dur"] / 1000)
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")
    ]
    table = pd.DataFrame(rows, columns=["node", "operator", "ms"])
    each = table.groupby(["node", "operator"], sort=False)["ms"].min().reset_index("operator")
    own = sorted(each.index[each["operator"].str.contains("Conv")], key=_number)
    names = {node: f"convolution {place} ({node})" for place, node in enumerate(own, 1)}
    return each.rename(index=names).sort_values("ms", ascending=False)


def convolutions(table: pd.DataFrame) -> pd.Series[float]:
    """Return the milliseconds of the convolutions, in the graph's order.

    Args:
        table: from `nodes`.
    """
    own = table[table["operator"].str.contains("Conv")]
    return own.loc[sorted(own.index, key=_number), "ms"]


def _number(node: str) -> int:
    """Return the number in a node's name, which counts the layers; 0 without a number."""
    found = re.search(r"\d+", node)
    return int(found[0]) if found else 0


def level_differs(times: pd.DataFrame) -> Premise:
    """Premise: level 2 and the default differ by clearly more or clearly less than a tenth.

    Args:
        times: from `variants.measure`.
    """
    return variants.apart(times, "level 2", "default", 1.1)


def clearly_slowest(table: pd.DataFrame) -> Premise:
    """Premise: the slowest convolution is clearly slower than the second slowest.

    Args:
        table: from `nodes`.
    """
    second, first = sorted(convolutions(table))[-2:]
    return Premise(
        first > 1.1 * second,
        f"the two slowest took {first:.2f} and {second:.2f} ms, too close to tell which is slower",
    )


def older_export(*given: Any, **options: Any) -> None:
    """Call `torch.onnx.export` without its warnings; the older exporter gives many."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(*given, **options)


def cut(file: Path) -> str:
    """Cut a file in half, as after an interrupted copy."""
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    return f"`{file.name}` has half of its bytes."


def frozen(models: Path) -> None:
    """Write the model of the task: the network with a batch of 1, and a config that fits it.

    An existing folder stays as it is, because it may hold the reader's work.
    """
    from workbook.lessons import formats

    home = models / "frozen"
    if home.exists():
        return
    place(models, HERE / "frozen")
    older_export(
        formats.network(), (torch.zeros(1, 3, 64, 64),), home / "1/model.onnx",
        input_names=["image"], output_names=["logits"], dynamo=False,
    )  # fmt: skip


def graph(file: Path) -> dict[str, Any]:
    """Describe an ONNX file, as a row of a table.

    Returns:
        Its operator set, the number of nodes, and the shape of its first input.
    """
    import onnx

    model = onnx.load(file, load_external_data=False)
    first = model.graph.input[0]
    dims = [d.dim_param or str(d.dim_value) for d in first.type.tensor_type.shape.dim]
    return {
        "files, kB": round(sum(f.stat().st_size for f in file.parent.iterdir()) / 1000),
        "operator set": model.opset_import[0].version,
        "nodes": len(model.graph.node),
        "input": f"{first.name} [{', '.join(dims)}]",
    }
