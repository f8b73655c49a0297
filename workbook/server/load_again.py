"""Load a model again whose process has ended by itself.

The guard (guard.py) starts `python load_again.py ORDERS.json FOLDER HOW TIMES`: how the process has
ended, and how many processes of the model have ended in the last minute. It writes both into the
server's log. The folders of the model's versions get a new modification time: Triton then takes the
model for a changed one, starts a new instance beside the ended one, and removes that. (A load of an
unchanged model does nothing.)

The model is not loaded if somebody has unloaded it, or if it ends too often. In the control mode
"poll" Triton loads it at its next look at the repository; in the mode "none" it cannot be loaded.

It uses the standard library only, so that it starts in milliseconds.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

MOST = 3  # times a minute
MODE = "--model-control-mode="
NOT_AGAIN = "Not loaded again: "  # and a model's name, and why


def main() -> None:
    """Load the model, or write into the log why that is not possible."""
    orders = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    folder, how, times = Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    name = folder.name
    mode = next(word[len(MODE) :] for word in orders["argv"] if word.startswith(MODE))
    try:
        index = post(orders["url"], "index") or []
        if "READY" not in {entry.get("state") for entry in index if entry["name"] == name}:
            return  # somebody has unloaded it
        ended = f"The process of model '{name}' has ended: {how}."
        print(f"{time.strftime('%H:%M:%S')} {ended}", flush=True)
        why = load(folder, mode, orders["url"], times)
    except urllib.error.HTTPError as error:
        why = json.load(error)["error"]
    except OSError as error:  # the folder cannot be written, or the server has ended
        why = str(error)
    if why:
        print(f"{NOT_AGAIN}{name}: {' '.join(why.split())}")


def load(folder: Path, mode: str, url: str, times: int) -> str:
    """Load the model; returns why it may not be loaded, or `""`."""
    if mode == "none":
        return 'with model control mode "none" this needs a new start of the server.'
    if times > MOST:
        return f"its process has ended {times} times in a minute."
    for version in folder.iterdir():
        if version.name.isdecimal():
            os.utime(version)
    if mode == "explicit":
        post(url, f"models/{urllib.parse.quote(folder.name, safe='')}/load")
    return ""


def post(url: str, what: str) -> Any:
    """Send an empty request to the repository API; returns its answer, None if that is empty."""
    request = urllib.request.Request(f"{url}/v2/repository/{what}", data=b"", method="POST")
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request) as answer:
        return json.loads(answer.read() or b"null")


if __name__ == "__main__":
    main()
