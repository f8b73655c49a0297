"""wrk, the light HTTP client: it leaves the cores to the servers that it measures."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from workbook.common.errors import WorkbookError

_SCRIPT = """\
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = os.getenv("WRK_BODY")
"""


def check() -> None:
    """Raise a WorkbookError that says how to get wrk, if it is missing."""
    if shutil.which("wrk") is None:
        raise WorkbookError(
            "The HTTP benchmarks need the load generator wrk, which is not installed.",
            todo="Debian or Ubuntu: `apt-get install wrk`. macOS: `brew install wrk`. "
            "Without it: `workbook bench cnn start memory`.",
        )


def requests_per_second(url: str, body: str, *, connections: int, seconds: float) -> float:
    """POST `body` to `url` over several connections; each waits for its answer.

    Args:
        body: what to send; "" makes it a GET.
        seconds: how long; wrk takes whole seconds, so it is rounded up.

    Returns:
        Answered requests per second.

    Raises:
        WorkbookError: wrk is missing, or any answer was not a success.
    """
    check()
    with tempfile.TemporaryDirectory(prefix="wrk-") as scratch:
        script = Path(scratch) / "post.lua"
        script.write_text(_SCRIPT)
        posts = ["-s", str(script)] if body else []
        done = subprocess.run(
            ["wrk", "-t1", f"-c{connections}", f"-d{-(-seconds // 1):.0f}s",
             "--timeout", "10s", *posts, url],
            env={**os.environ, "WRK_BODY": body},
            capture_output=True,
            text=True,
            timeout=seconds + 60,
            check=False,
        )  # fmt: skip
    rate = re.search(r"^Requests/sec:\s+([\d.]+)", done.stdout, re.MULTILINE)
    bad = re.search(r"^\s*(Non-2xx.*|Socket errors:.*)$", done.stdout, re.MULTILINE)
    if rate is None or bad is not None or float(rate[1]) == 0:
        words = bad[1] if bad else (done.stderr or done.stdout).strip()
        raise WorkbookError(
            f"wrk could not measure: {words}",
            where=url,
            todo="Send the same request once with curl to see what the service answers.",
        )
    return float(rate[1])
