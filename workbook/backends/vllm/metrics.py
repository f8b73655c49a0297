"""Report vLLM's metrics as custom metrics of Triton, with the names of NVIDIA's backend.

They appear on Triton's metrics port if the config's parameter REPORT_CUSTOM_METRICS is true and
model.json has `"disable_log_stats": false`.
"""

from __future__ import annotations

from typing import Any

import triton_python_backend_utils as pb_utils
from vllm.v1.metrics.loggers import StatLoggerBase

_SECONDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0]
_TOKENS = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0]

_COUNTERS = {
    "vllm:prompt_tokens_total": "Number of prefill tokens processed.",
    "vllm:generation_tokens_total": "Number of generation tokens processed.",
    "vllm:num_preemptions_total": "Number of preemptions.",
}
_GAUGES = {
    "vllm:num_requests_running": "Number of requests in the running batch.",
    "vllm:num_requests_waiting": "Number of requests waiting to be processed.",
    "vllm:gpu_cache_usage_perc": "Use of the key-value cache. 1 means 100 percent.",
}
_HISTOGRAMS = {
    "vllm:time_to_first_token_seconds": ("Time to first token in seconds.", _SECONDS),
    "vllm:time_per_output_token_seconds": ("Time per output token in seconds.", _SECONDS),
    "vllm:e2e_request_latency_seconds": ("End to end request latency in seconds.", _SECONDS),
    "vllm:request_prompt_tokens": ("Number of prefill tokens of a request.", _TOKENS),
    "vllm:request_generation_tokens": ("Number of generation tokens of a request.", _TOKENS),
}


class Logger(StatLoggerBase):  # type: ignore[misc]
    """Passes the counts of each of vLLM's steps to Triton."""

    def __init__(self, vllm_config: Any, engine_index: int = 0, labels: Any = None) -> None:
        self._families: list[Any] = []  # kept, since Triton removes a metric with its family

        def metric(name: str, text: str, kind: Any, **more: Any) -> Any:
            family = pb_utils.MetricFamily(name=name, description=text, kind=kind)
            self._families.append(family)
            return family.Metric(labels=labels, **more)

        kinds = pb_utils.MetricFamily
        self._counters = {n: metric(n, text, kinds.COUNTER) for n, text in _COUNTERS.items()}
        self._gauges = {n: metric(n, text, kinds.GAUGE) for n, text in _GAUGES.items()}
        self._histograms = {
            n: metric(n, text, kinds.HISTOGRAM, buckets=bounds)
            for n, (text, bounds) in _HISTOGRAMS.items()
        }

    def close(self) -> None:
        """Remove the metrics from Triton; it must happen while the server still answers."""
        for metrics in (self._counters, self._gauges, self._histograms):
            metrics.clear()
        self._families.clear()

    def log_engine_initialized(self) -> None:
        """Called by vLLM; nothing is logged."""

    def record(
        self,
        scheduler_stats: Any,
        iteration_stats: Any,
        mm_cache_stats: Any = None,
        engine_idx: int = 0,
    ) -> None:
        """Called after each step of the engine."""
        if scheduler_stats is not None:
            self._set("vllm:num_requests_running", scheduler_stats.num_running_reqs)
            self._set("vllm:num_requests_waiting", scheduler_stats.num_waiting_reqs)
            self._set("vllm:gpu_cache_usage_perc", scheduler_stats.kv_cache_usage)
        if iteration_stats is None:
            return
        self._add("vllm:prompt_tokens_total", iteration_stats.num_prompt_tokens)
        self._add("vllm:generation_tokens_total", iteration_stats.num_generation_tokens)
        self._add("vllm:num_preemptions_total", iteration_stats.num_preempted_reqs)
        for seconds in iteration_stats.time_to_first_tokens_iter:
            self._see("vllm:time_to_first_token_seconds", seconds)
        for seconds in iteration_stats.inter_token_latencies_iter:
            self._see("vllm:time_per_output_token_seconds", seconds)
        for request in iteration_stats.finished_requests:
            self._see("vllm:e2e_request_latency_seconds", request.e2e_latency)
            self._see("vllm:request_prompt_tokens", request.num_prompt_tokens)
            self._see("vllm:request_generation_tokens", request.num_generation_tokens)

    def _set(self, name: str, value: float) -> None:
        self._gauges[name].set(value)

    def _add(self, name: str, value: float) -> None:
        if value:
            self._counters[name].increment(value)

    def _see(self, name: str, value: float) -> None:
        self._histograms[name].observe(value)
