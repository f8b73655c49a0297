"""For 06__accelerators: files, who computes which operators, times."""

from __future__ import annotations

import os
import re
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbook import measure
from workbook.backends.onnxruntime import accelerators, plugins
from workbook.lessons import formats
from workbook.lessons import mistakes as made
from workbook.lessons.premises import Premise, clear, steady
from workbook.lessons.shared import focus_files, quiet
from workbook.server import Triton

#: The turns of each way, and how often its session is opened.
_TURNS, _OPENED = 60, 3
#: Columns of `in_process`.
WITHOUT, WITH = "without, ms", "with OpenVINO, ms"
_PROVIDERS: list[accelerators.Provider] = [
    (accelerators.OPENVINO, {}),
    ("CPUExecutionProvider", {}),
]


def prepare(models: Path) -> None:
    """Write the network and pictures for the cells, and hide the warnings of exporters."""
    quiet.hide_warnings()
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # of the older exporter
    focus_files.save(models)


def take_two_cores() -> None:
    """Let this process, and the servers that it starts from now on, use two cores only.

    No config sets the threads of OpenVINO: an instance takes its share of the cores. Of two cores,
    each of two instances gets one thread, as many as it has without OpenVINO. Where there are more
    cores, they are the first and the third: two neighbours may be two threads of one core.
    """
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, (cores[::2] if len(cores) > 2 else cores)[:2])


def set_log(lab: Triton) -> None:
    """Set TRITON_LOG, the server's log."""
    os.environ["TRITON_LOG"] = str(lab.log)


def night(models: Path) -> None:
    """Write the file of `night`, as ONNX Runtime joins operators; a file that is there is kept."""
    import onnxruntime as ort

    source, target = models / "compiled/1/model.onnx", models / "night/1/model.onnx"
    if target.is_file():
        return
    if not source.is_file():
        raise made.not_written("compiled")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def _session(file: Path, *, accelerated: bool) -> Any:
    """Open a file with one thread and in fp32, with the settings of the server's backend."""
    import onnxruntime as ort

    if not file.is_file():
        raise made.not_written(file.name)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return plugins.open_session(file, options, _PROVIDERS[0 if accelerated else 1 :])


def parts(file: Path) -> pd.DataFrame:
    """The parts of an ONNX file's graph: which library computes each, and its operators."""
    names = {accelerators.OPENVINO: "OpenVINO", "CPUExecutionProvider": "ONNX Runtime"}
    found = _session(file, accelerated=True).get_provider_graph_assignment_info()
    rows = [
        (names[each.ep_name], " ".join(node.op_type for node in each.get_nodes())) for each in found
    ]
    return pd.DataFrame(rows, columns=["computed by", "operators"])


def in_process(*files: Path) -> pd.DataFrame:
    """Time one picture with and without OpenVINO, in this process, on one thread, in turns.

    Returns:
        One row per file, named by its model: the fastest call of each way; `gain`, the time without
        divided by that with; `spread`, by which factor the fastest calls of the first and the
        second half of the turns differ; the fastest opening of a session; and after how many
        requests the time is earned that OpenVINO takes longer to open.
    """
    picture = np.ascontiguousarray(formats.pictures()[:1])
    rows = {}
    for file in files:
        sessions: list[Any] = []
        opened, times = np.empty((_OPENED, 2)), np.empty((_TURNS, 2))
        for turn in range(_OPENED):
            sessions.clear()
            for way in (0, 1):
                began = time.perf_counter()
                sessions.append(_session(file, accelerated=bool(way)))
                opened[turn, way] = 1000 * (time.perf_counter() - began)
        for turn in range(_TURNS):
            for way, each in enumerate(sessions):
                began = time.perf_counter()
                each.run(None, {"image": picture})
                times[turn, way] = 1000 * (time.perf_counter() - began)
        (without, with_it), halves = times.min(0), times.reshape(2, -1, 2).min(1)
        cost, saved = np.diff(opened.min(0))[0], without - with_it
        rows[file.parent.parent.name] = [
            *(without, with_it, without / with_it, (halves.max(0) / halves.min(0)).max()),
            *(*opened.min(0), cost / saved if saved > 0 else np.inf),
        ]
    opening = "opened without, ms", "opened with, ms", "requests to earn it"
    columns = [WITHOUT, WITH, "gain", "spread", *opening]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def compared(file: Path, times: pd.DataFrame, limit: float = 0.0) -> Premise:
    """Premise: OpenVINO computes parts of a file, and times of the same thing agree.

    Args:
        file: an ONNX file.
        times: of `in_process`.
        limit: a gain with which gains are compared; 0 for none. No gain may be too close to it.
    """
    found = Premise(
        "OpenVINO" in set(parts(file)["computed by"]),
        "OpenVINO computes nothing here; `workbook status` says why",
    )
    for _, row in times.iterrows():
        found = found & steady([1.0, row["spread"]], 1.5)
        found = found & clear(row["gain"], limit, row["spread"]) if limit else found
    return found


def served(models: Path, names: Sequence[str], turns: int = 3) -> pd.DataFrame:
    """Read perf_analyzer's reports `NAME.TURN.csv`, with one client each.

    Returns:
        One row per model, of its best turns: `compute, ms`, the server's count per picture, and
        `per s`, pictures per second.
    """
    rows = {}
    for name in names:
        each = measure.read_reports(*(models / f"{name}.{n + 1}.csv" for n in range(turns)))
        rows[name] = {
            "compute, ms": each["compute_infer_ms"].min(),
            "per s": each["throughput"].max(),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def no_gpu(server: Triton) -> Premise:
    """Premise: the server has chosen the CPU for `for_gpu`, whose config names no kind."""
    kind = server.config("for_gpu")["instance_group"][0]["kind"]
    return Premise(kind == "KIND_CPU", "this machine has a GPU")


def providers(server: Triton, model: str) -> str:
    """The providers with which a model was loaded last, from the server's log; "" if never."""
    found = re.findall(rf"'{model}' version .* providers (.*), requests", server.log_text())
    return str(found[-1]) if found else ""
