"""Offer a plain model to the server, which then runs it without this process.

The server's side is `server/native/fastpath.cc`; `server/native/README.md` describes both.

A model is plain if the server needs only its file, its session options and the names of its
tensors: no sequences, no ragged batches, no optional inputs, no text, no custom operators. Most
models are plain. For all other models, this process answers the requests.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from workbook.backends.base import Config

#: The first line of the server's file for offers. This process inherits the open file.
_FIRST_LINE = b"triton-fastpath\n"

#: Parameters that an offer cannot express; a model with one of them is not plain.
_NOT_OFFERED = frozenset(
    {
        "memory.enable_memory_arena_shrinkage",
        "session.use_device_allocator_for_initializers",
    }
)


def offer(config: Config, instance: str, file: Path, options: Any) -> bool:
    """Offer an instance that is loaded and checked; True if its requests will go to the server.

    Args:
        config: the model's.
        instance: the instance's name.
        file: the ONNX file.
        options: the SessionOptions of its session.
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
    if any("\n" in line for line in lines[:-1]):  # a tensor's name may have any character
        return False
    os.write(memory, "\n".join(lines).encode())
    return True


def _is_plain(config: Config) -> bool:
    """Whether the server can run a model with this config."""
    raw, tensors = config.raw, [*config.inputs.values(), *config.outputs.values()]
    return not (
        raw.get("sequence_batching")
        or raw.get("model_operations")
        or config.batch_inputs
        or config.batch_outputs
        or not _NOT_OFFERED.isdisjoint(config.parameters)
        or any(t.ragged or t.optional or t.data_type == "TYPE_STRING" for t in tensors)
    )


def _memory() -> int | None:
    """The descriptor of the server's file for offers; None if there is none (no fast path)."""
    for entry in Path("/proc/self/fd").iterdir():
        try:
            number = int(entry.name)
            has_no_name = "/#" in str(entry.readlink())
            if has_no_name and os.pread(number, len(_FIRST_LINE), 0) == _FIRST_LINE:
                return number
        except OSError:  # the descriptor of this listing itself, which is closed by now
            continue
    return None
