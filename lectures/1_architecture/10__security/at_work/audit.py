"""What can a stranger do at a Triton server? Run it where nobody should have access.

TRITON_HTTP=host:8000 TRITON_GRPC=host:8001 TRITON_METRICS=host:8002 python audit.py
"""

import os

import requests
import tritonclient.grpc as grpc

HTTP = "http://" + os.environ.get("TRITON_HTTP", "localhost:8000")
METRICS = "http://" + os.environ.get("TRITON_METRICS", "localhost:8002")
client = grpc.InferenceServerClient(os.environ.get("TRITON_GRPC", "localhost:8001"))
LIMIT = {"timeout": 5}

CHECKS = {
    "gRPC answers without TLS": lambda: client.is_server_live(client_timeout=5),
    "gRPC lists models": lambda: client.get_model_repository_index(client_timeout=5),
    "gRPC lists shared memory": lambda: client.get_system_shared_memory_status(client_timeout=5),
    "HTTP lists models": lambda: requests.post(f"{HTTP}/v2/repository/index", **LIMIT),
    "HTTP shows trace settings": lambda: requests.get(f"{HTTP}/v2/trace/setting", **LIMIT),
    "HTTP shows log settings": lambda: requests.get(f"{HTTP}/v2/logging", **LIMIT),
    "metrics are open": lambda: requests.get(f"{METRICS}/metrics", **LIMIT),
}


def is_open(check):
    try:
        answer = check()
    except Exception:  # refused, no connection, or no answer in time
        return False
    return getattr(answer, "ok", True)  # an HTTP status below 400; gRPC has no `ok`


if __name__ == "__main__":
    for what, check in CHECKS.items():
        print("OPEN  " if is_open(check) else "closed", what)
