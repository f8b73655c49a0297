"""How many instances does a model need? python instances.py MODEL COUNT...

Loads the model with each count, keeps eight requests under way with perf_analyzer, and prints what
the server counted. Afterwards the model is as its config.pbtxt says. For mode explicit.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile

import psutil
import tritonclient.http as http

model, counts = sys.argv[1], [int(word) for word in sys.argv[2:]]
client = http.InferenceServerClient(os.environ.get("TRITON_HTTP", "localhost:8000"))
grpc = os.environ.get("TRITON_GRPC", "localhost:8001")
config = client.get_model_config(model)
print("instances   per s   p99 ms   queue ms   compute ms   private MB")
try:
    for count in counts:
        config["instance_group"][0]["count"] = count
        client.load_model(model, config=json.dumps(config))
        with tempfile.NamedTemporaryFile(suffix=".csv") as report:
            load = f"-m {model} -i grpc -u {grpc} --concurrency-range 8 --input-data zero"
            windows = f"-p 500 -s 1000 -r 5 -f {report.name}"
            subprocess.run(
                ["perf_analyzer", *load.split(), *windows.split()],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            row = next(csv.DictReader(report.read().decode().splitlines()))
        ms = [float(row[k]) / 1000 for k in ("p99 latency", "Server Queue", "Server Compute Infer")]
        every = psutil.process_iter(["cmdline"])
        mine = [p for p in every if f"/{model}/1/model.py" in " ".join(p.info["cmdline"] or [])]
        private = sum(process.memory_full_info().uss for process in mine) / 1e6  # if it is local
        rate = float(row["Inferences/Second"])
        print(f"{count:9} {rate:7.0f} {ms[0]:8.1f} {ms[1]:10.1f} {ms[2]:12.1f} {private:12.0f}")
finally:
    client.load_model(model)
