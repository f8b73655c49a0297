"""How many bytes does a program send to Triton, and over how many connections?

    python count_bytes.py COMMAND…

The command runs with TRITON_HTTP set to a relay, which passes everything on to the server.
"""

import contextlib
import os
import socket
import socketserver
import subprocess
import sys
import threading
from collections import Counter

SERVER = os.environ.get("TRITON_HTTP", "localhost:8000")
counts = Counter()


class Relay(socketserver.BaseRequestHandler):
    def handle(self):
        counts["connections"] += 1
        host, port = SERVER.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as server:
            back = (server, self.request, "bytes received")
            threading.Thread(target=self.copy, args=back, daemon=True).start()
            self.copy(self.request, server, "bytes sent")

    def copy(self, source, sink, name):
        with contextlib.suppress(OSError):
            while chunk := source.recv(1 << 16):
                counts[name] += len(chunk)
                sink.sendall(chunk)


def main(*command):
    relay = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Relay)
    relay.daemon_threads = True
    threading.Thread(target=relay.serve_forever, daemon=True).start()
    address = f"localhost:{relay.server_address[1]}"
    subprocess.run(command, env={**os.environ, "TRITON_HTTP": address}, check=True)
    print(dict(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
