"""Requests of one client that belong together, for a Triton model with a sequence batcher.

python sequence.py MODEL NUMBER NUMBER …
"""

import os
import sys
import uuid

import numpy as np
import tritonclient.grpc as grpc
from tritonclient.utils import np_to_triton_dtype

ADDRESS = os.environ.get("TRITON_GRPC", "localhost:8001")


class Sequence:
    """One sequence. Its requests are sent one after the other, in the order of the calls.

    sequence = Sequence(client, "model")
    sequence.ask(X=first)
    sequence.ask(X=second, last=True)      # frees its slot; else it is freed when it is idle
    """

    def __init__(self, client, model):
        self.client, self.model = client, model
        self.number = uuid.uuid4().int >> 65  # 63 bits, so that no two clients share it
        self.begun = False

    def ask(self, *, last=False, **arrays):
        tensors = []
        for name, array in arrays.items():
            kind = np_to_triton_dtype(array.dtype)
            tensors.append(grpc.InferInput(name, array.shape, kind).set_data_from_numpy(array))
        flags = {"sequence_start": not self.begun, "sequence_end": last}
        self.begun = True
        return self.client.infer(self.model, tensors, sequence_id=self.number, **flags)


if __name__ == "__main__":
    with grpc.InferenceServerClient(ADDRESS) as client:
        model, *numbers = sys.argv[1:]
        mine = Sequence(client, model)
        for place, number in enumerate(numbers, 1):
            row = np.array([[float(number)]], np.float32)
            print(mine.ask(X=row, last=place == len(numbers)).as_numpy("SUM").item())
