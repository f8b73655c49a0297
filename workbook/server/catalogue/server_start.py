"""Look-ups for the log of a server that does not start. server_start.toml has the messages."""

from __future__ import annotations

import re

from .rules import Catalogue, Parts, near

STARTS: Catalogue[str] = Catalogue("server_start")

_GPU_AND_BYTES = "GPU:BYTES, e.g. 0:67108864"
_RESTRICTED = "PROTOCOLS:HEADER=VALUE, e.g. model-repository,shared-memory:admin-key=a-secret"
#: The values of those options of tritonserver 24.10 that take neither a bool nor a number.
_FORMS = {
    "backend-config": "NAME,SETTING=VALUE, e.g. python,shm-default-byte-size=1048576",
    "cache-config": "NAME,SETTING=VALUE, e.g. local,size=67108864",
    "cuda-memory-pool-byte-size": _GPU_AND_BYTES,
    "cuda-virtual-address-size": _GPU_AND_BYTES,
    "grpc-infer-response-compression-level": "none, low, medium or high",
    "grpc-restricted-protocol": _RESTRICTED,
    "host-policy": "POLICY,SETTING=VALUE, e.g. gpu_0,numa-node=0",
    "http-restricted-api": _RESTRICTED.replace("PROTOCOLS", "APIS"),
    "log-format": "default or ISO8601",
    "metrics-config": "SETTING=VALUE, e.g. summary_latencies=true",
    "model-control-mode": "none, poll or explicit",
    "model-load-gpu-limit": "GPU:FRACTION, e.g. 0:0.8",
    "rate-limit": "off or execution_count",
    "rate-limit-resource": "NAME:COUNT or NAME:COUNT:DEVICE, e.g. R1:2",
    "sagemaker-safe-port-range": "FIRST-LAST, e.g. 8100-8200",
    "trace-config": "SETTING=VALUE or MODE,SETTING=VALUE, e.g. rate=100 or triton,file=trace.json",
    "trace-config level": "OFF, TIMESTAMPS or TENSORS",
    "trace-config mode": "triton or opentelemetry",
    "trace-level": "OFF, TIMESTAMPS or TENSORS",
}


@STARTS.look_up
def unknown_option(log: str, parts: Parts) -> Parts:
    """The option that is meant: the usage follows in the log."""
    known = re.findall(r"^\s*--([\w-]+)", log, re.MULTILINE)
    return {"meant": near(parts["option"], known)}


@STARTS.look_up
def bad_option_value(log: str, parts: Parts) -> Parts:
    """What the option may have. Where a number in a value is wrong, the form says where it is."""
    words = parts["words"].strip().rstrip(".")
    form = _FORMS.get(parts["option"], "a whole number")
    return {"words": words, "form": "true or false" if "bool" in words else form}


@STARTS.look_up
def bad_certificate(log: str, parts: Parts) -> Parts:
    """The files of TLS. The server may end before gRPC has written which one it is."""
    words = {"cert": "Invalid cert chain", "key": "Invalid private key"}
    files = [file for file in words if words[file] in log] or list(words)
    options = ", ".join(f"--grpc-server-{file}" for file in files)
    return {"files": " or ".join(files), "options": options}


@STARTS.look_up
def bad_option(log: str, parts: Parts) -> Parts | None:
    """The server's words; None for those that every start without a GPU prints."""
    return None if "NVML" in parts["words"] else {"words": parts["words"].strip()}
