"""Run the unchanged examples of Triton's Python backend with their own clients.

They are upstream's files, which are not in this repository:

    git clone -b r24.10 https://github.com/triton-inference-server/python_backend
    export TRITON_PYTHON_BACKEND=$PWD/python_backend
    .venv/bin/python -m pytest tests/server/test_official_examples.py

Left out: `instance_kind` and `preprocessing` (weights from the network, torchvision, TensorRT).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbook.server import Triton, model_warnings

CHECKOUT = Path(os.environ.get("TRITON_PYTHON_BACKEND", ""))
EXAMPLES = CHECKOUT / "examples"

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(
        not (os.environ.get("TRITON_PYTHON_BACKEND") and EXAMPLES.is_dir()),
        reason="TRITON_PYTHON_BACKEND names no checkout of python_backend: `git clone -b r24.10 "
        "https://github.com/triton-inference-server/python_backend`",
    ),
]

#: Model → its code and its config ("" for none), below examples/.
MODELS = {
    "add_sub": ("add_sub/model.py", "add_sub/config.pbtxt"),
    "pytorch": ("pytorch/model.py", "pytorch/config.pbtxt"),
    "jax": ("jax/model.py", "jax/config.pbtxt"),
    "bls_sync": ("bls/sync_model.py", "bls/sync_config.pbtxt"),
    "bls_async": ("bls/async_model.py", "bls/async_config.pbtxt"),
    "square_int32": ("decoupled/square_model.py", "decoupled/square_config.pbtxt"),
    "repeat_int32": ("decoupled/repeat_model.py", "decoupled/repeat_config.pbtxt"),
    "bls_decoupled_sync": ("bls_decoupled/sync_model.py", "bls_decoupled/sync_config.pbtxt"),
    "bls_decoupled_async": ("bls_decoupled/async_model.py", "bls_decoupled/async_config.pbtxt"),
    "nobatch_auto_complete": ("auto_complete/nobatch_model.py", ""),
    "batch_auto_complete": ("auto_complete/batch_model.py", ""),
    "custom_metrics": ("custom_metrics/model.py", "custom_metrics/config.pbtxt"),
}
#: Client → the last line that it prints.
CLIENTS = {
    "add_sub/client.py": "PASS: add_sub",
    "pytorch/client.py": "PASS: pytorch",
    "jax/client.py": "PASS: jax",
    "bls/sync_client.py": "PASS: BLS Sync",
    "bls/async_client.py": "PASS: BLS Async",
    "decoupled/square_client.py": "PASS: square_int32",
    "decoupled/repeat_client.py": "PASS: repeat_int32",
    "bls_decoupled/sync_client.py": "PASS: BLS Decoupled Sync",
    "bls_decoupled/async_client.py": "PASS: BLS Decoupled Async",
    "auto_complete/client.py": "PASS: auto_complete",
    "custom_metrics/client.py": "PASS: custom_metrics",
}
HAS_JAX = importlib.util.find_spec("jax") is not None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A server with the examples' models."""
    repository = tmp_path_factory.mktemp("models")
    for name, (code, config) in MODELS.items():
        if name != "jax" or HAS_JAX:
            (repository / name / "1").mkdir(parents=True)
            shutil.copy(EXAMPLES / code, repository / name / "1/model.py")
            if config:
                shutil.copy(EXAMPLES / config, repository / name / "config.pbtxt")
    models = [folder.name for folder in repository.iterdir()]
    with Triton(repository, models=models, start_timeout=300) as server:
        yield server


@pytest.mark.parametrize("client", CLIENTS)
def test_the_client_passes(server: Triton, client: str, tmp_path: Path) -> None:
    """The client alone is changed, in the ports of its server: 8000, 8001 and 8002 may be taken."""
    if client == "jax/client.py" and not HAS_JAX:
        pytest.skip("jax is not installed")
    text = (EXAMPLES / client).read_text("utf-8")
    places = {
        "localhost:8000": server.url.removeprefix("http://"),
        "localhost:8001": server.grpc_url,
        "http://localhost:8002/metrics": server.metrics_url,
    }
    for fixed, free in places.items():
        text = text.replace(fixed, free)
    program = tmp_path / "client.py"
    program.write_text(text, "utf-8")
    run = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert CLIENTS[client] in run.stdout


@pytest.mark.parametrize("name", ["bls_decoupled_sync", "bls_decoupled_async"])
def test_the_sloppy_ones_have_their_warning(server: Triton, name: str) -> None:
    """Their clients have asked them: above."""
    (warning,) = model_warnings.of(server, name)
    assert 'The output "SUM" is int64, and the config says TYPE_INT32.' in warning.what
    assert warning.where.startswith("1/model.py, line ")
