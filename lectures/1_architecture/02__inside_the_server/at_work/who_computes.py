"""Which model uses this machine? What each model of a server computed, and how long it waited.

    python who_computes.py [SECONDS]

With SECONDS, what happens in that time. Without, the sums since each model was loaded.
"""

import os
import sys
import time

import tritonclient.http as http


def totals(client):
    """Model → requests, seconds in the queue, seconds of computation, answers from the cache."""
    found = {}
    for model in client.get_inference_statistics()["model_stats"]:
        sums = model["inference_stats"]
        requests, cached = sums["success"]["count"], sums["cache_hit"]["count"]
        busy = sum(batch["compute_infer"]["ns"] for batch in model["batch_stats"])
        name = f"{model['name']}:{model['version']}"
        found[name] = requests, sums["queue"]["ns"] / 1e9, busy / 1e9, cached
    return found


def main(seconds="0"):
    client = http.InferenceServerClient(os.environ.get("TRITON_HTTP", "localhost:8000"))
    before = totals(client) if float(seconds) else {}
    time.sleep(float(seconds))
    print("model            requests  queue s  compute s  cached")
    for name, sums in sorted(totals(client).items(), key=lambda item: -item[1][2]):
        row = [new - old for new, old in zip(sums, before.get(name, (0, 0, 0, 0)))]
        print("{:16} {:8} {:8.2f} {:10.2f} {:7}".format(name, *row))


if __name__ == "__main__":
    main(*sys.argv[1:])
