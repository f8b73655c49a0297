"""The stand-in for `backend: "fil"`: XGBoost, LightGBM and scikit-learn forests on the CPU.

Rules and messages follow the sources of Triton's FIL backend (triton-inference-server/fil_backend,
`src/shared_state.h`, `src/tl_model.h`, `src/model.h`) and of the library below it
(rapidsai/rapids-triton, `model/shared_state.hpp`), as of 24.10 and 25.09.

What `output__0` holds, for each row:

| model     | output_class | predict_proba | dims | value                                    |
|-----------|--------------|---------------|------|------------------------------------------|
| one score | false        | false         | [1]  | the prediction, or class 1's probability |
| one score | true         | false         | [1]  | 1 where the probability > threshold      |
| one score | any          | true          | [2]  | 1 - p and p                              |
| K classes | true         | false         | [1]  | the index of the greatest score          |
| K classes | false        | false         | [K]  | the model's own transform of its scores  |
| K classes | any          | true          | [K]  | probabilities                            |

"One score" means every regression, and every two-class model of XGBoost, LightGBM or scikit-learn's
gradient boosting. A scikit-learn random forest has K = 2 for two classes, and so no threshold.
Averages over trees (random forests, LightGBM's `boosting: rf`) are part of the model.

The shape is `[rows, *dims]` **without the dimensions that are 1**, as in the real backend: with
dims `[1]` the answer has shape `[rows]`. Dims `[-1]` count as `[1]`, and `[1, 2]` and `[-1, 2]`
count as `[2]`. Two probabilities with dims `[1]` are refused: the real backend would write two
values per row into memory for one (`src/tl_model.h`), and so mix up the rows.

`treeshap_output` has K * (features + 1) values per row: dims `[features + 1]`, or
`[K, features + 1]`; the last is the bias. They add up to the raw score, before any transform.

Predictions are made by Treelite's own interpreter (GTIL), which reads all four formats, computes
as the real backend's CPU path does, and is imported in 0.13 s. Measured against
`Booster.inplace_predict` of XGBoost 3.2, two threads each, microseconds per call, 100 rounds of
depth 6. Two classes (100 trees), batch 1: 31 against 173; batch 64: 185 against 210. Ten classes
(1,000 trees), batch 1: 101 against 254; batch 64: 2,213 against 894. So XGBoost is faster only for
large batches of large models. It reads only its own formats and takes a second to import. The 20
microseconds per row are less than the server needs for a request of one row. So only GTIL is used.

Threads: each instance uses `cpu_nthread` OpenMP threads, an undocumented parameter of the real
backend; -1, the default there and here, means all cores (or OMP_NUM_THREADS of the server). A batch
that takes less than half a millisecond is computed on one thread: OpenMP's other threads keep their
cores busy for 5 ms after each call (60 trees, 8 rows, a call every 5 ms: 0.23 ms of processor time
per call on one thread, 5.6 ms on two; latency 0.20 and 0.19 ms).
An instance on a GPU also computes on the CPU: only the real backend uses GPUs.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from workbook.backends.base import Array, BadModel, BadRequest, BrokenModel, Config, StandIn, Tensor

INPUT = "input__0"
OUTPUT = "output__0"
SHAP = "treeshap_output"
#: The number of rows times trees that one thread computes in half a millisecond.
_FEW = 8192

#: model_type → the file's default name (src/model.h).
FILES = {
    "xgboost": "xgboost.model",
    "xgboost_json": "xgboost.json",
    "xgboost_ubj": "xgboost.ubj",
    "lightgbm": "model.txt",
    "treelite_checkpoint": "checkpoint.tl",
}
#: Parameters for GPUs. They are checked here too: in the container, a config without
#: instance_group runs on a GPU.
CHOICES = {
    "algo": ("FIL algorithm", ("ALGO_AUTO", "NAIVE", "TREE_REORG", "BATCH_TREE_REORG")),
    "storage_type": ("FIL storage type", ("AUTO", "DENSE", "SPARSE", "SPARSE8")),
    "layout": (
        "FIL layout",
        ("depth_first", "breadth_first", "layered", "layered_children_together"),
    ),
}
#: New parts of a file that XGBoost writes since 3.1 → a pattern for them in JSON or in UBJSON.
NEWER = {
    "a section cats": rb'"cats"\s*:|L\0{7}\x04cats\{',
    "base_score as a list": rb'"base_score"\s*:\s*"\[|L\0{7}\x0abase_scoreSL\0{7}.\[',
}


class Parameters:
    """The model's parameters as the real backend reads them.

    The longest prefix of a value that is a number counts. A value without such a prefix counts as
    left out. Only `true` and `false` are booleans. Unknown keys are ignored.

    Raises:
        BadModel: a required parameter is missing, or a value is not allowed.
    """

    def __init__(self, config: Config) -> None:
        self._given = config.parameters
        self.predict_proba = bool(self._boolean("predict_proba", False))
        self.model_type = self._word("model_type", "xgboost")
        if self.model_type not in FILES:
            raise BadModel(
                f"{self.model_type} not recognized as a valid serialization format. "
                f"Write model_type as one of {', '.join(FILES)}."
            )
        self.allow_unknown_field = bool(self._boolean("xgboost_allow_unknown_field", False))
        for key, (what, allowed) in CHOICES.items():
            value = self._word(key, allowed[0])
            if value not in allowed:
                raise BadModel(
                    f"Unknown {what} name: {value}. "
                    f"Write {key} as one of {', '.join(allowed)}, or leave it out."
                )
        self._check_gpu_numbers()
        # Until 25.08 the name is output_class. Since then it is is_classifier; output_class wins.
        classifier = self._boolean("output_class", None)
        if classifier is None:
            classifier = self._boolean("is_classifier", None)
        if classifier is None:
            raise BadModel(
                "Required parameter output_class not found in config. Write "
                'parameters { key: "output_class" value: { string_value: "true" } } for classes, '
                '"false" for a regression or for probabilities (since 25.09 also "is_classifier").'
            )
        self.classifier = classifier
        self.threshold = np.float32(self._threshold() if classifier else 0.5)
        threads = int(self._number("cpu_nthread", int, -1))
        self.threads = min(threads, _most_threads()) if threads > 0 else -1
        self._boolean("use_experimental_optimizations", False)

    def _threshold(self) -> float:
        text = self._given.get("threshold")
        if text is None:
            raise BadModel(
                "Required parameter threshold not found in config. The backend has no default for "
                'it: write parameters { key: "threshold" value: { string_value: "0.5" } }.'
            )
        value = self._number("threshold", float, None)
        if value is None:
            raise BadModel(f"Bad input for parameter threshold: '{text}' is not a number")
        return float(value)

    def _check_gpu_numbers(self) -> None:
        """Check the numbers as the GPU code does (cuML, `check_params`); 256 is its block size."""
        if self._number("blocks_per_sm", int, 0) < 0:
            raise BadModel("blocks_per_sm must be nonnegative")
        threads = max(1, self._number("threads_per_tree", int, 1))
        if threads & (threads - 1):
            raise BadModel(f"threads_per_tree must be a power of 2, not {threads}")
        if threads > 256:
            raise BadModel(f"threads_per_tree must not exceed block size 256, as {threads} does")

    def _word(self, key: str, default: str) -> str:
        parts = self._given.get(key, "").split()
        return parts[0] if parts else default

    def _boolean(self, key: str, default: bool | None) -> bool | None:
        text = self._given.get(key)
        if text is None:
            return default
        if text not in ("true", "false"):
            raise BadModel(f"Expected 'true' or 'false' for parameter '{key}', got: '{text}'")
        return text == "true"

    def _number(self, key: str, kind: Callable[[str], Any], default: Any) -> Any:
        number = r"\s*[+-]?\d+" if kind is int else r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
        found = re.match(number, self._given.get(key, ""))
        return kind(found.group()) if found else default


class TritonPythonModel(StandIn):
    """Serves one forest. Like the real backend, it does not complete configs."""

    backend = "fil"

    def load(self) -> None:
        """Load the model, and check that parameters, tensors and model fit together."""
        self.parameters = Parameters(self.config)
        inputs, output, shap = self._tensors()
        self.model = _read(self._path(), self.parameters)
        header = self.model.get_header_accessor()
        if int(header.get_field("num_target")[0]) != 1:
            raise BadModel("Multi-target model not supported: save one model for each target")
        self.classes = int(header.get_field("num_class")[0])
        self.features = int(self.model.num_feature)
        if self.parameters.predict_proba and self.classes > 1:
            in_leaf = int(header.get_field("leaf_vector_shape")[1]) > 1
            header.set_field("postprocessor", "identity_multiclass" if in_leaf else "softmax")
        self._check_features(inputs)
        self.shape = _row_shape(output)
        self._check_output(output)
        self.explainer = None
        if shap is not None:
            self.shap_shape = _row_shape(shap)
            self.explainer = self._explain_with(shap)

    def _path(self) -> Path:
        default = FILES[self.parameters.model_type]
        path = self.config.file(default)
        return path / default if path.is_dir() else path

    def _tensors(self) -> tuple[Tensor, Tensor, Tensor | None]:
        if INPUT not in self.config.inputs:
            raise BadModel(
                f"unexpected inputs {list(self.config.inputs)}: the backend reads '{INPUT}' "
                "(two underscores), whatever the features are called"
            )
        if OUTPUT not in self.config.outputs:
            raise BadModel(
                f"No output with name {OUTPUT} in configuration. Name it '{OUTPUT}' "
                "(two underscores)."
            )
        for tensor in (*self.config.inputs.values(), *self.config.outputs.values()):
            if tensor.data_type != "TYPE_FP32":
                raise BadModel(
                    f"incorrect type {tensor.data_type} for '{tensor.name}' with required type "
                    "TYPE_FP32; send and ask for float32"
                )
        for name in self.config.outputs:
            if name not in (OUTPUT, SHAP):
                raise BadModel(f"the backend has no output '{name}': only {OUTPUT} and {SHAP}")
        return (
            self.config.inputs[INPUT],
            self.config.outputs[OUTPUT],
            self.config.outputs.get(SHAP),
        )

    def _check_features(self, tensor: Tensor) -> None:
        dims = tensor.model_dims
        if self.config.max_batch_size == 0:
            dims = dims[1:]
        if -1 not in dims and int(np.prod(dims)) != self.features:
            batch = "" if self.config.max_batch_size else "-1, "
            raise BadModel(
                f"{INPUT} has dims {list(tensor.model_dims)}, but the model has {self.features} "
                f"features: write dims: [ {batch}{self.features} ]"
            )

    def _check_output(self, output: Tensor) -> None:
        one_class = self.classes == 1
        if one_class:
            values = 2 if self.parameters.predict_proba else 1
        elif self.parameters.predict_proba or not self.parameters.classifier:
            values = self.classes
        else:
            values = 1
        given = int(np.prod(self.shape))
        if given != values:
            raise BadModel(
                f"{OUTPUT} has dims {list(output.model_dims)}, but with predict_proba "
                f"{_lower(self.parameters.predict_proba)} and output_class "
                f"{_lower(self.parameters.classifier)} this model "
                f"({'one score' if one_class else f'{self.classes} classes'}) gives "
                f"{values} value{'s' if values > 1 else ''} per row: write dims: [ {values} ]"
            )
        self.two_columns = given == 2 and one_class

    def _explain_with(self, shap: Tensor) -> Any:
        from workbook.backends.fil.treeshap import NotExplainable, TreeShap

        values = self.classes * (self.features + 1)
        if int(np.prod(self.shap_shape)) != values:
            right = [self.features + 1] if self.classes == 1 else [self.classes, self.features + 1]
            raise BadModel(
                f"{SHAP} has dims {list(shap.model_dims)}, but it holds a value for each of the "
                f"{self.features} features and the bias"
                f"{'' if self.classes == 1 else f', for each of {self.classes} classes'}: "
                f"write dims: {right}"
            )
        try:
            return TreeShap(self.model)
        except NotExplainable as error:
            raise BadModel(str(error)) from None

    def infer(self, inputs: dict[str, Array], outputs: Sequence[str]) -> Mapping[str, Array]:
        """Predict; compute SHAP values where a request asks for them."""
        rows = inputs[INPUT]
        rows = rows.reshape(len(rows), -1)
        if rows.shape[1] != self.features:
            raise BadRequest(
                f"{INPUT} has {rows.shape[1]} features per row; the model has {self.features}"
            )
        answer = {}
        if OUTPUT in outputs:
            answer[OUTPUT] = self._predict(rows).reshape(len(rows), *self.shape)
        if SHAP in outputs and self.explainer is not None:
            answer[SHAP] = self.explainer.explain(rows).reshape(len(rows), *self.shap_shape)
        return answer

    def _predict(self, rows: Array) -> Array:
        import treelite

        few = len(rows) * self.model.num_tree < _FEW
        threads = 1 if few else self.parameters.threads
        raw: Array = treelite.gtil.predict(self.model, rows, nthread=threads)
        scores: Array = raw.reshape(len(rows), self.classes).astype(np.float32, copy=False)
        if self.two_columns:
            return np.concatenate([np.float32(1) - scores, scores], axis=1)
        if self.parameters.predict_proba or not self.parameters.classifier:
            return scores
        if self.classes == 1:
            classes: Array = scores[:, 0] > self.parameters.threshold
        else:
            classes = scores.argmax(axis=1)
        return classes.astype(np.float32)


def _read(path: Path, parameters: Parameters) -> Any:
    """Load the model file with Treelite.

    Raises:
        BadModel: the file has another format than model_type says, or cannot be read.
    """
    import treelite

    kind, unknown = parameters.model_type, parameters.allow_unknown_field
    load = treelite.frontend
    readers: dict[str, Callable[[], Any]] = {
        "xgboost": lambda: load.load_xgboost_model_legacy_binary(path),
        "xgboost_json": lambda: load.load_xgboost_model(
            path, format_choice="json", allow_unknown_field=unknown
        ),
        "xgboost_ubj": lambda: load.load_xgboost_model(
            path, format_choice="ubjson", allow_unknown_field=unknown
        ),
        "lightgbm": lambda: load.load_lightgbm_model(path),
        "treelite_checkpoint": lambda: treelite.Model.deserialize(path),
    }
    written_as = _format(path)
    if written_as is not None and written_as != kind:
        raise BrokenModel(
            f"Model failed to load into Treelite: model_type is {kind}, but {path.name} is written "
            f"as {written_as}. Set model_type to {written_as} and name the file "
            f"{FILES[written_as]}."
        )
    try:
        model = readers[kind]()
    except Exception as error:  # Treelite's own errors, and those of the libraries below it
        message = re.sub(r"^\[\S+\] \S+: ", "", str(error).strip()).splitlines()[0]
        hint = ""
        if kind == "xgboost":
            hint = (
                ". This is XGBoost's old binary format, which XGBoost dropped in 3.1: save the "
                'model with save_model("xgboost.json") and set model_type to xgboost_json'
            )
        raise BrokenModel(
            f"Model failed to load into Treelite with error: {message}{hint}"
        ) from None
    if kind in ("xgboost_json", "xgboost_ubj") and (newer := _newer(path)):
        pb_utils.Logger.log_warn(
            f"{path.name}: FIL in containers before 26.01 cannot read this file. XGBoost writes "
            f"{newer} since 3.1. Save the model with save_xgboost (workbook.zoo.forests) to serve "
            "it there too"
        )
    return model


def _newer(path: Path) -> str:
    """The parts of an XGBoost file that Treelite before 4.6 refuses, as text; "" if there are none.

    The parameter `xgboost_allow_unknown_field` helps with `cats` only.
    """
    found = []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for what, written in NEWER.items():
            if re.search(written, content):
                found.append(what)
    return " and ".join(found)


def _format(path: Path) -> str | None:
    """The model_type, found out from the file's first bytes; None if several are possible."""
    with path.open("rb") as file:
        start = file.read(64)
    if start.startswith(b"tree\n"):
        return "lightgbm"
    if start.lstrip()[:1] == b"{":
        rest = start.lstrip()[1:].lstrip()[:1]
        return "xgboost_json" if rest in (b'"', b"}") else "xgboost_ubj"
    return None


def _row_shape(tensor: Tensor) -> tuple[int, ...]:
    """The shape of one row of an output, from the config's dims as the real backend reads them.

    A leading -1 is the batch dimension; dimensions of 1 are left out.
    """
    dims = list(tensor.model_dims)
    if dims[:1] == [-1]:
        dims = dims[1:]
    if -1 in dims:
        raise BadModel(
            f"Backends with variable-shape outputs must request desired output shape: write the "
            f"number of values in a row as the dims of {tensor.name}"
        )
    return tuple(d for d in dims if d != 1)


def _lower(value: bool) -> str:
    return str(value).lower()


def _most_threads() -> int:
    """The largest number of threads that Treelite accepts: the cores, or OMP_NUM_THREADS.

    A config may be written for a larger machine, and ask for more.
    """
    cores = len(os.sched_getaffinity(0))
    outermost = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(cores, int(outermost)) if outermost.isdigit() and int(outermost) else cores
