"""Run one student's server in a sandbox, and pass connections to it, and from it to the hub.

    python launch.py FOLDER [--memory BYTES] [--shared FOLDER]

`StudentSpawner` starts it, with JupyterHub's variables in its environment.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import sandbox
import typer
from forwarding import forward, listen
from inside import port

from workbook.common.errors import WorkbookError


def main(
    folder: Annotated[Path, typer.Argument(help="The student's folder; made if it is missing.")],
    memory: Annotated[int | None, typer.Option(help="Bytes for all processes together.")] = None,
    shared: Annotated[Path | None, typer.Option(help="A folder to read, as /shared.")] = None,
) -> None:
    """Run a student's server until it ends, or a signal comes."""
    try:
        # Not asyncio.run, which would wait for connections that are still open.
        code = asyncio.new_event_loop().run_until_complete(_run(folder, memory, shared))
    except WorkbookError as error:
        print(error, file=sys.stderr)
        code = 1
    sys.stderr.flush()
    os._exit(code)


async def _run(folder: Path, memory: int | None, shared: Path | None) -> int:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    with tempfile.TemporaryDirectory(prefix="workbook-hub-") as run:
        inward, outward = Path(run, "server.sock"), Path(run, "hub.sock")
        with listen(inward) as offered:
            outgoing = await forward(listen(outward), port("JUPYTERHUB_API_URL"))
            starting = sandbox.start(
                folder, offered=offered, hub=outward, memory=memory, shared=shared
            )
            with starting as process:
                incoming = await forward(listen(port("JUPYTERHUB_SERVICE_URL")), inward)
                waits = [
                    asyncio.ensure_future(asyncio.to_thread(process.wait)),
                    asyncio.ensure_future(ended.wait()),
                ]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            incoming.close()
            outgoing.close()
    return process.returncode if waits[0].done() else 0


if __name__ == "__main__":
    typer.run(main)
