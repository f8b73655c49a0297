"""Hide warnings of libraries that say nothing about Triton, in several notebooks of lecture 2."""

from __future__ import annotations

import logging
import warnings


def hide_warnings() -> None:
    """Hide the warnings of exporters and converters: of missing packages, and of their own code."""
    logging.disable(logging.WARNING)
    for category in (FutureWarning, UserWarning):
        warnings.filterwarnings("ignore", category=category)


exporters = hide_warnings  # the name in notebook 05
