"""The messages in the log of a server that does not start.

The docstring of each rule is the advice of its entry.
"""

from __future__ import annotations

import re

from .rules import Advice, Catalogue, Said, near

STARTS: Catalogue[str] = Catalogue()


@STARTS.rule(
    "unknown-option", "unrecognized option '--{option:word}", "invalid option -- '{option}'"
)
def unknown_option(log: str, said: Said) -> Advice:
    """Write the option as tritonserver --help has it."""
    option = said["option"]
    known = re.findall(r"^\s*--([\w-]+)", log, re.MULTILINE)  # the usage follows in the log
    meant = near(option, known)
    return Advice(
        f"tritonserver has no option --{option}.",
        f"--{option}",
        f"Write --{meant}." if meant else "`tritonserver --help` lists the options.",
    )


STARTS.row(
    "option-without-value",
    "option '--{option:word}' requires an argument",
    what="The option --{option} needs a value.",
    where="--{option}",
    todo="Write --{option}=VALUE.",
)


_GPU_AND_BYTES = "GPU:BYTES, e.g. 0:67108864"
_RESTRICTED = "PROTOCOLS:HEADER=VALUE, e.g. model-repository,shared-memory:admin-key=a-secret"
#: What the options of tritonserver 24.10 may have that are neither bools nor numbers.
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


@STARTS.rule("bad-option-value", 'Bad option: "--{option}".\n{words:rest}')
def bad_option_value(log: str, said: Said) -> Advice:
    """Write a value that the option may have."""
    option = said["option"]
    words = said["words"].strip().rstrip(".")
    # Where only the number in a value is wrong, the whole form says where it stands.
    form = "true or false" if "bool" in words else _FORMS.get(option, "a whole number")
    return Advice(
        f"The option --{option} cannot have this value: {words}.", f"--{option}", f"Write {form}."
    )


STARTS.row(
    "load-needs-explicit",
    "Use of '--load-model' requires setting",
    what="Models can be named at the start in explicit mode only.",
    where="--load-model",
    todo='Use control="explicit" (--control explicit); the other modes load what the repository '
    "holds.",
)


@STARTS.rule(
    "bad-certificate",
    "Invalid cert chain file",
    "Invalid private key",
    "Socket '{address:word}:0' already in use",  # port 0 is any free port, so it is the TLS files
)
def bad_certificate(log: str, said: Said) -> Advice:
    """Give PEM files that exist and belong together."""
    files = [
        file
        for file, words in {"cert": "Invalid cert chain", "key": "Invalid private key"}.items()
        if words in log
    ] or ["cert", "key"]  # the server may end before gRPC has written which file it is
    return Advice(
        f"The TLS {' or '.join(files)} cannot be read (a log that speaks of a port in use does not "
        "give the reason).",
        ", ".join(f"--grpc-server-{file}" for file in files),
        "Give PEM files that exist; cert and key must belong together.",
    )


_PORTS = (
    "Stop the other server (`workbook stop`), or give other ports (--http-port, --grpc-port, "
    "--metrics-port)."
)
STARTS.row(
    "port-taken",
    "Socket '{address}' already in use",
    what="The address {address} is in use already.",
    where="{address}",
    todo=_PORTS,
)
STARTS.row(
    "port-taken",
    "failed to start {service:word} service: Unavailable",
    what="The address of a service is in use already.",
    todo=_PORTS,
)
STARTS.row(
    "no-repository",
    "creating server: Internal - failed to stat file {path:word}",
    'tritonserver.cc:{line:int}] "Internal: failed to stat file {path:word}',
    what="There is no model repository {path}.",
    where="{path}",
    todo="Give --repository a folder that holds one folder per model.",
)
STARTS.row(
    "no-cache",
    "unable to find 'libtritoncache_{name:word}.so' for cache",
    what="This server has no response cache called {name}.",
    where="--cache-config",
    todo="Use the local one (cache=BYTES, --cache-config=local,size=BYTES); redis comes with "
    "NVIDIA's container.",
)
STARTS.row(
    "cache-size",
    "Failed to initialize LocalCache: {words:rest}",
    what="The server cannot have a response cache of this size.",
    where="--cache-config",
    todo="Give a positive number of bytes that fits into memory, e.g. 67108864.",
)
STARTS.row(
    "cache-size",
    "found multiple cache configurations",
    what="Two response caches are configured, and the server takes one.",
    where="--cache-config",
    todo="Give cache=BYTES or --cache-config, not both.",
)


@STARTS.rule("bad-option", "\nerror: {words:rest}", "\nError: {words:rest}")
def bad_option(log: str, said: Said) -> Advice | None:
    """Correct the option that it names."""
    if "NVML" in said["words"]:  # printed at every start without a GPU
        return None
    return Advice(
        f"The server does not start with these options: {said['words'].strip()}.",
        "",
        "Mend the option that it names.",
    )
