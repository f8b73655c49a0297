"""Hide warnings of libraries that say nothing about Triton, in several notebooks of lecture 2."""

from __future__ import annotations

import logging
import warnings


def hide_warnings() -> None:
    """Hide the warnings of exporters and converters: of missing packages, and of their own code."""
    logging.disable(logging.WARNING)
    for category in (FutureWarning, UserWarning):
        warnings.filterwarnings("ignore", category=category)


def torchscript() -> None:
    """Hide torch's warnings that torch.jit is deprecated, and one about a file's name."""
    warnings.filterwarnings("ignore", module=r"torch\b")
    warnings.filterwarnings("ignore", message=r"`torch\.jit\.")
    logging.getLogger("torch.export").setLevel(logging.ERROR)  # a file's name is not .pt2
