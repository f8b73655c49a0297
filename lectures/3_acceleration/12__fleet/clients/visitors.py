"""Visitors of a fleet: an open loop through its proxy, at the address in TRITON_PROXY."""

import asyncio
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
from tritonclient.http import InferInput, aio
from tritonclient.utils import InferenceServerException


def proxy(file, **variables):
    """Let the running proxy read a file of the model repository, with environment variables."""
    words = ["caddy", "reload", "-c", f"{os.environ['TRITON_MODELS']}/{file}", "-a", "caddyfile"]
    words += ["--address", os.environ["TRITON_ADMIN"]]
    variables = {**os.environ, **variables}
    done = subprocess.run(words, env=variables, check=False, capture_output=True, text=True)
    assert not done.returncode, done.stderr  # the message names the line
    time.sleep(1.5)  # its checks of the servers, if it has any, are made


def visit(times, kinds, seconds, tries=1):
    """Send each request at its time, whether or not others are answered; return a table.

    Its columns: `arrival` (when it was sent), `kind`, how long it `took` the model, `error` (the
    HTTP status, "" for an answer), how `late` it was sent, and `s`, from there to the answer. If
    other programs delayed more than 2 % of the requests by 50 ms, all are sent again, as often as
    `tries` allows.
    """
    for _ in range(tries):
        with ThreadPoolExecutor(1) as pool:  # a notebook has an event loop of its own
            found = pool.submit(asyncio.run, _visit(times, kinds, seconds)).result()
        if found["late"].quantile(0.98) < 0.05:
            break
    return found


async def _visit(times, kinds, seconds):
    client, rows = aio.InferenceServerClient(os.environ["TRITON_PROXY"], conn_limit=999), []
    begin = time.perf_counter() + 0.2

    async def one(at, kind, duration):
        await asyncio.sleep(begin + at - time.perf_counter())
        sent = time.perf_counter() - begin
        x = InferInput("seconds", [1], "FP32").set_data_from_numpy(np.full(1, duration, np.float32))
        took, error = np.nan, ""
        try:
            answer = await client.infer("draw", [x], headers={"Kind": kind})
            took = answer.as_numpy("took")[0]
        except InferenceServerException as refused:
            error = refused.status()
        s = time.perf_counter() - begin - sent
        rows.append((sent, kind, took, error, sent - at, s))

    await asyncio.gather(*map(one, times, kinds, seconds))
    await client.close()
    columns = ["arrival", "kind", "took", "error", "late", "s"]
    return pd.DataFrame(rows, columns=columns).sort_values("arrival", ignore_index=True)
