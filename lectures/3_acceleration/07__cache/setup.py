"""For 07__cache: the networks' files, premises, traffic for the scoreboard, redis, mistakes."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from workbook import measure
from workbook.common.errors import ServerError
from workbook.lessons import formats
from workbook.lessons import mistakes as made
from workbook.lessons.premises import Premise, steady
from workbook.lessons.shared import thumbnail
from workbook.server import Triton, assemble

_REQUESTS, _DIFFERENT, _CLIENTS = 400, 10_000, 8


def prepare(models: Path) -> None:
    """Write the network beside its program, a model that takes every 16th pixel, and pictures."""
    formats.save_torchscript(models / "batched/1/model.pt")
    np.save(models / "pictures.npy", formats.pictures())
    thumbnail.save(models / "thumbnail/1/model.onnx")


def fresh(hits: Sequence[int], repeated: Sequence[float]) -> Premise:
    """Premise: the cache knew no picture of the four traffics before they were sent."""
    for found, share in zip(hits, repeated, strict=False):
        most = round(share / 100 * _REQUESTS)
        if found > most:
            return Premise(
                False,
                f"{found} requests were hits, and only {most} pictures came twice; run the cell "
                "that makes the traffic first",
            )
    return Premise(True, "")


def alike(runs: pd.DataFrame) -> Premise:
    """Premise: without a cache, the five runs were about as fast."""
    return steady(runs["before"], 1.8)


def repeats(*measured: Sequence[float]) -> Premise:
    """Premise: of each measurement, the two fastest repetitions agree."""
    for each in measured:
        first, second, *_ = sorted(each)
        if not (found := steady([first, second], 2)):
            return found
    return Premise(True, "")


def zipf_traffic(server: Triton, model: str) -> dict[str, float]:
    """Eight clients send 400 pictures by Zipf's law, s = 1; the pictures are new in each call."""
    weights = 1 / np.arange(1.0, _DIFFERENT + 1)
    numbers = np.random.default_rng(1).choice(_DIFFERENT, _REQUESTS, p=weights / weights.sum())
    edition, steps = np.random.default_rng().random(), []
    for number in numbers:
        picture = formats.pictures()[number % 200].copy()
        picture[0, 0, :2] = edition, number / _DIFFERENT
        steps.append({"image": {"b64": base64.b64encode(picture.tobytes()).decode()}})
    with tempfile.TemporaryDirectory(prefix="zipf-") as scratch:
        file = Path(scratch) / "traffic.json"
        file.write_text(json.dumps({"data": steps}), "utf-8")
        found = measure.perf(
            server,
            model,
            concurrency=_CLIENTS,
            input_data=str(file),
            options=["--request-count", str(_REQUESTS)],
        ).iloc[0]
    # perf_analyzer divides this number of requests by whole seconds: Little's law is exact.
    return {
        "throughput": _CLIENTS / float(found["mean_ms"]) * 1000,
        "p50_ms": float(found["p50_ms"]),
        "p99_ms": float(found["p99_ms"]),
    }


def redis() -> None:
    """Start another Triton with the cache `redis`, and print what it says."""
    installed = assemble.find().caches
    with tempfile.TemporaryDirectory(prefix="redis-cache-") as empty:
        words = [
            f"--cache-directory={installed}",
            "--cache-config=redis,host=localhost",
            "--cache-config=redis,port=6390",
        ]
        if (installed / "redis").is_dir():
            print("The library is there. With a redis at port 6390, these options use it:")
            print(*words[1:], sep="\n")
            return
        other = Triton(Path(empty), cache=0, options=words)
        try:
            with other:
                print("Triton started with the cache redis.")
        except ServerError as error:
            print("Triton without the library:", made.shown(error.what))
            print("The library is in NVIDIA's container: docker/gpu/compose.yaml.")


def mistakes(server: Triton) -> made.Results:
    """Switch the cache on where it cannot be, and misspell its field."""

    def add(text: str) -> made.Change:
        def change(home: Path) -> str:
            file = home / "config.pbtxt"
            config = file.read_text("utf-8").replace("dynamic_batching { }\n", "")
            file.write_text(config + text, "utf-8")
            return text.replace("\n", " ").strip()

        return change

    return made.provoke(
        server,
        "kept",
        {
            "a cache on a decoupled model": add("model_transaction_policy { decoupled: true }\n"),
            "a cache on a sequence model": add("sequence_batching { }\n"),
            "a misspelt field": made.config("enable: true", "enabled: true"),
        },
    )
