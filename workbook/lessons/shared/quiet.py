"""Hide warnings of libraries that say nothing about Triton, in several notebooks of lecture 2."""

from __future__ import annotations

import logging
import warnings


def exporters() -> None:
    """Hide the warnings of torch's exporters about missing packages and their own code."""
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", message="Exporting a model while it is in training mode")
    warnings.filterwarnings("ignore", message="# The axis name")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    for name in ("_registration", "_core"):
        logging.getLogger(f"torch.onnx._internal.exporter.{name}").setLevel(logging.ERROR)


def converters() -> None:
    """Hide the warnings of exporters and converters about packages, their code and tiny weights."""
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", message="the float32 number")


def torchscript() -> None:
    """Hide torch's warnings that torch.jit is deprecated, and one about a file's name."""
    warnings.filterwarnings("ignore", module=r"torch\b")
    warnings.filterwarnings("ignore", message=r"`torch\.jit\.")
    logging.getLogger("torch.export").setLevel(logging.ERROR)  # a file's name is not .pt2
