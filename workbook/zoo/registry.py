"""All recipes of the zoo, by name; slow ones come first, so that they start first."""

from __future__ import annotations

from . import classifiers, exports, forests, huggingface
from .recipe import Recipe

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        *huggingface.RECIPES,
        *classifiers.RECIPES,
        *forests.RECIPES,
        *exports.RECIPES,
    )
}
