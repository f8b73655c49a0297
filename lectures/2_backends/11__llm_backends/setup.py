"""For 11__llm_backends: a Llama behind the vLLM backend.

print(setup.engine())                                   # the engine: vLLM, or Transformers
setup.write_model(models)                               # config.pbtxt, 1/model.json, the weights
answer = setup.generate(lab, "vllm_model", "A list is", max_tokens=24, temperature=0)

Where vLLM is not installed, Transformers answers in its place: the same folder, the same names, and
`backend: "python"` in the config (workbook/backends/vllm/without_vllm.py).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from workbook import zoo
from workbook.lessons.shared.llm_engine import engine, has_vllm, link, write_program
from workbook.lessons.workspace import version
from workbook.server import Server

__all__ = ["engine", "has_vllm", "write_program"]

#: The model that the lecture asks; others use its weights.
NAME = "vllm_model"
#: The configs and model.json of the notebook's models.
HERE = Path(__file__).parent / "models"
_WANTED = ("return_finish_reason", "return_num_input_tokens", "return_num_output_tokens")


# -- who answers, and with which weights -----------------------------------------------------------


def backend() -> str:
    """Return the backend that serves the lecture's model: "vllm", or "python" without vLLM."""
    return "vllm" if has_vllm() else "python"


def weights() -> Path:
    """Return the folder of the course's Llama."""
    return zoo.checkpoint("llama")


def write_model(models: Path, name: str = NAME, **arguments: Any) -> None:
    """Write a model folder of the vLLM backend: config.pbtxt, 1/model.json, and once the weights.

    Args:
        models: the repository.
        name: the model. It gets the files that lie beside the notebook, or those of `NAME`. All
            use the weights in the folder of `NAME`.
        arguments: engine arguments beside those of its model.json.
    """
    own = version(models, name)
    source = HERE / name if (HERE / name).exists() else HERE / NAME
    config = (source / "config.pbtxt").read_text("utf-8")
    config = config.replace('backend: "vllm"', f'backend: "{backend()}"')
    (models / name / "config.pbtxt").write_text(config, "utf-8")
    arguments = json.loads((source / "1/model.json").read_text("utf-8")) | arguments
    (own / "model.json").write_text(json.dumps(arguments, indent=2) + "\n", "utf-8")
    place_weights(models)
    if not has_vllm():
        write_program(own)


def place_weights(models: Path) -> None:
    """Put the weights into the folder of `NAME`, if they are not there."""
    place = models / NAME / "1/checkpoint"
    if not place.exists():
        shutil.copytree(weights(), place, copy_function=link)


# -- asking ----------------------------------------------------------------------------------------


def generate(server: Server, model: str, prompt: str, **sampling: Any) -> dict[str, Any]:
    """Ask the endpoint `generate`; returns the new text, its finish reason and its token counts.

    Args:
        sampling: sampling parameters, e.g. `max_tokens=24, temperature=0`.

    Returns:
        `text`, `reason`, `in`, `out`; or `error`, the server's message.
    """
    body = _body(prompt, sampling) | dict.fromkeys(_WANTED, True)
    url = f"{server.url}/v2/models/{model}/generate"
    found = httpx.post(url, json=body, timeout=300, trust_env=False).json()
    if "error" in found:
        return {"error": found["error"]}
    return {
        "text": found["text_output"],
        "reason": found["finish_reason"],
        "in": found["num_input_tokens"],
        "out": found["num_output_tokens"],
    }


def long_prompt(tokens: int) -> str:
    """Make a prompt of this many tokens: an opening, then the word "in" repeated."""
    return "in" + " in" * (tokens - 1)


def _body(prompt: str, sampling: Mapping[str, Any]) -> dict[str, Any]:
    text = json.dumps(sampling)
    return {"text_input": prompt, "sampling_parameters": text, "exclude_input_in_output": True}
