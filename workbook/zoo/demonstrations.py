"""The demonstration models: which files each one needs, and what is still lacking.

This module knows of no recipe: repository.py builds the models. docs/adding_a_model.md leads
through a new one.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from ..common import paths

#: A file of the package `workbook`, which some models need beside their model.py.
SAMPLING = "workbook/llm/sampling.py"

#: Every demonstration model: file of the model folder → artefact of the zoo, or a file within it.
MODELS: dict[str, dict[str, str]] = {
    "square": {},
    "digits_onnx": {"1/model.onnx": "digits_onnx", "2/model.onnx": "digits_onnx_fp16"},
    "digits_torch": {"1/model.pt": "digits_torchscript"},
    "digits_openvino": {
        "1/model.xml": "digits_openvino/model.xml",
        "1/model.bin": "digits_openvino/model.bin",
    },
    "digits_tf": {"1/model.savedmodel": "digits_savedmodel"},
    "digits_cached": {"1/model.onnx": "digits_onnx"},
    "forest_xgboost": {"1/xgboost.json": "cancer_xgboost"},
    "forest_lightgbm": {"1/model.txt": "cancer_lightgbm"},
    "forest_sklearn": {"1/checkpoint.tl": "digits_treelite"},
    "jpeg_dali": {"1/model.dali": "jpeg_dali"},
    "image_classifier": {"1/checkpoint": "image_classifier"},
    "text_classifier": {"1/checkpoint": "text_classifier"},
    "language_tokenizer": {"1/tokenizer.json": "text_classifier/tokenizer.json"},
    "language_onnx": {"1/model.onnx": "language_onnx"},
    "language_labels": {},
    "language": {},
    "chooser": {},
    "running_sum": {},
    "countdown": {},
}

#: Language models. They are loaded only on request, because each takes much memory: one by one, or
#: all of them as `llama`.
LLAMAS: dict[str, dict[str, str]] = {
    "llama_hf": {"1/checkpoint": "llama", "1/sampling.py": SAMPLING},
    "llama_stream": {"1/checkpoint": "llama", "1/sampling.py": SAMPLING},
    "llama_tokenizer": {
        "1/tokenizer.json": "llama/tokenizer.json",
        "1/config.json": "llama/config.json",
    },
    "llama_onnx": {"1/model.onnx": "llama_onnx"},
    "llama_next": {},
    "chat_bls": {"1/sampling.py": SAMPLING}
    | {
        f"1/{file}": f"llama/{file}"
        for file in (
            "tokenizer.json",
            "config.json",
            "tokenizer_config.json",
            "chat_template.jinja",
        )
    },
    "llama_vllm": {"1/checkpoint": "llama"},
}
#: The name that stands for all of LLAMAS.
GROUP = "llama"

#: TensorRT plans, each in a folder with its record. They can be loaded where a GPU runs them, and
#: there they are built with all models; elsewhere only on request.
ENGINES: dict[str, dict[str, str]] = {
    "digits_tensorrt": {
        "1": "digits_plan_fp32",
        "2": "digits_plan_fp16",
        "3": "digits_plan_int8",
    },
}


def lacking(folder: Path) -> str:
    """The command that completes one of the course's models; "" if the model is complete.

        lacking(paths.repository() / "llama_vllm")      # "make vllm"

    An incomplete model is skipped when all models of a repository are loaded. Outside the shared
    repository, a folder with the name of a demonstration model may hold another model.
    """
    if folder.name in MODELS and folder.parent.resolve() == paths.repository().resolve():
        built = all((folder / file).exists() for file in ("1", *MODELS[folder.name]))
        return "" if built else f"workbook models {folder.name}"
    if folder.name in ENGINES and folder.parent.resolve() == paths.repository().resolve():
        built = all((folder / file).exists() for file in ENGINES[folder.name])
        return "" if built else f"workbook models {folder.name}"
    if folder.name not in LLAMAS:
        return ""
    if not all((folder / file).exists() for file in ("1", *LLAMAS[folder.name])):
        return f"workbook models {GROUP}"
    if folder.name == "llama_vllm" and importlib.util.find_spec("vllm") is None:
        return "make vllm"
    return ""
