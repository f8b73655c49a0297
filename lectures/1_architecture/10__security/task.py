"""The task of `10__security`: TLS and a restricted API in front of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
from tritonclient import grpc

import setup
from workbook.lessons.shared import digits_model
from workbook.lessons.tasks import NotYet, define
from workbook.server import Server

#: The header that opens the repository's API, and its value.
HEADER, WORD = "admin-key", "two-eights"


def start(folder: Path) -> Server:
    """Start a server that is open for everybody, with an empty folder."""
    return setup.Door(folder).restart()


@define(
    "security.door",
    hints=(
        "A server needs a key and a certificate that names it, and its clients need the "
        "certificate of the authority that signed it. The section on certificates makes all three.",
        "Run the openssl lines of that section in the folder `own`. Then restart with the three "
        "options of `tls`, but with files of `own`.",
        "HTTP and gRPC have an option each: `--http-restricted-api` and "
        "`--grpc-restricted-protocol`, both with the value "
        "`model-repository:admin-key=two-eights`.",
    ),
)
def door(server: setup.Door) -> None:
    """Make a certificate in the folder `own`, and restart the server so that gRPC wants TLS and
    the repository's API wants the header `admin-key: two-eights`, over HTTP and over gRPC."""
    if setup.reach(server.grpc_url) == "yes":
        raise NotYet("A client without TLS gets an answer over gRPC.")
    root = server.papers / "root.pem"
    if not root.is_file():
        raise NotYet(
            "There is no root.pem in the folder `own`: which authority shall clients trust?"
        )
    trust: dict[str, Any] = {"ssl": True, "root_certificates": str(root)}
    if (answer := setup.reach(server.grpc_url, **trust)) != "yes":
        raise NotYet(f"A client that trusts root.pem gets no answer over TLS ({answer}).")
    with grpc.InferenceServerClient(server.grpc_url, **trust) as client:
        setup.read_digit(
            client, digits_model.pictures()[:1]
        )  # inference stays open for clients with TLS
    if setup.lists(server.grpc_url, **trust):
        raise NotYet("Over gRPC the repository's index opens without the header.")
    key = {f"triton-grpc-protocol-{HEADER}": WORD}
    if not setup.lists(server.grpc_url, headers=key, **trust):
        raise NotYet(f"Over gRPC the index stays closed with {HEADER}: {WORD}.")
    index = f"{server.url}/v2/repository/index"
    if httpx.post(index).status_code == 200:
        raise NotYet("Over HTTP the repository's index opens without the header.")
    if httpx.post(index, headers={HEADER: WORD}).status_code != 200:
        raise NotYet(f"Over HTTP the index stays closed with {HEADER}: {WORD}.")
