"""Run vLLM's engine on a CPU in one process, which is a copy of the stub."""

from __future__ import annotations

import gc
import os
from typing import Any


def start(arguments: Any, loggers: Any) -> Any:
    """Start vLLM's asynchronous engine; in one process if one worker computes on a CPU.

    vLLM's CPU build starts two new interpreters: one for the engine and one for its worker, because
    it binds the worker's threads to cores before they start. Threads that are not bound (model.py's
    SETTINGS) need no such start. So the engine computes the steps itself, and its process is a copy
    of this one, which has imported vLLM already. Measured with a small model on 2 cores: without
    the worker's process it takes 0.5 GB less and makes 1.4 to 1.6 times as many tokens per second;
    with a copy for the engine it loads in 12 s of processor time in place of 20.

    Args:
        arguments: vLLM's AsyncEngineArgs. The choices of the model's author are kept.
        loggers: vLLM's factories of statistics loggers, or None.

    Returns:
        vLLM's AsyncLLM.
    """
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.executor.uniproc_executor import UniProcExecutor

    is_enough = needs_one_process(arguments)
    if is_enough:
        arguments.distributed_executor_backend = UniProcExecutor
    config = arguments.create_engine_config(UsageContext.ENGINE_CONTEXT)
    if is_enough:
        os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"  # the line above has set spawn
        # The copy's garbage collector runs five times. It need not search the imported modules.
        gc.collect()
        gc.freeze()
    return AsyncLLM.from_vllm_config(
        config,
        stat_loggers=loggers,
        enable_log_requests=arguments.enable_log_requests,
        disable_log_stats=arguments.disable_log_stats,
    )


def needs_one_process(arguments: Any) -> bool:
    """Whether one process is enough for an engine with these arguments."""
    from vllm.platforms import current_platform

    workers = (
        arguments.tensor_parallel_size
        * arguments.pipeline_parallel_size
        * arguments.data_parallel_size
    )
    return (
        current_platform.is_cpu()
        and os.environ["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"
        and arguments.distributed_executor_backend is None
        and workers == 1
    )
