"""Warnings about models that are served: answers that do not fit the config, and faults of 24.10.

The laptop server answers as NVIDIA's container does, even if a model's answers do not fit its
config. The server's log then has a warning, once for each process of a model and each fault
(backends/python/answer_checks.py). This module reads the warnings there, for `workbook deploy`,
`workbook status` and notebooks. Triton 24.10 itself has a fault that some configs meet; this module
finds those configs.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from ..backends.onnxruntime.accelerators import CUDA_PARAMETERS
from .catalogue import ServerView

_WARNING = re.compile(
    r"^Warning about model '(?P<model>.+?)', version \d+: (?P<what>.*)\nwhere: (?P<where>.*)\n"
    r"to do: (?P<todo>.*)$",
    re.MULTILINE,
)
#: A load begins, or a version is unloaded: earlier warnings about that model no longer hold.
_ANEW = re.compile(
    r"\] \"(?:loading: (.+):\d+|successfully unloaded '(.+)' version \d+)\"$", re.MULTILINE
)
#: The version of Triton's core that has the fault which `of_config` names. Pull request 425 of
#: triton-inference-server/core has fixed it, since release 25.01.
_CORE = "2.51.0"


@dataclasses.dataclass(frozen=True)
class ModelWarning:
    """What is wrong with a model that is served all the same.

    Attributes:
        model: its name.
        what: what is wrong.
        where: the file and the line.
        todo: what to do.
    """

    model: str
    what: str
    where: str
    todo: str

    def __str__(self) -> str:
        return f"{self.model}: {self.what}\n  where: {self.where}\n  to do: {self.todo}"


def of_log(log: str) -> list[ModelWarning]:
    """The warnings in a log, each once, without those that are older than the model's last load.

    Args:
        log: the text of the server's log.
    """
    found: dict[ModelWarning, None] = {}
    events = [(match.start(), match) for match in _WARNING.finditer(log)]
    events += [(match.start(), match) for match in _ANEW.finditer(log)]
    for _, match in sorted(events, key=lambda event: event[0]):
        if match.re is _WARNING:
            found[ModelWarning(**match.groupdict())] = None
        else:
            again = match[1] or match[2]
            found = {warning: None for warning in found if warning.model != again}
    return list(found)


def of_config(config: Mapping[str, Any], core: str = _CORE) -> list[ModelWarning]:
    """Warnings about settings of a config that Triton does not follow.

    Args:
        config: as `/v2/models/M/config` shows it.
        core: the server's version, as `/v2` shows it.
    """
    name = str(config.get("name", ""))
    controls = (config.get("sequence_batching") or {}).get("control_input", [])
    return _accelerators(config) + [
        ModelWarning(
            name,
            f'The control input "{entry["name"]}" takes sequence ids as TYPE_STRING. Triton 24.10 '
            "takes texts of exactly 128 characters only: with another id the request fails, or "
            "the model's process ends.",
            f"config.pbtxt, control_input {entry['name']}",
            "Use numbers as ids, with data_type: TYPE_UINT64; or fill each id up to 128 "
            "characters. Triton 25.01 takes shorter ones.",
        )
        for entry in controls
        for control in entry.get("control", [])
        if core == _CORE
        and control.get("kind") == "CONTROL_SEQUENCE_CORRID"
        and control.get("data_type") == "TYPE_STRING"
    ]


def _accelerators(config: Mapping[str, Any]) -> list[ModelWarning]:
    """Warnings about parameters of accelerators that the ONNX Runtime backend does not follow."""
    if config.get("backend") != "onnxruntime":
        return []
    where = "config.pbtxt, optimization.execution_accelerators"
    wanted = (config.get("optimization") or {}).get("execution_accelerators") or {}
    without_effect: dict[str, tuple[str, str]] = {}
    for entry in wanted.get("cpu_execution_accelerator", []):
        for key in entry.get("parameters") or {}:
            without_effect[key] = (
                "the ONNX Runtime backend reads no parameter of openvino",
                'Remove it. Where a model needs such settings, serve it with backend: "openvino".',
            )
    for entry in wanted.get("gpu_execution_accelerator", []):
        for key in (entry.get("parameters") or {}) if entry["name"] == "cuda" else ():
            if key in CUDA_PARAMETERS:
                without_effect[key] = (
                    f"the model's own parameter {key}, or its default, replaces it",
                    f'Write parameters {{ key: "{key}" value: {{ string_value: "…" }} }} outside '
                    "of optimization.",
                )
    return [
        ModelWarning(
            str(config.get("name", "")),
            f"Parameter {key} of an accelerator has no effect: {why}. So it is in NVIDIA's "
            "container.",
            where,
            todo,
        )
        for key, (why, todo) in without_effect.items()
    ]


def of(
    server: ServerView, model: str, config: Mapping[str, Any] | None = None
) -> list[ModelWarning]:
    """All warnings about one model that is served.

        for warning in model_warnings.of(server, "square"):
            print(warning)

    Args:
        server: the server; if its log is not on this machine, only its configs are read.
        model: the model's name.
        config: its config, if the caller has it.
    """
    config = server.config(model) if config is None else config
    core = str(server.metadata().get("version", ""))
    logged = of_log(server.log_text())
    return of_config(config, core) + [warning for warning in logged if warning.model == model]
