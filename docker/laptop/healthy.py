"""The image's health check: JupyterLab answers, and so does the server of the course.

    python docker/laptop/healthy.py     # exit status 0: both answer

It asks the addresses inside the container, without a token. If TRITON_URL names another server,
that one is asked.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request

JUPYTER = "http://127.0.0.1:8888/api"
_SECONDS = 4.0  # for each answer; Docker allows 10 s for both


def faults(jupyter: str, triton: str) -> list[str]:
    """Check both addresses; return one sentence for each that does not answer.

    Args:
        jupyter: an address of JupyterLab that needs no token.
        triton: the server's HTTP address, such as http://127.0.0.1:8000.
    """
    addresses = {"JupyterLab": jupyter, "The server": f"{triton.rstrip('/')}/v2/health/ready"}
    found = []
    for name, url in addresses.items():
        try:
            with urllib.request.urlopen(url, timeout=_SECONDS):
                pass
        except (OSError, urllib.error.URLError) as error:
            found.append(f"{name} does not answer at {url}: {error}")
    return found


if __name__ == "__main__":
    triton = os.environ.get("TRITON_URL", "http://127.0.0.1:8000")
    problems = faults(os.environ.get("WORKBOOK_JUPYTER", JUPYTER), triton)
    print("\n".join(problems) or "JupyterLab and the server answer.")
    sys.exit(bool(problems))
