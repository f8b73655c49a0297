"""Turn the server's words about a model that did not load into something to act on."""

from __future__ import annotations

from pathlib import Path

from ..errors import LoadError


def load_error(model: str, message: str, folder: Path) -> LoadError:
    """Explain a refusal."""
    return LoadError(f"{model} did not load.", model=model, message=message)
