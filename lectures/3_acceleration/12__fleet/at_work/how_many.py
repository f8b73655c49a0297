"""How many servers does an SLO need? python how_many.py LOG.csv KIND P99_SECONDS [INSTANCES]

LOG.csv is of your busiest hour: a row per request, with arrival (seconds, also of a clock), kind,
and seconds (how long a server computes it, without the queue). Each server takes all kinds in it,
and computes INSTANCES requests at a time, by default 1. fleet.py lies in the folder above.
"""

import itertools
import sys
from pathlib import Path

import pandas as pd

sys.path.append(str(Path(__file__).parents[1]))
from fleet import latency_ms, simulate

log, kind, slo = pd.read_csv(sys.argv[1]), sys.argv[2], float(sys.argv[3])
slots = int(sys.argv[4]) if len(sys.argv) > 4 else 1
log = log.sort_values("arrival", ignore_index=True)
least = log.loc[log["kind"] == kind, "seconds"].quantile(0.99)
if not least <= slo:
    sys.exit(f"p99 of {kind} is {least:.1f} s without any waiting: more servers do not help.")
hour = log["arrival"].max() - log["arrival"].min()
busy = log["seconds"].sum() / hour / slots  # servers that the work itself needs
for servers in itertools.count(int(busy) + 1):
    run = simulate(
        log["arrival"], log["seconds"], servers=servers, slots=slots, balance="least_outstanding"
    )
    found = latency_ms(run.requests)[log["kind"] == kind].quantile(0.99) / 1000
    print(f"{servers} servers: p99 of {kind} {found:.1f} s")
    if found <= slo:
        break
