"""Hands a plain model over to the server, which runs it without this process (server/fastpath.cc).

What makes a model plain: nothing in its config concerns more than one request at a time or needs
another look at a tensor. Such a model is the usual one. All others are answered here.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from workbook.backends.base import Config

_MEMORY = "/memfd:triton-fastpath (deleted)"  # as the server names the file that it hands down

#: Settings of a session or a run that an offer has no word for.
_UNSAID = frozenset(
    {
        "memory.enable_memory_arena_shrinkage",
        "session.use_device_allocator_for_initializers",
    }
)


def offer(config: Config, instance: str, file: Path, options: Any) -> bool:
    """Offer an instance that is loaded and checked; True where the server takes it.

    Args:
        config: the model's.
        instance: the instance's name.
        file: the ONNX file.
        options: the SessionOptions that it was loaded with.
    """
    memory = _memory()
    if memory is None or not _is_plain(config):
        return False
    lines = [
        f"offer {instance} {config.version}",
        f"file {file}",
        f"intra {options.intra_op_num_threads}",
        f"inter {options.inter_op_num_threads}",
        f"mode {int(options.execution_mode)}",
        f"level {int(options.graph_optimization_level)}",
        f"arena {int(options.enable_cpu_mem_arena)}",
        f"pattern {int(options.enable_mem_pattern)}",
        f"batches {int(config.max_batch_size > 0)}",
        *(f"input {name}" for name in config.inputs),
        *(f"output {name}" for name in config.outputs),
        "end\n",
    ]
    if any("\n" in line for line in lines[:-1]):  # a name may hold anything
        return False
    os.write(memory, "\n".join(lines).encode())
    return True


def _is_plain(config: Config) -> bool:
    """Whether the server can answer for a model with this config."""
    raw, tensors = config.raw, [*config.inputs.values(), *config.outputs.values()]
    return not (
        raw.get("sequence_batching")
        or raw.get("model_operations")
        or config.batch_inputs
        or config.batch_outputs
        or not _UNSAID.isdisjoint(config.parameters)
        or any(t.ragged or t.optional or t.data_type == "TYPE_STRING" for t in tensors)
    )


def _memory() -> int | None:
    """The descriptor of the memory file that the server handed down; None where it did not."""
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if str(entry.readlink()) == _MEMORY:
                return int(entry.name)
        except OSError:  # the one that this listing held
            continue
    return None
