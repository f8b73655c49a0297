"""Import what the course imports, once, after the packages were trimmed.

    python docker/laptop/import_all.py

The build of the image ends here if something is missing that the course needs.
"""

from __future__ import annotations

import importlib
import sys

MODULES = (
    *("torch", "torch.onnx", "torch._dynamo", "torch._inductor.compile_fx"),
    *("tensorflow", "onnx", "onnxruntime", "onnxscript", "onnxconverter_common.float16"),
    *(
        "openvino",
        "onnxruntime_ep_openvino",
        "treelite",
        "xgboost",
        "lightgbm",
        "nvidia.dali.fn",
        "nvidia.dali.types",
    ),
    *("sklearn.datasets", "sklearn.ensemble", "transformers", "tokenizers", "safetensors.torch"),
    *("transformers.models.llama.modeling_llama", "transformers.models.bert.modeling_bert"),
    *("tritonclient.grpc.aio", "tritonclient.http.aio", "tritonclient.utils.shared_memory"),
    *("pandas", "matplotlib.pyplot", "matplotlib.backends.backend_agg", "PIL.Image", "babel"),
    *("jupyterlab.labapp", "ipykernel.kernelapp", "ipykernel.inprocess", "ipywidgets", "jedi"),
    *("nbconvert.nbconvertapp", "nbclient", "nbformat", "nbgrader.apps", "jupytext"),
    *("typer", "rich.progress", "httpx", "pydantic", "psutil", "fastapi", "uvicorn"),
    *("prometheus_client.parser", "distributed", "cryptography.x509", "bleach", "jinja2"),
)


def main() -> None:
    """Import every module of the list; an error names the one that is missing."""
    for name in MODULES:
        importlib.import_module(name)
    print(f"{len(MODULES)} modules were imported, and with them {len(sys.modules)}.")


if __name__ == "__main__":
    main()
