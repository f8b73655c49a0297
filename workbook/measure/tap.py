"""`Tap`: a TCP relay that counts the bytes and connections between a client and a server."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from types import TracebackType
from typing import Any, Self

KEPT = 1 << 20  # bytes of the traffic that are kept


class Tap:
    """A TCP relay on this machine: it passes on what a client and a server send, and counts it.

    Example:
        with measure.Tap(server.url) as tap:
            client = tritonclient.http.InferenceServerClient(tap.address)
            client.infer("square", inputs)
        print(tap.sent, tap.received, tap.connections)

    Args:
        target: the server's address, as `host:port` or `http://host:port`.

    Attributes:
        address: `localhost:port`, to give to the client in place of the server's address.
        sent: bytes from clients to the server, since the last `reset`.
        received: bytes from the server to clients.
        connections: connections that clients opened.
        traffic: the first mebibyte of the traffic, both directions mixed.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition("/")[2].rpartition(":")
        self._target = (host, int(port))
        self._lock = threading.Lock()
        self.reset()
        tap = self

        class Relay(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                tap._relay(self.request)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Relay)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.address = f"localhost:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def reset(self) -> None:
        """Set all counts to zero and forget the recorded traffic."""
        with self._lock:
            self.sent = self.received = self.connections = 0
            self.traffic = b""

    def close(self) -> None:
        """Accept no more connections; open ones stay until their client closes them."""
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _relay(self, client: Any) -> None:
        with self._lock:
            self.connections += 1
        with socket.create_connection(self._target) as server:
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            back = threading.Thread(target=self._pump, args=(server, client, False), daemon=True)
            back.start()
            self._pump(client, server, True)
            back.join()

    def _pump(self, source: socket.socket, sink: socket.socket, sending: bool) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(1 << 16):
                with self._lock:
                    self.sent += len(chunk) * sending
                    self.received += len(chunk) * (not sending)
                    self.traffic += chunk[: KEPT - len(self.traffic)]
                sink.sendall(chunk)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
