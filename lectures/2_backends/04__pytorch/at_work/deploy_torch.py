"""Put a PyTorch module into a model repository, and compare Triton's answers with PyTorch's.

python deploy_torch.py NAME
"""

import os
import sys
from pathlib import Path

import numpy as np
import torch
import tritonclient.grpc as grpc

CONFIG = """\
platform: "pytorch_libtorch"
max_batch_size: 32
input {{ name: "INPUT__0" data_type: TYPE_FP32 dims: {inputs} }}
output {{ name: "OUTPUT__0" data_type: TYPE_FP32 dims: {outputs} }}
dynamic_batching {{ }}
"""


def deploy(name, module, example, models, address):
    with torch.inference_mode():
        expected = module(example).numpy()
    home = Path(models, name)
    (home / "1").mkdir(parents=True, exist_ok=True)
    torch.jit.script(module).save(home / "1/model.pt")
    dims = {"inputs": list(example.shape[1:]), "outputs": list(expected.shape[1:])}
    (home / "config.pbtxt").write_text(CONFIG.format(**dims))
    client = grpc.InferenceServerClient(address)
    client.load_model(name)
    rows = grpc.InferInput("INPUT__0", list(example.shape), "FP32")
    rows.set_data_from_numpy(example.numpy())
    answer = client.infer(name, [rows]).as_numpy("OUTPUT__0")
    np.testing.assert_allclose(answer, expected, rtol=1e-3, atol=1e-4)
    print(f"{name} answers as in PyTorch, {len(answer)} rows.")


if __name__ == "__main__":
    yours = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    repository = os.environ.get("TRITON_MODELS", "models")
    url = os.environ.get("TRITON_GRPC", "localhost:8001")
    deploy(sys.argv[1], yours.eval(), torch.randn(4, 8), repository, url)
