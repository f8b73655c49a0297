"""The functions that checks are made of. Each one fails with a message for the student.

    from grader.vocabulary import require, tolerance, values

    @define("a2.forest", hints=…)
    def forest(server: Probe, model: str) -> None:
        '''FIL serves your forest: 30 measurements in, two probabilities out.'''
        config = require.backend(server, model, "fil")
        require.tensors(config, inputs={"input__0": ("FP32", [30])})

| a check is about | functions |
|---|---|
| the config, as the server parsed it | `backend`, `setting`, `tensors`, `batch_size`, `number_parameter`, `versions` |
| answers of the model | `shape`, `agreement`, `close` |
| classes | `classes`, `decided`, `labels` |
| what the student handed over | `probabilities`, `same_answer`, and the module `values` |
| batching | `batched`, `batch_counts`, `delays` |
| bad input | `refuses` |
| streams: order and end | `streams` |
| ensembles | `ensemble_equals_parts` |
| speed, as a ratio of two models in one run | `ratio` |
| tables of figures | `metrics_table`, and the module `figures` |
| several faults in one message, with partial credit | `all_of` |
"""  # noqa: E501

from __future__ import annotations

from .collect import all_of
from .require_answers import agreement, close, probabilities, same_answer, shape
from .require_batches import batch_counts, batched, delays
from .require_classes import classes, decided, labels
from .require_config import (
    backend,
    batch_size,
    number_parameter,
    setting,
    tensors,
    versions,
)
from .require_ensemble import ensemble_equals_parts
from .require_ratio import ratio
from .require_refusals import refuses
from .require_streams import streams
from .require_table import metrics_table

__all__ = [
    "agreement",
    "all_of",
    "backend",
    "batch_counts",
    "batch_size",
    "batched",
    "classes",
    "close",
    "decided",
    "delays",
    "ensemble_equals_parts",
    "labels",
    "metrics_table",
    "number_parameter",
    "probabilities",
    "ratio",
    "refuses",
    "same_answer",
    "setting",
    "shape",
    "streams",
    "tensors",
    "versions",
]
