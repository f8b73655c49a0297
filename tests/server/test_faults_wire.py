"""The server refuses or ignores bytes that are no request, by HTTP and gRPC, and keeps running."""

from __future__ import annotations

import contextlib
import errno
import random
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import pytest
from fault_models import KINDS, ask, descriptors, until, write

from workbook.server import Triton, run_folders

pytestmark = pytest.mark.server

NOISE = random.Random(0).randbytes(4096)
INFER = b"POST /v2/models/m0/infer HTTP/1.1\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A server with the model m0. At the end it has no more open than at the beginning."""
    repository = tmp_path_factory.mktemp("models")
    write(repository, "m0")
    with Triton(repository, models=["m0"]) as triton:
        is_well(triton)
        before = descriptors(triton)
        yield triton
        until(lambda: descriptors(triton) <= before + 4, "the connections are closed")


def is_well(server: Triton) -> None:
    """Check that the next requests get correct answers."""
    assert [ask(server, "m0", [1.0], kind) for kind in KINDS] == [True, True]


def answer_to(address: str, sent: bytes) -> bytes:
    """Send bytes and nothing more; return all that the server answers until it disconnects."""
    host, _, port = address.rpartition(":")
    got = b""
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(1 << 16):
                got += part
        except OSError as error:
            # The server may have closed before it read everything; then there is nothing to shut
            # down.
            if error.errno not in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN):
                raise
    return got


#: Name → the bytes sent over HTTP, and the status of the answer; 0 if there is no answer.
HTTP = {
    "noise": (NOISE, 0),
    "zeros": (bytes(1000), 0),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + NOISE[:500], 0),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0),
    "no path": (b"GET\r\n\r\n", 0),
    "unknown method": (b"FOO /v2 HTTP/1.1\r\n\r\n", 405),
    "a path of 200,000 letters": (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n", 0),
    "a path that is no UTF-8": (b"GET /v2/models/\xff\xfe/ready HTTP/1.1\r\n\r\n", 404),
    "half a head": (b"POST /v2/mod", 0),
    "half a body": (INFER + b'Content-Length: 1000\r\n\r\n{"inp', 0),
    "no length": (INFER + b"\r\n{}", 500),
    "a length below 0": (INFER + b"Content-Length: -5\r\n\r\n{}", 0),
    "a length of 10^20": (INFER + b"Content-Length: 99999999999999999999\r\n\r\n{}", 0),
    "a length of 64 GiB": (INFER + b"Content-Length: 68719476736\r\n\r\n{}", 0),
    "two lengths": (INFER + b"Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}", 0),
    "a chunk of no length": (INFER + b"Transfer-Encoding: chunked\r\n\r\nZZZ\r\nab\r\n", 0),
    "a chunk of 2^64": (INFER + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\na\r\n", 0),
    "JSON longer than the body": (
        INFER + b"Content-Length: 2\r\nInference-Header-Content-Length: 999\r\n\r\n{}",
        400,
    ),
    "JSON of a length below 0": (
        INFER + b"Content-Length: 2\r\nInference-Header-Content-Length: -1\r\n\r\n{}",
        400,
    ),
    "10,000 lists in each other": (INFER + b"Content-Length: 10000\r\n\r\n" + b"[" * 10_000, 500),
}


@pytest.mark.parametrize("case", HTTP)
def test_bytes_that_are_no_http_request(server: Triton, case: str) -> None:
    sent, status = HTTP[case]
    answer = answer_to(urlsplit(server.url).netloc, sent)
    assert int(answer.split()[1] if answer else 0) == status, answer[:200]
    is_well(server)


def frame(kind: int, stream: int, payload: bytes, *, flags: int = 0, length: int = -1) -> bytes:
    """A frame of HTTP/2 (RFC 9113, 4.1); `length` puts a wrong length into its header."""
    size = struct.pack(">I", len(payload) if length < 0 else length)[1:]
    return size + bytes([kind, flags]) + struct.pack(">I", stream) + payload


DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
BEGIN = PREFACE + frame(SETTINGS, 0, b"")
HTTP_2 = {
    "noise": NOISE,
    "HTTP/1": b"GET / HTTP/1.1\r\n\r\n",
    "noise after the preface": PREFACE + NOISE,
    "settings of a wrong length": PREFACE + frame(SETTINGS, 0, b"abc"),
    "a frame shorter than it says": BEGIN + frame(DATA, 1, b"abc", length=0xFFFFFF),
    "data of no request": BEGIN + frame(DATA, 1, b"abc"),
    "headers of noise": BEGIN + frame(HEADERS, 1, NOISE[:200], flags=4),
    "a stream that a client may not open": BEGIN + frame(HEADERS, 2, b"\x82", flags=4),
    "an end of no stream": BEGIN + frame(RST_STREAM, 7, b"\0\0\0\1"),
    "a continuation of nothing": BEGIN + frame(CONTINUATION, 1, b"\x82", flags=4),
    "a window of 0": BEGIN + frame(WINDOW_UPDATE, 0, bytes(4)),
    "half a frame": BEGIN + b"\0\0",
    "10,000 pings": BEGIN + frame(PING, 0, b"12345678") * 10_000,
}


@pytest.mark.parametrize("case", HTTP_2)
def test_bytes_that_are_no_grpc(server: Triton, case: str) -> None:
    answer_to(server.grpc_url, HTTP_2[case])
    is_well(server)


#: Damaged messages: fields that are longer than the message, and nested messages.
MESSAGES = (NOISE[:300], b"\x0a\x05m", b"\x0a\xff\xff\xff\xff\x0f", b"\x2a\x80\x01" + b"\x2a" * 10)


@pytest.mark.parametrize("method", ["ModelInfer", "RepositoryModelLoad", "NoSuchMethod"])
def test_grpc_messages_that_cannot_be_read(server: Triton, method: str) -> None:
    with grpc.insecure_channel(server.grpc_url) as channel:
        call = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
        for message in MESSAGES:
            with pytest.raises(grpc.RpcError) as caught:
                call(message, timeout=60)
            status = caught.value.code()  # type: ignore[attr-defined]
            expected = "UNIMPLEMENTED" if method == "NoSuchMethod" else "INTERNAL"
            assert status.name == expected
    is_well(server)


HUGE = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[4611686018427387904],"data":[1]}]}'
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
ENDS_IT = {
    "a million lists in each other": b"Content-Length: 1000000\r\n\r\n" + b"[" * 1_000_000,
    "a shape of 2^62 numbers": b"Content-Length: %d\r\n\r\n" % len(HUGE) + HUGE,
    "a million chunks": CHUNKED + b"1\r\n \r\n" * 1_000_000 + b"0\r\n\r\n",
}


def test_requests_that_end_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults of Triton 24.10. The guard starts it again."""
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    write(tmp_path / "models", "m0")
    with Triton(tmp_path / "models").start(remember=True) as server:
        server.load("m0")
        record = run_folders.current()
        assert record is not None
        for sent in ENDS_IT.values():
            before = record.process()
            # A server that sees the end of the connection first does not read the request.
            for _ in range(5):
                answer_to(urlsplit(server.url).netloc, INFER + sent)
                with contextlib.suppress(AssertionError):
                    until(lambda: record.process() != before, "it has ended", seconds=10)  # noqa: B023
                    break
            until(lambda: record.process() != before and record.is_listening(), "started again")  # noqa: B023
            until(lambda: server.ready("m0"), "its model is loaded again")
            is_well(server)
        signals = r"signal (?:6 \(SIGABRT\)|11 \(SIGSEGV\))"
        ends = re.findall(rf"{signals}, at \S+\. It is started again", server.log_text())
        assert len(ends) == len(ENDS_IT)
