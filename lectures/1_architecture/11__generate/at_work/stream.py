"""Print the answer of a model that streams, as it is made. Fail if the model fails in the middle.

python stream.py MODEL "The prompt"
"""

import json
import os
import sys
import time

import httpx

MODELS = f"http://{os.environ.get('TRITON_HTTP', 'localhost:8000')}/v2/models"


def stream(model, **fields):
    """Yield each piece of text. The status comes with the first one, so errors are looked for."""
    url = f"{MODELS}/{model}/generate_stream"
    with httpx.stream("POST", url, json=fields, timeout=60) as answer:
        for line in filter(None, answer.iter_lines()):
            event = json.loads(line.removeprefix("data: "))
            if "error" in event:
                raise RuntimeError(f"{event['error']} (status {answer.status_code})")
            yield event["text_output"]


def main(model, prompt):
    began, first = time.perf_counter(), None
    try:
        for piece in stream(model, text_input=prompt, stream=True):
            first = first or time.perf_counter() - began
            print(piece, end="", flush=True)
    except RuntimeError as error:
        sys.exit(f"\n{model} failed: {error}")
    print(f"\nfirst piece after {first:.2f} s, the last after {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
