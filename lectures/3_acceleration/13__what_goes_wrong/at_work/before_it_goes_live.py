"""Look a model over before it goes live: python before_it_goes_live.py MODEL CONFIG REFERENCE

TRITON_GRPC has the server's address. CONFIG is the model's config.pbtxt, with its input and
output. REFERENCE is an .npz file with an array for each of them: examples, and their right answers.
"""

import os
import sys
from pathlib import Path

import numpy as np
import tritonclient.grpc as grpc
from google.protobuf import json_format, text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

model, file, reference = sys.argv[1:]
client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
config = text_format.Parse(Path(file).read_text(), ModelConfig())
names = config.input[0].name, config.output[0].name
examples, right = (np.load(reference)[name] for name in names)


def fields(value, path=""):
    """All fields of a config, each with its path."""
    if isinstance(value, (dict, list)):
        yield path, ""
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from fields(each, f"{path}/{key}")
    else:
        yield path, value


def ask(rows):
    tensor = grpc.InferInput(names[0], rows.shape, np_to_triton_dtype(rows.dtype))
    return client.infer(model, [tensor.set_data_from_numpy(rows)]).as_numpy(names[1])


print("ready:", client.is_server_ready() and client.is_model_ready(model))
running = client.get_model_config(model).config
both = [dict(fields(json_format.MessageToDict(each))) for each in (config, running)]
print("not as in the file:", *[path for path in both[0] if both[1].get(path) != both[0][path]])
try:
    most = max(1, running.max_batch_size)
    print("largest batch:", len(ask(np.resize(examples, (most, *examples.shape[1:])))), "answers")
    answers = np.concatenate([ask(row[None]) for row in examples])
    print("verdicts changed:", (answers.argmax(1) != right.argmax(1)).sum(), "of", len(right))
except InferenceServerException as error:
    sys.exit(f"refused: {error.message()}")
