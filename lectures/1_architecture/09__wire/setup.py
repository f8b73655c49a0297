"""For 09__wire: a repository, and a tap that counts bytes.

models = setup.models()                      # a repository: digits_onnx, square and nap
server = laboratory(models)
with setup.tapped(http, server) as (tap, client):
    client.is_server_live()
    print(tap.sent)
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from tritonclient import grpc

from workbook import measure, zoo
from workbook.lessons.files import place
from workbook.lessons.workspace import folder
from workbook.server import Server

#: Models of the shared repository that the notebook asks.
SHARED = ("digits_onnx", "square")


def models() -> Path:
    """Make a fresh model repository: copies of two shared models, and `nap`, which sleeps.

    Returns:
        Its path, relative to the notebook.

    Example:
        server = laboratory(setup.models())
    """
    home = copy_shared(folder("wire"))
    place(home, Path(__file__).parent / "models/nap")
    return home


def copy_shared(home: Path) -> Path:
    """Copy the shared models that the notebook asks into a repository, and return it.

    Args:
        home: the repository's folder.

    Raises:
        BuildError: the weights of a model could not be built.

    Example:
        server = Triton(setup.copy_shared(folder)).start()
    """
    zoo.repository.build(home, only=SHARED, bar=False)
    return home


@contextlib.contextmanager
def tapped(api: ModuleType, server: Server, **options: Any) -> Iterator[tuple[measure.Tap, Any]]:
    """Put a tap in front of a server, and give a client that sends its requests through the tap.

    Args:
        api: `tritonclient.http` or `tritonclient.grpc`.
        server: a running server.
        options: passed to the client.

    Example:
        with setup.tapped(grpc, server) as (tap, client):
            client.is_server_live()
            print(tap.sent)
    """
    url = server.grpc_url if api is grpc else server.url
    with measure.Tap(url) as tap, api.InferenceServerClient(tap.address, **options) as client:
        yield tap, client


def idle_bytes(server: Server, seconds: float, options: grpc.KeepAliveOptions | None) -> int:
    """Count the bytes that an idle gRPC connection sends.

    Args:
        server: a running server.
        seconds: the time without requests.
        options: of the client; None for its defaults.

    Example:
        setup.idle_bytes(server, 3, None)      # 0
    """
    with tapped(grpc, server, keepalive_options=options) as (tap, client):
        client.is_server_live()
        time.sleep(0.5)
        tap.reset()
        time.sleep(seconds)
        return tap.sent
