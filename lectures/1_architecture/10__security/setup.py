"""For 10__security: certificates, a listener on the wire, and a server to protect.

papers = setup.papers("security")
setup.openssl(papers, "version")
wire = setup.listen(server, picture)             # the bytes on the wire for one request
setup.reach("localhost:8001", ssl=True)       # "no: UNAVAILABLE"
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # no log of refused connections; read at import

import numpy as np
import numpy.typing as npt
from tritonclient import grpc
from tritonclient.utils import InferenceServerException

from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.lessons.workspace import folder
from workbook.measure import Tap
from workbook.server import Server, Triton

MODEL = "digits_onnx"
#: Arguments of `openssl req` for a new key; the key's file follows.
NEW_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout"
SECONDS = 5  # how long a client waits for an answer


def papers(name: str) -> Path:
    """Make a fresh folder for keys and certificates; returns its absolute path.

    Args:
        name: small letters, digits, dots and underscores.

    Example:
        papers = setup.papers("security")
    """
    return folder(name).resolve()


def openssl(where: Path, line: str) -> None:
    """Run openssl in a folder.

    Args:
        where: the folder.
        line: its arguments, with spaces between them; NEW_KEY stands for the arguments for a key.

    Raises:
        WorkbookError: there is no openssl, or it failed.

    Example:
        setup.openssl(papers, "x509 -in server.pem -noout -subject")
    """
    words = line.replace("NEW_KEY", NEW_KEY).split()
    try:
        subprocess.run(["openssl", *words], cwd=where, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise WorkbookError(
            "The program openssl is missing.", todo="Debian, Ubuntu: sudo apt install openssl."
        ) from None
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or ["it printed nothing"]
        raise WorkbookError(
            f"openssl failed: {lines[-1]}", where=f"openssl {line}", todo="Look at the arguments."
        ) from None


def read_digit(client: grpc.InferenceServerClient, picture: npt.NDArray[np.float32]) -> int:
    """Ask digits_onnx for the digit in a picture, over gRPC.

    Args:
        client: connected to the server.
        picture: an array (1, 1, 8, 8).

    Raises:
        InferenceServerException: the server did not answer in time, or refused.

    Example:
        setup.read_digit(client, digits_model.pictures()[:1])
    """
    tensor = grpc.InferInput("image", picture.shape, "FP32").set_data_from_numpy(picture)
    answer = client.infer(MODEL, [tensor], client_timeout=SECONDS)
    return int(answer.as_numpy("logits").argmax())


def read_digit_once(address: str, picture: npt.NDArray[np.float32], **options: Any) -> int:
    """Ask for the digit in a picture, through a new connection that is closed afterwards.

    Args:
        address: host and port of the gRPC endpoint.
        picture: an array (1, 1, 8, 8).
        options: of the client, e.g. for TLS.

    Example:
        setup.read_digit_once(server.grpc_url, digits_model.pictures()[:1])
    """
    with grpc.InferenceServerClient(address, **options) as client:
        return read_digit(client, picture)


def listen(server: Server, picture: npt.NDArray[np.float32], **options: Any) -> bytes:
    """Return the bytes on the wire when a client asks for the digit in a picture.

    Args:
        server: a running server with digits_onnx.
        picture: an array (1, 1, 8, 8).
        options: of the gRPC client, e.g. for TLS.

    Example:
        b"digits_onnx" in setup.listen(server, picture)      # True
    """
    with Tap(server.grpc_url) as tap, grpc.InferenceServerClient(tap.address, **options) as client:
        read_digit(client, picture)
        return tap.traffic


def reach(address: str, *, headers: Mapping[str, str] | None = None, **options: Any) -> str:
    """Return whether a gRPC client gets an answer: "yes", or "no: " and gRPC's status.

    Args:
        address: host and port.
        headers: sent with the request.
        options: of the client, e.g. for TLS.

    Example:
        setup.reach(server.grpc_url)      # "yes"
    """
    with grpc.InferenceServerClient(address, **options) as client:
        try:
            alive = client.is_server_live(headers=dict(headers or {}), client_timeout=SECONDS)
        except InferenceServerException as error:
            return f"no: {str(error.status()).rpartition('.')[2]}"
    return "yes" if alive else "no"


def lists(address: str, *, headers: Mapping[str, str] | None = None, **options: Any) -> bool:
    """Return whether a gRPC client may read the list of models.

    Args:
        address: host and port.
        headers: sent with the request.
        options: of the client, e.g. for TLS.

    Example:
        setup.lists(server.grpc_url)      # True
    """
    with grpc.InferenceServerClient(address, **options) as client:
        try:
            client.get_model_repository_index(headers=dict(headers or {}), client_timeout=SECONDS)
        except InferenceServerException:
            return False
    return True


class Door(Triton):
    """A server with digits_onnx whose protection can be changed: it stops and starts again.

        door = setup.Door(papers)                        # open for everybody
        door.restart(tls={"cert": cert, "key": key})        # the same ports, gRPC over TLS

    Args:
        papers: the folder with the keys and certificates that the reader makes.

    Attributes:
        papers: this folder.
    """

    _last: Door | None = None

    def __init__(self, papers: Path) -> None:
        super().__init__(paths.repository(), models=[MODEL])
        self.papers = papers

    def restart(
        self, *, tls: Mapping[str, Path | str] | None = None, options: Sequence[str] = ()
    ) -> Self:
        """Stop the server if it runs, and start it with other settings.

        Args:
            tls: PEM files: `cert`, `key`, and `root` for mutual TLS; None for no TLS.
            options: more options of tritonserver.

        Raises:
            ServerError: it could not start.
        """
        if Door._last is not None:
            Door._last.stop()
        own = [int(url.rsplit(":", 1)[1]) for url in (self.url, self.grpc_url)]
        super().__init__(
            self.repository, models=[MODEL], http=own[0], grpc=own[1], tls=tls, options=options
        )
        Door._last = self
        self.start()
        return self
