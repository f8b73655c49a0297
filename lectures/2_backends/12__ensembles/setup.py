"""For 12__ensembles: the language models of the shared repository, in several arrangements.

models = ensembles.models()                 # tokenizer, network, labels, and their ensemble
texts = ensembles.texts(16)
lengths = ensembles.export(models)          # the network for texts of any length, and packed
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbook import measure, zoo
from workbook.common.errors import WorkbookError
from workbook.lessons import place
from workbook.lessons.premises import Premise, clear, steady
from workbook.lessons.runs import Run
from workbook.lessons.workspace import folder, version
from workbook.server import Server
from workbook.server.explain import explain

Array = npt.NDArray[Any]

#: Models of the shared repository that the notebook arranges.
SHARED = ("language_tokenizer", "language_onnx", "language_labels", "language")
#: The requests under way at the same time when the throughput is measured.
LOAD = 16
#: The configs of the notebook's models.
HERE = Path(__file__).parent / "models"


def models() -> Path:
    """Make a fresh repository; returns its path, relative to the notebook.

    It has copies of the shared language models, the network for texts of any length (`export`), the
    page's folders (`page`), and the configs of two models that call others.
    """
    home = copy_shared(folder("ensembles"))
    place(home, HERE / "language_bls", HERE / "language_bls_4")
    export(home)
    page(home)
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


def crossed(server: Server, ask: Callable[[Any, str], object], text: str) -> int:
    """Count the bytes that a client sends over gRPC for one text, without the connection's.

    Args:
        ask: sends the request; called with a client and the text.
    """
    from tritonclient import grpc

    with (
        measure.Tap(server.grpc_url) as tap,
        grpc.InferenceServerClient(tap.address) as client,
    ):
        client.is_server_live()
        tap.reset()
        ask(client, text)
        return int(tap.sent)


def median_ms(ask: Callable[[], object], times: int = 40) -> float:
    """Return the median time of a call in milliseconds, after one call to warm up."""
    took = []
    for _ in range(times + 1):
        began = time.perf_counter()
        ask()
        took.append((time.perf_counter() - began) * 1000)
    return float(np.median(took[1:]))


# -- the Llama page's repository -----------------------------------------------------------------


def page(models: Path) -> None:
    """Make the Llama page's folders `tokenizer` and `model`, without the tokenizer's code.

    The network is the language classifier, with 16 scores in place of 2.
    """
    place(models, HERE / "tokenizer", HERE / "model")
    for file in zoo.checkpoint("text_classifier").glob("*.json"):
        shutil.copy(file, version(models, "tokenizer"))
    shutil.copy(models / "lengths/1/model.onnx", version(models, "model") / "language.onnx")


# -- ensemble against BLS --------------------------------------------------------------------------


def same_program(models: Path, source: str, target: str) -> None:
    """Give a Python model the program of another one."""
    shutil.copy(models / source / "1/model.py", models / target / "1/model.py")


def rates(server: Server, names: Mapping[str, str], texts: Sequence[str]) -> pd.DataFrame:
    """Measure the speed of several models with the input `text`, in turn, twice.

    Args:
        names: the name in the table → the model.

    Returns:
        One row per model; `ms, one by one`, the median time of a request; `per s, 16 under way`,
        the better of two; `network's mean batch`, the mean batch of the network `language_onnx`
        meanwhile; and `spread`, the better of the two rates over the worse.

    Raises:
        WorkbookError: a model answered a text with an error.
    """
    from tritonclient.grpc import InferInput
    from tritonclient.utils import InferenceServerException

    examples = [{"text": as_text([text])[0]} for text in texts]
    batches: dict[str, float] = {}
    tensor = InferInput("text", [1, 1], "BYTES").set_data_from_numpy(as_text(texts[:1]))

    def one_by_one(model: str) -> float:
        try:
            with server.grpc_client() as client:
                return median_ms(lambda: client.infer(model, [tensor]))
        except InferenceServerException as error:
            raise explain(error, server, model) from None

    def rate(name: str, model: str) -> float:
        before = measure.statistics(server, "language_onnx")
        table = measure.perf(
            server, model, concurrency=LOAD, input_data=examples,
            interval_ms=400, stability=1e6, trials=3,
        )  # fmt: skip
        counts = measure.difference(before, measure.statistics(server, "language_onnx"))
        batches[name] = float(counts["batch_size"].item())
        return float(table["throughput"].item())

    alone = {name: one_by_one(model) for name, model in names.items()}
    rounds = np.array([[rate(*pair) for pair in names.items()] for _ in range(2)])
    return pd.DataFrame(
        {
            "ms, one by one": alone,
            f"per s, {LOAD} under way": dict(zip(names, rounds.max(0), strict=True)),
            "network's mean batch": batches,
            "spread": dict(zip(names, rounds.max(0) / rounds.min(0), strict=True)),
        }
    )


def met(run: Run) -> Premise:
    """Premise: in one of the steps, at least four texts were computed together.

    On a busy machine each text may have passed a step before the next text arrives.
    """
    return Premise(
        max(run.sizes, default=0) >= 4,
        "no step computed four texts together, because they came too far apart",
    )


def fastest(rates: pd.Series) -> str:
    """Return the prediction's option: the faster of the first two, or that they are alike."""
    ensemble, single = rates.iloc[0], rates.iloc[1]
    if max(ensemble, single) < 1.1 * min(ensemble, single):
        return "all alike: the steps are the same"
    return str(rates.index[0] if ensemble > single else rates.index[1])


def how_many(executions: int, ids: Sequence[Array]) -> str:
    """Return the prediction's option for the executions that texts of several lengths needed."""
    if executions == 1:
        return "1"
    lengths = len({len(own) for own in ids})
    return "one per length, or more" if executions >= lengths else "a few"


def who(failed: Sequence[int]) -> str:
    """Return the prediction's option that names who got an error.

    Args:
        failed: the places of the failed texts. Of eight texts, the fourth was blank.
    """
    words = {1: "only the fourth text", 8: "all eight"}
    return words.get(len(failed), "all that shared an execution with it")


def agreed(rates: pd.DataFrame) -> Premise:
    """Premise: both measurements of each rate agreed, and the first two models' rates are clearly
    alike, or clearly different."""
    crowd, spread = rates[f"per s, {LOAD} under way"], rates["spread"]
    return steady([1.0, spread.max()], 1.7) & clear(
        max(crowd.iloc[:2]) / min(crowd.iloc[:2]), 1.1, spread.iloc[:2].max()
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


def tokens(models: Path, texts: Sequence[str]) -> list[Array]:
    """Return the token ids of each text, int64 (tokens,), without padding."""
    from tokenizers import Tokenizer

    file = models / "language_tokenizer/1/tokenizer.json"
    tokenizer = Tokenizer.from_str(file.read_text("utf-8"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(64)
    return [np.array(one.ids, np.int64) for one in tokenizer.encode_batch_fast(list(texts))]


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


def requests(ids: Sequence[Array], form: str) -> list[measure.Request]:
    """Plan one request per text, all at once.

    Args:
        form: "padded" (to 64 tokens), "lengths" (as long as it is, with a mask) or "packed" (as
            long as it is; Triton adds the rest).
    """

    def inputs(own: Array) -> dict[str, Array]:
        if form == "padded":
            return padded([own])
        whole = {"input_ids": own[None]}
        return whole if form == "packed" else {**whole, "attention_mask": np.ones_like(own)[None]}

    return [measure.Request(f"r{number + 1}", inputs=inputs(own)) for number, own in enumerate(ids)]


def logits(answers: pd.DataFrame) -> Array:
    """Return the scores of each answer of a plan, float32 (requests, 16).

    Raises:
        WorkbookError: a request was answered with an error.
    """
    if any(answers["error"]):
        raise WorkbookError(max(answers["error"]))
    return np.concatenate([next(iter(outputs.values())) for outputs in answers["outputs"]])


def session_ms(models: Path, ids: Sequence[Array], times: int = 60) -> dict[str, float]:
    """Time ONNX Runtime with these texts as one batch, in this process, with one thread.

    Returns:
        Milliseconds, the fastest tenth, of "padded" and "packed"; both are timed in turn.
    """
    import onnxruntime as ort

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
    return {name: float(np.quantile(each, 0.1)) for name, each in took.items()}


def label_of(server: Server, model: str, texts: Sequence[str]) -> list[str]:
    """Return the languages that a model with the input `text` and the output `label` finds.

    Raises:
        WorkbookError: a request was answered with an error.
    """
    found = measure.send(server, model, plan(texts))
    if any(found["error"]):
        raise WorkbookError(max(found["error"]), where=model)
    return [outputs["label"].item().decode() for outputs in found["outputs"]]


def backends(server: Server, ensemble: str) -> pd.DataFrame:
    """List each step of an ensemble: its backend, its instances, and whether it batches."""
    rows = {}
    for step in server.config(ensemble)["ensemble_scheduling"]["step"]:
        config = server.config(step["model_name"])
        rows[step["model_name"]] = {
            "backend": config["backend"],
            "instances": sum(group["count"] for group in config["instance_group"]),
            "kind": config["instance_group"][0]["kind"],
            "batches": "yes" if config.get("dynamic_batching") is not None else "no",
        }
    return pd.DataFrame(rows).T
