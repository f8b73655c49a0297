"""The metrics that the server counts for each model, and those that options switch on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiled import needs_compiler
from fault_models import ask, until, write
from tritonclient.utils import InferenceServerException

from workbook.server import Triton

pytestmark = pytest.mark.server

#: Families of a server without a GPU, with the type that each declares.
FAMILIES = {
    "nv_inference_request_success": "counter",
    "nv_inference_request_failure": "counter",
    "nv_inference_count": "counter",
    "nv_inference_exec_count": "counter",
    "nv_inference_request_duration_us": "counter",
    "nv_inference_queue_duration_us": "counter",
    "nv_inference_compute_input_duration_us": "counter",
    "nv_inference_compute_infer_duration_us": "counter",
    "nv_inference_compute_output_duration_us": "counter",
    "nv_inference_pending_request_count": "gauge",
    "nv_cpu_utilization": "gauge",
    "nv_cpu_memory_total_bytes": "gauge",
    "nv_cpu_memory_used_bytes": "gauge",
}
M1 = 'model="m1",version="1"'
_LINE = re.compile(r"^(?P<name>[a-z_]+)(\{(?P<labels>.*)\})? (?P<value>\S+)$")


def values(text: str, name: str) -> dict[str, float]:
    """A family's values by labels."""
    lines = (_LINE.match(line) for line in text.splitlines())
    return {
        m["labels"] or "": float(m["value"]) for m in lines if m is not None and m["name"] == name
    }


def of_model(server: Triton, name: str, model: str) -> float:
    """The sum of a family's values for one model."""
    found = values(server.metrics(), name)
    return sum(value for labels, value in found.items() if f'model="{model}"' in labels)


@pytest.mark.quick
def test_each_family_is_there_with_help_and_type(tmp_path: Path) -> None:
    write(tmp_path, "m0")
    with Triton(tmp_path, models=["m0"]) as server:
        assert ask(server, "m0", [1.0])
        # The server reads the machine's memory two seconds after its start for the first time.
        memory = "nv_cpu_memory_total_bytes"
        until(lambda: values(server.metrics(), memory)[""], "the memory is in the metrics")
        text = server.metrics()
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    assert FAMILIES.items() <= types.items()
    assert set(types) == set(re.findall(r"^# HELP (\S+) \S", text, re.MULTILINE))
    assert (
        values(text, "nv_cpu_memory_total_bytes")[""] > values(text, "nv_cpu_memory_used_bytes")[""]
    )


@pytest.mark.quick
def test_counts_times_and_failures(tmp_path: Path) -> None:
    write(tmp_path, "m0", "m1")
    with Triton(tmp_path, models=["m0", "m1"]) as server:
        for _ in range(3):
            assert ask(server, "m0", [-0.05, 1.0])
        with pytest.raises(InferenceServerException):
            ask(server, "m0", [])  # the model reads the first value
        counts = {name: of_model(server, name, "m0") for name in FAMILIES if "inference" in name}
        assert counts["nv_inference_count"] >= 3
        assert counts["nv_inference_exec_count"] >= 3
        assert counts["nv_inference_pending_request_count"] == 0
        assert counts["nv_inference_compute_infer_duration_us"] >= 3 * 50_000
        assert (
            counts["nv_inference_request_duration_us"]
            >= counts["nv_inference_compute_infer_duration_us"]
        )
        both = counts["nv_inference_request_success"] + counts["nv_inference_request_failure"]
        assert both == 4
        assert of_model(server, "nv_inference_count", "m1") == 0
        server.unload("m0")  # its counts are removed; counts of failures stay
        until(lambda: not values(server.metrics(), "nv_inference_count").keys() - {M1}, "gone")
        server.load("m0")
        assert of_model(server, "nv_inference_count", "m0") == 0


def test_latencies_as_summaries(tmp_path: Path) -> None:
    write(tmp_path, "m0")
    options = [
        "--metrics-config=summary_latencies=true",
        "--metrics-config=summary_quantiles=0.5:0.05,0.9:0.01",
    ]
    with Triton(tmp_path, models=["m0"], options=options) as server:
        for _ in range(5):
            assert ask(server, "m0", [-0.02, 1.0])
        found = values(server.metrics(), "nv_inference_request_summary_us")
    own = {re.search('quantile="(.*?)"', labels)[1]: v for labels, v in found.items()}  # type: ignore[index]
    assert set(own) == {"0.5", "0.9"}
    assert 20_000 <= own["0.5"] <= own["0.9"]


LOGGING = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        logger = pb_utils.Logger
        logger.log_info("words of info")
        logger.log_warn("words of warning")
        logger.log_error("words of error")
        logger.log_verbose("words of detail")
        logger.log_info("the last words")
        x = [pb_utils.get_input_tensor_by_name(r, "x").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", 2 * one)]) for one in x]
"""


@pytest.mark.parametrize("verbose", [0, 1])
def test_a_model_s_own_lines_in_the_log(tmp_path: Path, verbose: int) -> None:
    """With their level, file and line; those for details only where the server writes them."""
    write(tmp_path, "m0").joinpath("1", "model.py").write_text(LOGGING)
    with Triton(tmp_path, models=["m0"], options=[f"--log-verbose={verbose}"]) as server:
        assert ask(server, "m0", [1.0])
        # The lines are logged one after the other, and may come after the answer.
        until(lambda: "the last words" in server.log_text(), "they are in the log")
        text = server.log_text()
    for level, words in (("I", "info"), ("W", "warning"), ("E", "error")):
        assert re.search(
            rf"^{level}\d{{4}} .* model\.py:\d+\] \"?words of {words}", text, re.MULTILINE
        )
    assert ("words of detail" in text) == bool(verbose)


CUSTOM = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, arguments):
        kinds = pb_utils.MetricFamily
        self.seen = kinds(name="rows_seen", description="Rows.", kind=kinds.COUNTER)
        self.last = kinds(name="last_value", description="Value.", kind=kinds.GAUGE)
        self.rows = self.seen.Metric(labels={"of": "m0"})
        self.value = self.last.Metric(labels={"of": "m0"})

    def execute(self, requests):
        x = [pb_utils.get_input_tensor_by_name(r, "x").as_numpy() for r in requests]
        for one in x:
            self.rows.increment(len(one))
            self.value.set(float(one[-1]))
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", 2 * one)]) for one in x]
"""


def test_a_model_s_own_metrics(tmp_path: Path) -> None:
    """They are in /metrics, and the server keeps running when the processes that have them end.

    Without the fork server the stub dies in a metric's destructor while it holds a lock, and that
    ended the server in 7 of 8 runs. A copy of the fork server ends without destructors.
    """
    folder = write(tmp_path, "m0")
    folder.joinpath("1", "model.py").write_text(CUSTOM)
    with Triton(tmp_path, models=["m0"]) as server:
        began = server.pid
        assert ask(server, "m0", [1.0, 2.0])
        assert ask(server, "m0", [7.0])
        assert values(server.metrics(), "rows_seen") == {'of="m0"': 3.0}
        assert values(server.metrics(), "last_value") == {'of="m0"': 7.0}
        for number in range(4):
            if number % 2:
                server.unload("m0")
            else:  # loaded beside the old one, and with the same metrics
                folder.joinpath("1", "model.py").write_text(f"{CUSTOM}# {number}\n")
            server.load("m0")
            assert ask(server, "m0", [1.0])
        assert server.pid == began


FINALIZE = """
    def finalize(self):
        del self.rows, self.value, self.seen, self.last
        open(__file__ + ".ended", "w").close()
"""


@needs_compiler
def test_a_model_with_metrics_is_loaded_again(tmp_path: Path) -> None:
    """The old instance removes its metrics, and the new one goes on with the same ones.

    In a bare server the new instance's are gone as well, and it writes to freed memory. Another
    description makes no other metric.
    """
    folder = write(tmp_path, "m0")
    program = folder / "1" / "model.py"
    program.write_text(CUSTOM + FINALIZE)
    with Triton(tmp_path, models=["m0"]) as server:
        began = server.pid
        for number in range(4):
            assert ask(server, "m0", [1.0, 2.0])
            assert values(server.metrics(), "rows_seen") == {'of="m0"': 2.0 * (number + 1)}
            assert values(server.metrics(), "last_value") == {'of="m0"': 2.0}
            program.write_text(CUSTOM.replace("Rows.", f"Rows, {number}.") + FINALIZE)
            server.load("m0")
            ended = Path(f"{program}.ended")
            until(ended.exists, "the old instance has ended")
            ended.unlink()
        server.unload("m0")  # its last user
        until(ended.exists, "the last instance has ended")
        assert values(server.metrics(), "rows_seen") == {}
        assert server.pid == began
