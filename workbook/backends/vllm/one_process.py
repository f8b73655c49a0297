"""In how many processes vLLM's engine runs."""

from __future__ import annotations

import os
from typing import Any


def choose(arguments: Any) -> None:
    """Let the engine's process compute the steps itself, where one worker computes them on a CPU.

    vLLM's CPU build starts a further process for the worker, because it binds the worker's threads
    to cores before they start. Unbound threads (model.py's SETTINGS) do not need it. With one
    process less a small model loads in 17 to 20 s in place of 30 s, takes 0.5 GB less, and makes
    1.4 to 1.6 times as many tokens per second (measured on 2 cores).

    Args:
        arguments: vLLM's AsyncEngineArgs. What the model's author has chosen is kept.
    """
    from vllm.platforms import current_platform
    from vllm.v1.executor.uniproc_executor import UniProcExecutor

    workers = (
        arguments.tensor_parallel_size
        * arguments.pipeline_parallel_size
        * arguments.data_parallel_size
    )
    if (
        current_platform.is_cpu()
        and os.environ["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"
        and arguments.distributed_executor_backend is None
        and workers == 1
    ):
        arguments.distributed_executor_backend = UniProcExecutor
