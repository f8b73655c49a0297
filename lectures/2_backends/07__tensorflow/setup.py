"""For 07__tensorflow: TensorFlow without log lines, small models, and ways to other backends."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from tritonclient import grpc

from workbook.lessons import formats, mistakes, place
from workbook.lessons.premises import attempt
from workbook.lessons.shared import documented, focus_files
from workbook.lessons.workspace import folder, version
from workbook.server import Triton

Array = npt.NDArray[Any]

#: The configs of the notebook's models.
HERE = Path(__file__).parent / "models"
#: The tokens of one request to the ranking model, and the size of its vocabulary.
TOKENS, WORDS = 128, 1000
RANK_INPUTS = ("input_ids", "input_mask", "segment_ids")
#: The models of the section on the way on.
WAYS = ("focus_tensorflow", "focus_graph", "on_openvino", "on_onnx")


def models() -> Path:
    """Make a fresh repository: the network as a Keras model, its pictures, and an empty version 1
    of each model that the notebook makes. TensorFlow is imported without its log.
    """
    import keras_copy

    quiet()
    home = folder("tensorflow")
    focus_files.save(home)
    for name in (*WAYS, "tensorflow_model"):
        version(home, name)
    keras_copy.network().save(home / "focus.keras")
    return home


def quiet() -> None:
    """Import TensorFlow with one thread, and without the lines of its log."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _without_stderr():
        import tensorflow as tf
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    logging.getLogger("absl").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=UserWarning, module="keras")
    with contextlib.suppress(RuntimeError):  # TensorFlow has computed already
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)


def measured(server: Triton, model: Any) -> formats.Row:
    """Measure `focus_tensorflow` for the lecture's table, again if two measurements do not agree.

    Args:
        model: the Keras model that was exported.
    """
    import tensorflow as tf

    call = tf.function(model)

    def in_process(rows: Array) -> Array:
        found: Array = call(rows)["logits"].numpy()
        return found

    return attempt(
        lambda: formats.add(server, "focus_tensorflow", "TensorFlow", in_process),
        lambda row: row.repeated,
    )


def load_as_printed(server: Triton) -> documented.Correction:
    """Load the slides' config as it was printed, then correct it by the file's signature."""
    import tensorflow as tf

    saved = server.repository / "tensorflow_model/1/model.savedmodel"
    with _without_stderr():
        served = tf.saved_model.load(str(saved)).signatures["serving_default"]
    (given,), (answered,) = served.structured_input_signature[1], served.structured_outputs
    put = documented.put
    steps = {
        "on the CPU": put("GPU", "CPU"),
        "the input's name": put("INPUT__0", given),
        "its dims": put("[ 5 ]", "[ 28, 28, 1 ]"),  # a tensor's name may have a 5
        "the output's name": put("OUTPUT__0", answered),
        "its dims, too": put("[ 1 ]", "[ 10 ]"),
    }
    printed = HERE / "tensorflow_model/config.as_printed.pbtxt"
    return documented.correct(server, "tensorflow_model", printed, steps)


def rank(models: Path, name: str) -> None:
    """Make a small ranking model with the guide's config, inputs and output, and random weights.

    Args:
        models: the repository; the SavedModel is written into version 1.
        name: the model's name; its config lies beside the notebook.
    """
    import tensorflow as tf

    tf.keras.utils.set_random_seed(0)
    ids, mask, segments = (
        tf.keras.Input((TOKENS,), dtype="int32", name=name) for name in RANK_INPUTS
    )
    words = tf.keras.layers.Embedding(WORDS, 16)(ids) + tf.keras.layers.Embedding(2, 16)(segments)
    mean = tf.keras.layers.Dot(axes=1)([tf.keras.layers.Rescaling(1 / TOKENS)(mask), words])
    output = tf.keras.layers.Dense(1, activation="sigmoid", name="output")(mean)
    model = tf.keras.Model(dict(zip(RANK_INPUTS, (ids, mask, segments), strict=True)),
                           {"output": output})  # fmt: skip
    with _without_stderr():
        model.export(str(version(models, name) / "model.savedmodel"), verbose=False)
    place(models, HERE / name)


def scores(server: Triton, models: Sequence[str]) -> pd.DataFrame:
    """Ask ranking models for the scores of the same two texts: one column per model."""
    ids = np.random.default_rng(0).integers(1, WORDS, (2, TOKENS)).astype(np.int32)
    values = (ids, np.ones_like(ids), np.zeros_like(ids))
    inputs = [grpc.InferInput(name, [2, TOKENS], "INT32") for name in RANK_INPUTS]
    for tensor, value in zip(inputs, values, strict=True):
        tensor.set_data_from_numpy(value)
    with grpc.InferenceServerClient(server.grpc_url) as client:
        found = {name: client.infer(name, inputs).as_numpy("output").ravel() for name in models}
    return pd.DataFrame(found, index=["text 1", "text 2"])


def accelerator_lines(server: Triton) -> list[str]:
    """Return the messages of the server's log about accelerators, without times and places."""
    lines = [line for line in server.log_text().splitlines() if "Execution Accelerator" in line]
    return [line.partition("] ")[2].strip('"') for line in lines]


def has_gpu() -> bool:
    """Whether this machine has an NVIDIA GPU that a server could use."""
    return Path("/dev/nvidia0").exists()


def deeper(home: Path) -> str:
    """A mistake for `mistakes.provoke`: a SavedModel inside a folder inside its folder."""
    outer = home / "1/model.savedmodel"
    inner = home / "1/saved"
    outer.rename(inner)
    outer.mkdir()
    inner.rename(outer / "saved_model")
    return "`1/model.savedmodel/saved_model/saved_model.pb`"


def make_mistakes(server: Triton) -> mistakes.Results:
    """Make three mistakes, each in a copy of `focus_tensorflow`, and load it."""
    change = mistakes.config
    made = {
        "another platform": change("tensorflow_savedmodel", "tensorflow"),
        "a folder too many": deeper,
        "a number as a word": change('string_value: "1"', 'string_value: "one"'),
    }
    return mistakes.provoke(server, "focus_tensorflow", made)


def ways(server: Triton) -> pd.DataFrame:
    """Compare the network on several backends: its answers, and its speed by perf_analyzer.

    Args:
        server: the models of `WAYS` are loaded, and their reports, three of each, are in its
            repository.

    Returns:
        One row per model; columns `backend`, `largest difference` of a logit from PyTorch's,
        `verdicts changed` of 200, and `per s` in the best turn.
    """
    speed = focus_files.read_turns(server.repository, WAYS)
    rows = {}
    for name in WAYS:
        found = formats.served_logits(server, name)
        rows[name] = {
            "backend": server.config(name)["backend"],
            "largest difference": f"{np.abs(found - formats.reference()).max():.0e}",
            "verdicts changed": formats.changed(found),
            "per s": round(speed["per s"][name]),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def two_signatures(models: Path, network: Callable[..., Any]) -> None:
    """Write the model of the task: a SavedModel with two signatures; one gives probabilities.

    An existing folder stays as it is, because it may hold the reader's work.

    Args:
        models: the repository.
        network: a Keras model, (n, 3, 64, 64) → {"logits": (n, 2)}.
    """
    import tensorflow as tf

    if (models / "unsure").exists():
        return
    spec = [tf.TensorSpec((None, 3, 64, 64), tf.float32, name="image")]
    archive = tf.keras.export.ExportArchive()
    archive.track(network)
    archive.add_endpoint(
        "serving_default", lambda image: {"logits": network(image)["logits"]}, input_signature=spec
    )
    archive.add_endpoint(
        "chances",
        lambda image: {"probabilities": tf.nn.softmax(network(image)["logits"])},
        input_signature=spec,
    )
    home = version(models, "unsure")
    with _without_stderr():
        archive.write_out(str(home / "model.savedmodel"), verbose=False)
    place(models, HERE / "unsure")


@contextlib.contextmanager
def _without_stderr() -> Iterator[None]:
    """Discard what C++ code writes to the process's standard error."""
    sys.stderr.flush()
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
