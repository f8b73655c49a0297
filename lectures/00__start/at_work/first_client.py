"""A first client. It needs numpy, and the package tritonclient (`pip install tritonclient[http]`).

python first_client.py       # asks localhost:8000, or the server that TRITON_HTTP names
"""

import os

import numpy as np
import tritonclient.http as http

MODEL = "square"  # 1. the name of your model's folder
client = http.InferenceServerClient(os.environ.get("TRITON_HTTP", "localhost:8000"))
print("ready:", client.is_model_ready(MODEL))
about = client.get_model_metadata(MODEL)  # names, types and shapes: what 2, 3 and 4 need
print("inputs:", about["inputs"])
print("outputs:", about["outputs"])

rows = np.array([[1], [2], [3]], np.float32)  # 2. your data
tensor = http.InferInput("INPUT", rows.shape, "FP32")  # 3. the input's name and type
tensor.set_data_from_numpy(rows)
answer = client.infer(MODEL, [tensor])
print(answer.as_numpy("OUTPUT"))  # 4. the output's name
