"""For 11__llm_backends: what the backend slides say of vLLM and TensorRT-LLM, and what holds now.

documents.steps(models)         # the corrections of the config for vLLM
documents.build()               # the command for trtllm-build, option by option
documents.compared()            # the table "TensorRT vs TensorRT-LLM", corrected

Sources, read in November 2026: NVIDIA/TensorRT-LLM
(tensorrt_llm/commands/build.py of 0.14, the migration guide "TensorRT Backend Removed",
triton_backend/all_models/llmapi); Triton's guide "Deploying an LLM with Triton and TRT-LLM".
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

import setup
from workbook.lessons.shared.documented import Edit, braces, put
from workbook.lessons.workspace import version

#: The configs as the slides print them.
HERE = setup.HERE
#: The slides' command that builds an engine.
BUILD = """\
trtllm-build
--hf-model=./facebook_opt-125m
--engine=./model.plan
--max-seq-len=512
--precision=fp16
--batch-size=8"""
#: The slides' option → its name in trtllm-build (until TensorRT-LLM 1.2), its name today.
_BUILD = {
    "--hf-model": ("--checkpoint_dir, after convert_checkpoint.py", "model"),
    "--engine": ("--output_dir: a folder", "nothing is built"),
    "--max-seq-len": ("--max_seq_len", "max_seq_len"),
    "--precision": ("--dtype of convert_checkpoint.py", "dtype"),
    "--batch-size": ("--max_batch_size", "max_batch_size"),
}
#: All options of trtllm-build 0.14 that concern names or sizes of the slides' command.
BUILD_OPTIONS = (
    "--checkpoint_dir", "--model_config", "--build_config", "--output_dir", "--max_batch_size",
    "--max_input_len", "--max_seq_len", "--max_beam_width", "--max_num_tokens", "--opt_num_tokens",
)  # fmt: skip
#: The slides' table: characteristic → what it says of TensorRT, what it says of TensorRT-LLM, and
#: a correction; "" where the row still holds.
_COMPARED = {
    "purpose": ("networks of any kind", "language models", ""),
    "tasks": ("on GPUs", "on GPUs", ""),
    "made for language models": ("no", "yes", ""),
    "kinds of models": ("any", "GPT, OPT, LLaMA, T5", "a list; pictures and sound, too"),
    "inputs": (
        "pictures, video, arrays",
        "tokens and masks",
        "text; for built engines: the tokens' numbers, no mask",
    ),
    "examples": ("YOLO, ResNet, U-Net", "GPT-3, BERT, chatbots", "GPT-3's weights are not public"),
    "format": ("TensorRT plan", "TensorRT plan", "Hugging Face checkpoint; no plan since 1.3"),
    "hardware": ("GPU", "GPU with more memory", "weights and cache decide"),
    "advantage": ("many tasks, fast", "fast, keeps tokens", "also batches per token, like vLLM"),
    "drawback": ("NVIDIA's GPUs alone", "NVIDIA's GPUs alone", ""),
    "tool": ("trtexec", "trtllm-build", "trtllm-build is gone in 1.3: trtllm-serve"),
}


def steps(models: Path, name: str = setup.NAME, **arguments: Any) -> dict[str, Edit]:
    """Return the corrections of the slides' vLLM config, in the order in which the server asks.

    Args:
        models: the repository. The weights and the model's model.json are put into it. Without
            vLLM, the last step writes the program that takes its place.
        name: the folder of the model.
        arguments: engine arguments beside those of `setup.NAME`.
    """
    setup.write_model(models, name, **arguments)
    without_name = put(f'name: "{setup.NAME}"\n', "")
    found: dict[str, Edit] = {
        "with braces": lambda text: without_name(closed(text)),
        "without batches, with the backend's own names": _as_the_backend_has_it,
    }
    if not setup.has_vllm():
        found["Transformers in vLLM's place"] = _in_its_place(models, name)
    return found


def closed(text: str) -> str:
    """Put the braces that the printout lost around a config's tensors and parameters.

    >>> closed('parameters: {\\n  key: "a"\\n  value: { string_value: "b" }\\nparameters: {')
    'parameters: {\\n  key: "a"\\n  value: { string_value: "b" }\\n}\\nparameters: {'
    """
    text = re.sub(r"(?m)^(    dims: .*)\n(?=    name:)", r"\1\n  }, {\n", braces(text))
    return re.sub(r'(?m)^( +value: \{ string_value: "[^"]*" \})$', r"\1\n}", text)


def without_tensors(text: str) -> str:
    """Remove inputs and outputs from a config: the backend fills in its own."""
    return re.sub(r"(?ms)^(input|output) \[.*?^\} \]\n", "", text)


def _in_its_place(models: Path, name: str) -> Edit:
    def change(text: str) -> str:
        setup.write_program(models / name / "1")
        return put('backend: "vllm"', 'backend: "python"')(text)

    return change


def _as_the_backend_has_it(text: str) -> str:
    """No batches and no tensors of its own; the parameters stay."""
    _, _, own = (setup.HERE / setup.NAME / "config.pbtxt").read_text("utf-8").partition("\n\n")
    without_batches = put("max_batch_size: 1", "max_batch_size: 0")(text)
    return f"{without_tensors(without_batches).rstrip()}\n{own}"


def engine_steps(models: Path) -> dict[str, Edit]:
    """Return the corrections of the slides' TensorRT-LLM config that this server can check.

    Args:
        models: the repository; a folder with an empty model.plan is put into it, as on the slides.
    """
    place = version(models, "trt_llm_model")
    (place / "model.plan").write_bytes(b"")

    def with_folder(text: str) -> str:
        changed = put('"model_checkpoint"', '"gpt_model_path"')(text)
        return put("/models/trt_llm_model/1/model.plan", str(place.resolve()))(changed)

    kind = 'parameters { key: "gpt_model_type" value { string_value: "inflight_fused_batching" } }'
    return {
        "with braces": closed,
        "with the backend's name": put('"tensorrt_llm"', '"tensorrtllm"'),
        "with its way to batch": lambda text: f"{text.rstrip()}\n{kind}\n",
        "with the engine's folder": with_folder,
    }


def build(line: str = BUILD) -> pd.DataFrame:
    """Look up each option of a trtllm-build command: does it exist, and what replaces it?

    Returns:
        One row per option: `value`; `trtllm-build 0.14 has it`, yes or no; `in its place until
        1.2`; `in model.yaml today`.
    """
    rows = {}
    for word in shlex.split(line)[1:]:
        option, _, value = word.partition("=")
        before, today = _BUILD.get(option, ("?", "?"))
        rows[option] = {
            "value": value,
            "trtllm-build 0.14 has it": "yes" if option in BUILD_OPTIONS else "no",
            "in its place until 1.2": before,
            "in model.yaml today": today,
        }
    return pd.DataFrame(rows).T


def compared(table: Mapping[str, tuple[str, str, str]] = _COMPARED) -> pd.DataFrame:
    """Return the slides' table "TensorRT vs TensorRT-LLM", with corrections."""
    columns = ["TensorRT", "TensorRT-LLM", "TensorRT-LLM today"]
    return pd.DataFrame.from_dict(dict(table), orient="index", columns=columns)
