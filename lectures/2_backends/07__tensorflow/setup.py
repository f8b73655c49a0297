"""For 07__tensorflow: TensorFlow without log lines, small models, and ways to other backends."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbook.common.errors import Refusal, WorkbookError
from workbook.lessons import formats, place
from workbook.lessons.mistakes import refusal
from workbook.lessons.runs import infer
from workbook.lessons.workspace import version
from workbook.server import Triton

Array = npt.NDArray[Any]

#: The configs of the notebook's models.
HERE = Path(__file__).parent / "models"
#: The tokens of one request to the ranking model, and the size of its vocabulary.
TOKENS, WORDS = 128, 1000
RANK_INPUTS = ("input_ids", "input_mask", "segment_ids")


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


def export(model: Any, folder: Path) -> None:
    """Export a Keras model as a SavedModel, without what TensorFlow prints.

    Args:
        model: a Keras model.
        folder: the SavedModel's folder; an older one is replaced.
    """
    with _without_stderr():
        model.export(str(folder), verbose=False)


def signature(folder: Path, name: str = "serving_default") -> pd.DataFrame:
    """List the inputs and outputs of a SavedModel's signature: names, types and shapes.

    Args:
        folder: with `saved_model.pb`.
        name: the signature.
    """
    import tensorflow as tf

    with _without_stderr():
        served = tf.saved_model.load(str(folder)).signatures[name]
    rows = [
        ("input", name, tensor.dtype.name, list(tensor.shape))
        for name, tensor in served.structured_input_signature[1].items()
    ]
    rows += [
        ("output", name, tensor.dtype.name, list(tensor.shape))
        for name, tensor in served.structured_outputs.items()
    ]
    return pd.DataFrame(rows, columns=["kind", "name", "type", "shape"]).set_index("name")


def freeze(model: Any, file: Path) -> tuple[str, str]:
    """Write a Keras model of one input as a frozen graph: weights become constants.

    Args:
        model: takes (n, 3, 64, 64) float32.
        file: the file to write.

    Returns:
        The names of the input's and the output's node.
    """
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import (
        convert_variables_to_constants_v2,
    )

    @tf.function(input_signature=[tf.TensorSpec((None, 3, 64, 64), tf.float32, name="image")])  # type: ignore[untyped-decorator]
    def call(image: Any) -> Any:
        return tf.identity(model(image)["logits"], name="logits")

    with _without_stderr():
        frozen = convert_variables_to_constants_v2(call.get_concrete_function())
        tf.io.write_graph(frozen.graph, str(file.parent), file.name, as_text=False)
    return frozen.inputs[0].name.partition(":")[0], frozen.outputs[0].name.partition(":")[0]


def rank(models: Path, name: str) -> None:
    """Make a small ranking model with the guide's inputs and output, and random weights.

    Args:
        models: the repository; the SavedModel is written into version 1.
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
    export(model, version(models, name) / "model.savedmodel")


def rank_inputs(rows: int = 2) -> dict[str, Array]:
    """Make inputs for `rank`: texts of random words, padded to 128 tokens, int32 (rows, 128)."""
    rng = np.random.default_rng(0)
    ids = rng.integers(1, WORDS, (rows, TOKENS)).astype(np.int32)
    mask = (np.arange(TOKENS) < 40).astype(np.int32)[None].repeat(rows, axis=0)
    return {"input_ids": ids * mask, "input_mask": mask, "segment_ids": np.zeros_like(ids)}


def ranked(server: Triton, model: str) -> tuple[Array, str]:
    """Load a ranking model anew and ask it; returns its scores, and the log on accelerators."""
    start = server.log_size()
    server.load(model)
    scores = infer(server, model, **rank_inputs())["output"]
    lines = [line for line in server.log_text(start).splitlines() if "Accelerator" in line]
    return scores, lines[-1].partition("] ")[2].strip('"') if lines else ""


def failing_step(server: Triton, model: str, inputs: Array) -> str:
    """Load a model and send it a request; returns which step fails, and the message.

    Args:
        inputs: for its one input.

    Returns:
        "loading: …", "asking: …", or "none: it answers".
    """
    if message := refusal(server, model):
        return f"loading: {message}"
    name = server.config(model)["input"][0]["name"]
    try:
        infer(server, model, **{name: inputs})
    except Refusal as error:
        return f"asking: {error.message}"
    return "none: it answers"


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


def to_onnx(keras_file: Path, target: Path) -> None:
    """Open a `.keras` file with Keras on PyTorch, in a process of its own, and export ONNX.

    Args:
        keras_file: a model whose input is (n, 3, 64, 64).
        target: the ONNX file.

    Raises:
        WorkbookError: the process failed.
    """
    program = f"""
        import keras
        model = keras.models.load_model({str(keras_file)!r}, compile=False)
        model(keras.ops.zeros((2, 3, 64, 64)))
        model.export({str(target)!r}, format="onnx", verbose=False)
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
        env={**os.environ, "KERAS_BACKEND": "torch"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise WorkbookError(
            f"Keras could not export ONNX: {done.stderr.strip().splitlines()[-1]}",
            where=str(keras_file),
        )


def ways(server: Triton, names: Mapping[str, str]) -> pd.DataFrame:
    """Compare one network on several backends: their answers and their speed.

    Args:
        names: a way's name → the model, which is loaded anew.

    Returns:
        One row per way; columns `backend`, `largest difference` of a logit from PyTorch's,
        `verdicts changed` of 200, `per s, measured again`, with 8 under way (the
        better of two measurements); `spread`, the better over the worse.
    """
    rows = {}
    for way, model in names.items():
        server.load(model)
        found = formats.served_logits(server, model)
        speeds = [formats.throughput(server, model, load=8) for _ in range(2)]
        rows[way] = {
            "backend": server.config(model)["backend"],
            "largest difference": float(np.abs(found - formats.reference()).max()),
            "verdicts changed": formats.changed(found),
            "per s, measured again": round(max(speeds)),
            "spread": round(max(speeds) / min(speeds), 1),
        }
    return pd.DataFrame(rows).T


def accelerated(form: str) -> str:
    """Return the section of a config that asks for an accelerator on the GPU; "" for none."""
    if not form:
        return ""
    return f"optimization {{ execution_accelerators {{ gpu_execution_accelerator : [ {form} ] }} }}"


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
