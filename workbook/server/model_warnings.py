"""Warnings about models that are served: answers that do not fit the config, and faults of 24.10.

The laptop server answers as NVIDIA's container does, also where a model is sloppy. What is wrong is
written into the server's log, once for each process of a model and each fault
(backends/python/answer_checks.py). This module reads it there, for `workbook deploy`, `workbook
status` and notebooks. Faults of Triton 24.10 itself that a config meets are found in the config.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from .catalogue import AskedServer

_WARNING = re.compile(
    r"^Warning about model '(?P<model>.+?)', version \d+: (?P<what>.*)\nwhere: (?P<where>.*)\n"
    r"to do: (?P<todo>.*)$",
    re.MULTILINE,
)
#: A load begins, or a version has gone: what was said of that model is over.
_ANEW = re.compile(
    r"\] \"(?:loading: (.+):\d+|successfully unloaded '(.+)' version \d+)\"$", re.MULTILINE
)
#: The core whose fault `of_config` names; pull request 425 of triton-inference-server/core has
#: mended it, since release 25.01.
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
    """The warnings of a log, each once, without those from before a model was loaded again.

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
    """What Triton does not do as a config asks.

    Args:
        config: as `/v2/models/M/config` shows it.
        core: the server's version, as `/v2` shows it.
    """
    name = str(config.get("name", ""))
    controls = (config.get("sequence_batching") or {}).get("control_input", [])
    return [
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


def of(
    server: AskedServer, model: str, config: Mapping[str, Any] | None = None
) -> list[ModelWarning]:
    """All warnings about one model that is served.

        for warning in model_warnings.of(server, "square"):
            print(warning)

    Args:
        server: the server; where its log is not on this machine, its configs alone are read.
        model: the model's name.
        config: its config, where it is known.
    """
    config = server.config(model) if config is None else config
    core = str(server.metadata().get("version", ""))
    said = of_log(server.log_text())
    return of_config(config, core) + [warning for warning in said if warning.model == model]
