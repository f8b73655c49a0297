"""Where do requests spend their time? Per model: rate, failures, batch size; ms of each part.

    python bottleneck.py [SECONDS]

As Prometheus does, it reads Triton's counters twice. What they grew by tells the rest.
"""

import os
import sys
import time

import pandas as pd
import requests
from prometheus_client.parser import text_string_to_metric_families

ADDRESS = os.environ.get("TRITON_METRICS", "localhost:8002")


def counters():
    rows = []
    text = requests.get(f"http://{ADDRESS}/metrics", timeout=10).text
    for family in text_string_to_metric_families(text):
        for sample in family.samples if family.type == "counter" else ():
            name = sample.name.removeprefix("nv_inference_").removesuffix("_total")
            rows.append((sample.labels.get("model"), name, sample.value))
    table = pd.DataFrame(rows, columns=["model", "name", "value"])
    return table.pivot_table("value", "model", "name", aggfunc="sum")


def main(seconds="10"):
    before = counters()
    time.sleep(float(seconds))
    grown = counters() - before
    count = grown["request_success"]
    table = pd.DataFrame({"per second": count / float(seconds), "failed": grown["request_failure"]})
    table["batch"] = grown["count"] / grown["exec_count"]
    for part in ("queue", "compute_input", "compute_infer", "compute_output"):
        table[part] = grown[f"{part}_duration_us"] / count / 1000
    print(table[count > 0].round(1).reset_index().to_string(index=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
