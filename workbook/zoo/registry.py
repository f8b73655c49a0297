"""All recipes of the zoo, by name. Slow ones come first, so that a full build starts them first."""

from __future__ import annotations

from . import classifiers, engines, exports, forests, huggingface, llama, llama_onnx, llama_random
from .recipe import RECIPES

_ALL = (
    *llama.RECIPES,
    *huggingface.RECIPES,
    *classifiers.RECIPES,
    *forests.RECIPES,
    *exports.RECIPES,
    *llama_random.RECIPES,
    *llama_onnx.RECIPES,
    *engines.RECIPES,
)
RECIPES.update({recipe.name: recipe for recipe in _ALL})

__all__ = ["RECIPES"]
