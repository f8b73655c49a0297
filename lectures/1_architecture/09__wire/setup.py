"""For 09__wire: a repository, a tap that counts bytes, and regions of shared memory.

models = setup.models()                      # a repository: digits_onnx, square and nap
server = laboratory(models)
with setup.tapped(http, server) as (tap, client):
    client.is_server_live()
    print(tap.sent)
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
from tritonclient import grpc
from tritonclient.utils import shared_memory

from workbook import measure, zoo
from workbook.lessons.shared import sleeper
from workbook.lessons.workspace import folder
from workbook.server import Server

#: Models of the shared repository that the notebook asks.
SHARED = ("digits_onnx", "square")
#: Milliseconds of one execution of `nap`, for any batch size.
NAP_MS = 200


def models() -> Path:
    """Make a fresh model repository: copies of two shared models, and `nap`, which sleeps.

    Returns:
        Its path, relative to the notebook.

    Example:
        server = laboratory(setup.models())
    """
    home = copy_shared(folder("wire"))
    sleeper.add(home, "nap", "dynamic_batching { }", ms=NAP_MS)
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


def idle_bytes(server: Server, seconds: float, **keepalive: Any) -> int:
    """Count the bytes that an idle gRPC connection sends.

    Args:
        server: a running server.
        seconds: the time without requests.
        keepalive: arguments of `grpc.KeepAliveOptions`; none for the client's defaults.

    Example:
        setup.idle_bytes(server, 3)      # 0
    """
    options = grpc.KeepAliveOptions(**keepalive) if keepalive else None
    with tapped(grpc, server, keepalive_options=options) as (tap, client):
        client.is_server_live()
        time.sleep(0.5)
        tap.reset()
        time.sleep(seconds)
        return tap.sent


class Region:
    """A region of shared memory that is registered with a server.

    Args:
        client: a gRPC client.
        name: the region's name, on this machine and for the server.
        size: its bytes.
    """

    def __init__(self, client: Any, name: str, size: int) -> None:
        self.name = name
        self._handle = shared_memory.create_shared_memory_region(name, f"/{name}", size)
        client.register_system_shared_memory(name, f"/{name}", size)

    def put(self, array: npt.NDArray[Any]) -> None:
        """Copy an array into the region."""
        shared_memory.set_shared_memory_region(self._handle, [array])

    def get(self, shape: Sequence[int]) -> npt.NDArray[np.float32]:
        """Return a copy of the FP32 array in the region.

        Args:
            shape: the array's shape.
        """
        found = shared_memory.get_contents_as_numpy(self._handle, np.float32, shape)
        copy: npt.NDArray[np.float32] = found.copy()
        return copy

    def remove(self) -> None:
        """Free the region. It cannot be used after that."""
        shared_memory.destroy_shared_memory_region(self._handle)


@contextlib.contextmanager
def regions(client: Any, size: int) -> Iterator[list[Region]]:
    """Make two regions of shared memory, for an input and an output; the block's end frees them.

    Args:
        client: a gRPC client.
        size: bytes of each region.

    Example:
        with setup.regions(client, x.nbytes) as (ours, theirs):
            ours.put(x)
    """
    made: list[Region] = []
    try:
        for part in ("in", "out"):
            made.append(Region(client, f"wire-{os.getpid()}-{part}", size))
        yield made
        time.sleep(0.5)  # the server releases a region a moment after its answer
    finally:
        client.unregister_system_shared_memory()
        for region in made:
            region.remove()
