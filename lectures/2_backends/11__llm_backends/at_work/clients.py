"""How many tokens per second a vLLM model writes.   python clients.py MODEL CLIENTS [CLIENTS …]"""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import requests

PROMPT, TOKENS, EACH = "A class definition", 48, 3  # take prompts and lengths like your users'


def ask(model):
    url = f"http://{os.environ.get('TRITON_HTTP', 'localhost:8000')}/v2/models/{model}/generate"
    # ignore_eos: each answer has all its tokens, so that the measurements can be compared
    sampling = json.dumps({"max_tokens": TOKENS, "temperature": 0, "ignore_eos": True})
    body = {"text_input": PROMPT, "sampling_parameters": sampling}
    requests.post(url, json=body, timeout=300).raise_for_status()


def main(model, *numbers):
    for clients in map(int, numbers):
        began = time.perf_counter()
        with ThreadPoolExecutor(clients) as pool:  # each client sends EACH requests in turn
            list(pool.map(lambda _: [ask(model) for _ in range(EACH)], range(clients)))
        seconds = time.perf_counter() - began
        speed = clients * EACH * TOKENS / seconds
        print(f"clients {clients}: {speed:.0f} tokens/s, {1000 * seconds / EACH:.0f} ms per answer")


main(*sys.argv[1:])
