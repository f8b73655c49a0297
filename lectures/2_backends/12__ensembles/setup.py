"""For 12__ensembles: the language models of the shared repository, in several arrangements.

models = ensembles.models()                 # tokenizer, network, labels, and their ensemble
texts = ensembles.texts(16)
lengths = ensembles.export(models)          # the network for texts of any length, and packed
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from tritonclient import grpc
from tritonclient.utils import InferenceServerException

from workbook import measure, zoo
from workbook.common.errors import WorkbookError
from workbook.lessons import place
from workbook.lessons.premises import Premise, steady
from workbook.lessons.shared import quiet
from workbook.lessons.workspace import folder, version
from workbook.server import Server

Array = npt.NDArray[Any]

#: Models of the shared repository that the notebook arranges.
SHARED = ("language_tokenizer", "language_onnx", "language_labels", "language")
#: The arrangements of the steps that are compared: the name in tables → the model.
ARRANGED = {
    "the ensemble": "language",
    "BLS, one by one": "language_bls",
    "BLS, joined rows": "bls_joined",
    "BLS, async_exec": "bls_async",
}
#: The configs of the notebook's models.
HERE = Path(__file__).parent / "models"


def models() -> Path:
    """Make a fresh repository; returns its path, relative to the notebook.

    It has copies of the shared language models, the network for texts of any length (`export`), the
    page's folders (`page`), models that call others, and 32 texts: one per line of
    `texts.txt`, and for perf_analyzer in `texts.json`.
    """
    quiet.hide_warnings()  # of the export
    home = copy_shared(folder("ensembles"))
    place(home, *(HERE / model for model in ARRANGED.values() if (HERE / model).exists()))
    export(home)
    page(home)
    (home / "texts.txt").write_text("\n".join(texts(32)), "utf-8")
    load = {"data": [{"text": [text]} for text in texts(32)]}
    (home / "texts.json").write_text(json.dumps(load, ensure_ascii=False), "utf-8")
    return home


def copy_shared(home: Path) -> Path:
    """Copy the shared language models into a repository, and return it.

    Raises:
        BuildError: the weights of a model could not be built.
    """
    zoo.repository.build(home, only=SHARED, bar=False)
    return home


def texts(count: int) -> list[str]:
    """Return test texts of the language classifier, all languages in turn, 15 to 60 letters."""
    every = zoo.data.languages().x_test
    return [every[number * 101 % len(every)] for number in range(count)]


def as_text(texts: Sequence[str]) -> Array:
    """Make texts an object array (n, 1) of UTF-8 bytes, as Triton takes them."""
    return np.array([[text.encode()] for text in texts], dtype=object)


def plan(texts: Sequence[str], *, name: str = "r", after_ms: float = 0.0) -> list[measure.Request]:
    """Plan one request per text, all at once, for a model with the input `text`.

    Args:
        name: the beginning of the requests' names.
        after_ms: the time when they are sent, in milliseconds after the plan's start.
    """
    return [
        measure.Request(f"{name}{number + 1}", after_ms, inputs={"text": as_text([text])})
        for number, text in enumerate(texts)
    ]


# -- the Llama page's repository -----------------------------------------------------------------


def page(models: Path) -> None:
    """Make the Llama page's folders `tokenizer` and `model`, without the tokenizer's code.

    The network is the language classifier, with 16 scores in place of 2.
    """
    place(models, HERE / "tokenizer", HERE / "model")
    for file in zoo.checkpoint("text_classifier").glob("*.json"):
        shutil.copy(file, version(models, "tokenizer"))
    shutil.copy(models / "lengths/1/model.onnx", version(models, "model") / "language.onnx")


#: A file of the page's folders, what is right in it, and what takes its place.
_MISTAKES = (
    ("ensemble_model/config.pbtxt", ' value: "output_0" }', " }"),  # why: in the server's log
    ("tokenizer/config.pbtxt", "KIND_CPU", "KIND_GPU gpus: [ 99 ]"),  # no machine has it
    ("tokenizer/1/model.py", '"prompt"', '"TEXT"'),
    ("tokenizer/1/model.py", "padding=True", "padding=False"),
)


def make_mistakes(server: Server) -> list[str]:
    """Make each mistake, load the model, send two texts, print the error; then undo the mistake.

    Returns:
        For each mistake, when the server noticed it: "load" or "request".
    """
    noticed = []
    two = grpc.InferInput("prompt", [2], "BYTES")
    two.set_data_from_numpy(np.array(["Lettisch", "das Litauische"], object))
    with grpc.InferenceServerClient(server.grpc_url) as client:
        for name, right, wrong in _MISTAKES:
            file, model = server.repository / name, name.split("/")[0]
            content, step = file.read_text("utf-8"), "load"
            file.write_text(content.replace(right, wrong), "utf-8")
            try:
                client.load_model(model)
                step = "request"
                client.infer("ensemble_model", [two])
            except InferenceServerException as error:
                noticed.append(step)
                message = error.message().replace(f"{server.repository.resolve()}", "")
                print(f"{name}: {right!r} → {wrong!r}, at the {step}: {message[:280]}\n")
            file.write_text(content, "utf-8")
            client.load_model(model)
            client.load_model("ensemble_model")
    return noticed


# -- ensemble against BLS --------------------------------------------------------------------------


def read_speeds(reports: Path) -> pd.DataFrame:
    """Read perf_analyzer's reports, two of each model: `language.1.csv` and so on.

    Returns:
        One row per arrangement: `texts per s`, the better of two; `spread`, the better over the
        worse; and `round 1` and `round 2`, how many times as many the ensemble answered.
    """
    rows = {}
    for name, model in ARRANGED.items():
        files = [reports / f"{model}.{turn}.csv" for turn in (1, 2)]
        rows[name] = measure.read_reports(*files)["throughput"].to_numpy()
    found = pd.DataFrame.from_dict(rows, orient="index", columns=["round 1", "round 2"])
    best, worst = found.max(axis=1), found.min(axis=1)
    over = found.loc["the ensemble"] / found
    return pd.DataFrame({"texts per s": best, "spread": best / worst}).join(over)


def repeated(speeds: pd.DataFrame) -> Premise:
    """Premise: both measurements of each model agreed, and in both rounds the ensemble was on the
    same side of the claim's ×1.2 over the loop, which is far from what it gains, ×3."""
    rounds = speeds.loc["BLS, one by one", ["round 1", "round 2"]]
    return steady([1.0, speeds["spread"].max()], 3) & Premise(
        (rounds > 1.2).nunique() == 1,
        f"the ensemble answered {rounds.iloc[0]:.1f} and then {rounds.iloc[1]:.1f} times as many "
        "texts as the loop",
    )


# -- texts of any length ---------------------------------------------------------------------------


def export(models: Path) -> None:
    """Export the language network twice more, for texts of any length.

    - `lengths`: input_ids and attention_mask (texts, tokens) → output_0 (texts, 16).
    - `packed`: input_ids (tokens of all texts, one text after the other) and ends (texts), the
      place after each text's last token → output_0 (texts, 16). A token attends to its own text
      alone, and positions begin at 0 in each text.

    The weights are those of `language_onnx`.
    """
    import torch
    from transformers import BertForSequenceClassification
    from transformers.utils import logging

    from workbook.zoo.exports import OPSET

    logging.disable_progress_bar()
    bert = BertForSequenceClassification.from_pretrained(
        zoo.checkpoint("text_classifier"), attn_implementation="eager"
    ).eval()

    class Lengths(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.bert = bert

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            return self.bert(input_ids=input_ids, attention_mask=attention_mask).logits

    class Packed(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.bert = bert

        def forward(self, input_ids: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
            ends = ends.long()
            place = torch.arange(input_ids.shape[0])
            text = (place[:, None] >= ends[None, :]).sum(1)
            starts = torch.cat([torch.zeros(1, dtype=torch.long), ends])[:-1]
            inside = self.bert.bert
            hidden = inside.embeddings(
                input_ids=input_ids[None], position_ids=(place - starts[text])[None]
            )
            same = text[:, None] == text[None, :]
            mask = torch.where(same, 0.0, torch.finfo(torch.float32).min)[None, None]
            for layer in inside.encoder.layer:
                out = layer(hidden, mask)
                hidden = out[0] if isinstance(out, tuple) else out
            return self.bert.classifier(inside.pooler(hidden[0, starts][:, None]))

    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=64)
    tokens, count = torch.export.Dim("tokens"), torch.export.Dim("texts")
    ids = torch.full((2, 7), 5, dtype=torch.long)
    ends = torch.tensor([6, 14], dtype=torch.int32)
    for name, model, examples, inputs, shapes in (
        ("lengths", Lengths(), (ids, torch.ones_like(ids)), ["input_ids", "attention_mask"],
         ({0: batch, 1: length}, {0: batch, 1: length})),
        ("packed", Packed(), (ids.reshape(-1), ends), ["input_ids", "ends"],
         ({0: tokens}, {0: count})),
    ):  # fmt: skip
        program = torch.onnx.export(
            model.eval(), examples, input_names=inputs, output_names=["output_0"],
            dynamic_shapes=shapes, opset_version=OPSET, dynamo=True, verbose=False,
        )  # fmt: skip
        program.save(version(models, name) / "model.onnx", external_data=False)
    place(models, HERE / "lengths")


def padded(ids: Sequence[Array], length: int = 64) -> dict[str, Array]:
    """Pad token ids with zeros, and make the mask of real tokens: both int64 (texts, length)."""
    whole = np.zeros((len(ids), length), np.int64)
    mask = np.zeros_like(whole)
    for row, own in enumerate(ids):
        whole[row, : len(own)], mask[row, : len(own)] = own, 1
    return {"input_ids": whole, "attention_mask": mask}


def packed(ids: Sequence[Array]) -> dict[str, Array]:
    """Join the token ids of all texts, int64, and note where each text ends, int32."""
    return {
        "input_ids": np.concatenate(list(ids)),
        "ends": np.cumsum([len(own) for own in ids]).astype(np.int32),
    }


def session_ms(models: Path, tokens: Sequence[Array], times: int = 60) -> pd.DataFrame:
    """Time ONNX Runtime with these texts as one batch, in this process, with one thread.

    Args:
        tokens: the token ids of each text, int64 (1, its tokens).

    Returns:
        Tokens, and milliseconds per batch, the fastest tenth, of "padded" and "packed"; both are
        timed in turn.
    """
    import onnxruntime as ort

    ids = [own[0] for own in tokens]
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    runs = {}
    for name, model, inputs in (
        ("padded", "language_onnx", padded(ids)),
        ("packed", "packed", packed(ids)),
    ):
        session = ort.InferenceSession(
            str(models / model / "1/model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        runs[name] = session, inputs
    took: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(times):
        for name, (session, inputs) in runs.items():
            began = time.perf_counter()
            session.run(None, inputs)
            took[name].append((time.perf_counter() - began) * 1000)
    return pd.DataFrame(
        {
            "tokens": {name: inputs["input_ids"].size for name, (_, inputs) in runs.items()},
            "ms per batch": {name: np.quantile(each, 0.1).round(2) for name, each in took.items()},
        }
    )


def label_of(server: Server, model: str, texts: Sequence[str]) -> list[str]:
    """Return the languages that a model with the input `text` and the output `label` finds.

    Raises:
        WorkbookError: a request was answered with an error.
    """
    found = measure.send(server, model, plan(texts))
    if any(found["error"]):
        raise WorkbookError(max(found["error"]), where=model)
    return [outputs["label"].item().decode() for outputs in found["outputs"]]
