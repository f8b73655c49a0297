"""How long a second `make lab` takes, when everything is built already."""

from __future__ import annotations

import socket
import statistics
import subprocess

from workbook.common import paths
from workbook.server import fleet

from .settings import Settings
from .start import seconds_until_ready
from .tables import Goal, Section


def measure(settings: Settings) -> Section:
    """`make lab` until the server answers, and until every demonstration model does."""
    root = paths.root()
    models = fleet.names(paths.repository())
    server: list[float] = []
    everything: list[float] = []
    for number in range(min(settings.rounds, 3)):
        settings.say(f"make lab {number + 1}")
        for ready, times in ((list[str](), server), (models, everything)):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            options = f"--port 8899 --http-port {port} --grpc-port 0 --metrics-port 0"
            command = ["make", "lab", "BROWSER=no", f"OPTIONS={options}"]
            url = f"http://localhost:{port}"
            times.append(seconds_until_ready(command, url, cwd=root, models=ready))
            subprocess.run([root / ".venv/bin/workbook", "stop"], check=False, capture_output=True)
    answers, all_ready = statistics.median(server), statistics.median(everything)
    return Section(
        "lab",
        "A second make lab",
        f"Medians of {len(server)}; the slowest in brackets. Everything was built before.",
        ("", "seconds"),
        [
            ("the server answers", f"{answers:.1f} ({max(server):.1f})"),
            (f"all {len(models)} models answer", f"{all_ready:.1f} ({max(everything):.1f})"),
        ],
        [
            Goal("make lab: the server is ready", answers, 15.0, "s", at_most=True),
            Goal("make lab: every model is ready", all_ready, 15.0, "s", at_most=True),
        ],
    )
