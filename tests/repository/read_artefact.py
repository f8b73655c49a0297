"""Read model files with one library, and write its answers; it runs in a process of its own.

    python read_artefact.py treelite==4.3.0 FOLDER JOBS

FOLDER is an unpacked wheel, with the library in the version that is given. JOBS is a folder with
pairs `NAME.path`, a text file with the path of a model file, and `NAME.npz`, its inputs by name.
Next to them it writes `NAME.answer.npy`, the first output, or `NAME.error`, the library's message.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Inputs = Mapping[str, Any]


def treelite(path: Path, inputs: Inputs) -> Any:
    """The answers of a forest in any of the formats that Treelite reads."""
    import treelite

    if path.suffix in (".json", ".ubj"):
        format_choice = "json" if path.suffix == ".json" else "ubjson"
        model = treelite.frontend.load_xgboost_model(path, format_choice=format_choice)
    elif path.suffix == ".txt":
        model = treelite.frontend.load_lightgbm_model(path)
    else:
        model = treelite.Model.deserialize(path)
    return treelite.gtil.predict(model, inputs["x"]).squeeze()


def onnxruntime(path: Path, inputs: Inputs) -> Any:
    """The first output of an ONNX model."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, dict(inputs))[0]


def openvino(path: Path, inputs: Inputs) -> Any:
    """The first output of an OpenVINO model, computed in float32."""
    import openvino

    options = {"INFERENCE_PRECISION_HINT": "f32"}
    return openvino.Core().compile_model(path, "CPU", options)(dict(inputs))[0]


def tensorflow(path: Path, inputs: Inputs) -> Any:
    """The first output of a SavedModel's `serving_default`."""
    import tensorflow

    serve = tensorflow.saved_model.load(path).signatures["serving_default"]
    given = {name: tensorflow.constant(array) for name, array in inputs.items()}
    return next(iter(serve(**given).values())).numpy()


READERS: Mapping[str, Callable[[Path, Inputs], Any]] = {
    "treelite": treelite,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "tensorflow-cpu": tensorflow,
}


def main(requirement: str, folder: str, jobs: str) -> None:
    """Read every file that `jobs` names."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    sys.path.insert(0, folder)
    name, _, version = requirement.partition("==")
    library = __import__(name.removesuffix("-cpu"))
    assert Path(library.__file__ or "").is_relative_to(folder), library.__file__
    assert library.__version__.startswith(version), library.__version__
    for job in Path(jobs).glob("*.path"):
        try:
            with np.load(job.with_suffix(".npz")) as inputs:
                answer = READERS[name](Path(job.read_text()), {k: inputs[k] for k in inputs})
        except Exception as error:
            job.with_suffix(".error").write_text(str(error))
        else:
            np.save(job.with_suffix(".answer.npy"), answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
