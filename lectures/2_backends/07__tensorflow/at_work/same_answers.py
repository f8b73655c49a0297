"""Do converted models answer as the first one? python same_answers.py EXAMPLES.npy MODEL OTHER …

Each has one input and one output: a classifier's scores.
"""

import os
import sys

import numpy as np
import tritonclient.grpc as grpc

client = grpc.InferenceServerClient(os.environ.get("TRITON_GRPC", "localhost:8001"))


def scores(model, x, rows=8):
    about = client.get_model_metadata(model)  # each framework names its tensors differently
    found = []
    for batch in np.split(x, range(rows, len(x), rows)):
        tensor = grpc.InferInput(about.inputs[0].name, batch.shape, about.inputs[0].datatype)
        tensor.set_data_from_numpy(batch)
        found.append(client.infer(model, [tensor]).as_numpy(about.outputs[0].name))
    return np.concatenate(found)


def main(examples, model, *others):
    x = np.load(examples)
    expected = scores(model, x)
    for other in others:
        found = scores(other, x)
        changed = (found.argmax(1) != expected.argmax(1)).sum()
        print(f"{other}: differs by {np.abs(found - expected).max():.0e}, {changed} changed")


if __name__ == "__main__":
    main(*sys.argv[1:])
