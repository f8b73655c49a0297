"""Build one TensorRT plan in a process of its own: `python engine_builder.py REQUEST ANSWER`.

engines.py starts it. It has a process of its own for three reasons: TensorRT sends all lines of a
process to the first logger that the process made; a network that makes the parser crash ends this
process only; and the memory is free afterwards.

TensorRT and TensorRT for RTX have the same API, under the names `tensorrt` and `tensorrt_rtx`.
REQUEST and ANSWER are JSON files:

- REQUEST: `product`, `onnx`, `plan`, `profile` (name → smallest, optimum, largest shape),
  `compute_capabilities` (for TensorRT for RTX; empty for all that it builds for), `workspace_mib`
- ANSWER: `version`, `compute_capabilities`, `inputs`, `outputs` (each with `name`, `type`,
  `dims`), `seconds`, `log` (each line with its severity before it), `problem`: why there is no
  plan, in TensorRT's words; "" where it was written

Only the standard library and TensorRT are imported.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any


class Refused(Exception):
    """The network or the request cannot be used; the message says why."""


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Do what a request asks for, and return the answer."""
    try:
        trt = importlib.import_module(request["product"])
    except ImportError as error:
        return {"log": [], "problem": f"the package {request['product']} is not there: {error}"}
    log: list[tuple[str, str]] = []

    class Log(trt.ILogger):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, text: str) -> None:
            log.append((severity.name, text))

    answer: dict[str, Any] = {"version": trt.__version__, "problem": ""}
    began = time.perf_counter()
    try:
        answer |= build(trt, Log(), request)
    except Refused as refused:
        answer["problem"] = str(refused)
    except Exception as error:  # the bindings raise RuntimeError, TypeError and others
        answer["problem"] = cause(log) or str(error).partition("\n")[0]
    answer["seconds"] = time.perf_counter() - began
    answer["log"] = [f"{severity}: {text}" for severity, text in log]
    return answer


def build(trt: Any, logger: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Parse the network, build the plan and write it; returns what the engine takes and gives.

    Raises:
        Refused: the parser cannot read the network, or there is no such target.
        RuntimeError: TensorRT has refused the rest; its log says why.
    """
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(request["onnx"]):
        problems = [str(parser.get_error(i)) for i in range(parser.num_errors)]
        raise Refused("; ".join(problems) or "its parser does not read the file")
    config = builder.create_builder_config()
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, request["workspace_mib"] << 20)
    if request["profile"]:
        profile = builder.create_optimization_profile()
        for name, shapes in request["profile"].items():
            profile.set_shape(name, *map(tuple, shapes))
        if config.add_optimization_profile(profile) < 0:
            raise RuntimeError("the profile was refused")
    targets = request["compute_capabilities"]
    if request["product"] == "tensorrt_rtx":
        targets = targets or capabilities(trt)
        set_targets(trt, config, targets)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise RuntimeError("no plan was built")
    Path(request["plan"]).write_bytes(plan)
    return {
        "compute_capabilities": targets,
        "inputs": [tensor(network.get_input(i)) for i in range(network.num_inputs)],
        "outputs": [tensor(network.get_output(i)) for i in range(network.num_outputs)],
    }


def capabilities(trt: Any) -> list[str]:
    """The compute capabilities that TensorRT for RTX builds for, without Turing's 7.5.

    Turing lacks operations that many networks need; a plan is built for it where it is asked for.
    """
    numbers = [int(n[2:]) for n in trt.ComputeCapability.__members__ if n[:2] == "SM"]
    return [f"{number // 10}.{number % 10}" for number in sorted(numbers) if number >= 80]


def set_targets(trt: Any, config: Any, targets: list[str]) -> None:
    """Tell the builder for which compute capabilities the plan shall be.

    Raises:
        Refused: it does not know one of them.
    """
    known = trt.ComputeCapability.__members__
    config.num_compute_capabilities = len(targets)
    for place, target in enumerate(targets):
        name = f"SM{target.replace('.', '')}"
        if name not in known:
            others = ", ".join(["7.5", *capabilities(trt)])
            raise Refused(f"there is no target {target}; the targets are {others}")
        config.set_compute_capability(known[name], place)


def tensor(found: Any) -> dict[str, Any]:
    """A tensor's name, TensorRT's name of its type, and its dimensions."""
    return {"name": found.name, "type": found.dtype.name, "dims": list(found.shape)}


def cause(log: list[tuple[str, str]]) -> str:
    """The first error of a log. CUDA's complaint that there is no driver follows every error."""
    errors = (text for severity, text in log if severity in ("ERROR", "INTERNAL_ERROR"))
    return next((text for text in errors if "catchCudaError" not in text), "")


if __name__ == "__main__":
    done = main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    Path(sys.argv[2]).write_text(json.dumps(done), encoding="utf-8")
