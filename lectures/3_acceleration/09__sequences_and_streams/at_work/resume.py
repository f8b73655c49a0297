"""A sequence that survives a loss of its state: python resume.py MODEL INPUT SECONDS NUMBERS…

The client pauses SECONDS before each further number. The server loses the state when it restarts,
when the model is loaded again, or after a long pause. Then it refuses a request without the flag
start. So the client keeps its history, and sends it again.
"""

import os
import sys
import time

import numpy as np
import tritonclient.grpc as grpc
from tritonclient.utils import InferenceServerException

model, name = sys.argv[1:3]
seconds, *numbers = [float(number) for number in sys.argv[3:]]
client = grpc.InferenceServerClient(os.environ.get("TRITON_GRPC", "localhost:8001"))
history = []


def send(number, **flags):
    value = grpc.InferInput(name, [1, 1], "FP32")
    value.set_data_from_numpy(np.array([[number]], np.float32))
    return client.infer(model, [value], sequence_id=os.getpid(), **flags)


for number in numbers:
    if history:
        time.sleep(seconds)
    history.append(number)
    try:
        last = len(history) == len(numbers)
        answer = send(number, sequence_start=len(history) == 1, sequence_end=last)
    except InferenceServerException as error:
        if "START" not in error.message():
            raise
        print("The server has no state of this sequence: its history is sent again.")
        for place, old in enumerate(history):
            last = place + 1 == len(numbers)
            answer = send(old, sequence_start=place == 0, sequence_end=last)
    output = answer.get_response().outputs[0].name
    print(f"{number:g} → {answer.as_numpy(output).ravel()[0]:.1f}")
