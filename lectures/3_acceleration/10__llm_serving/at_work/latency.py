"""First token, gaps and throughput of a language model.   python latency.py MODEL USERS ..."""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np

URL = f"http://{os.environ.get('TRITON_HTTP', 'localhost:8000')}/v2/models/{sys.argv[1]}"
# Take your log's prompts and lengths. Each is sent once, since vLLM keeps what it has answered.
REQUESTS = [(f"Write function {number} that", (8, 56)[number % 2]) for number in range(100)]
PER_USER = 2  # requests; more of them give steadier numbers
client = httpx.Client(timeout=300)  # one for all requests: to make one takes time


def times_of(request):
    prompt, tokens = request
    sampling = json.dumps({"max_tokens": tokens, "ignore_eos": True})
    body = {"text_input": prompt, "sampling_parameters": sampling, "stream": True}
    times = [time.perf_counter()]
    with client.stream("POST", f"{URL}/generate_stream", json=body) as answer:
        for line in filter(None, answer.iter_lines()):
            if "error" in json.loads(line.removeprefix("data: ")):
                sys.exit(line)
            times.append(time.perf_counter())
    return np.array(times)


for users in map(int, sys.argv[2:]):
    requests = [REQUESTS.pop() for _ in range(PER_USER * users)]
    began = time.perf_counter()
    with ThreadPoolExecutor(users) as pool:
        answers = list(pool.map(times_of, requests))
    rate = sum(tokens for _, tokens in requests) / (time.perf_counter() - began)
    first = 1000 * np.array([times[1] - times[0] for times in answers])
    gap = 1000 * max(np.diff(times[1:]).max(initial=0) for times in answers)
    print(f"{users} users: {rate:.0f} tokens per s; first token after {np.median(first):.0f} ms,")
    print(f"  the slowest after {first.max():.0f}; longest gap {gap:.0f} ms")
