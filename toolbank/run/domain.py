"""What the prompts of a run call the API, from its first command to its last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbank.recipe import load_recipe
from toolbank.system.errors import InputError
from toolbank.system.outputs import is_run_folder

if TYPE_CHECKING:
    from toolbank.recipe import Recipe
    from toolbank.run.folder import RunFolder


def keep_domain(recipe: Recipe, folder: RunFolder) -> Recipe:
    """The recipe with its domain written out; one that says none keeps that of its run.

    With another the prompts would be others, and every reply in the journal paid for in vain.
    A dataset asks for nothing, and stays as it is.
    """
    if recipe.domain or not recipe.sources:
        return recipe
    domain = _begun_with(recipe, folder) or recipe.domain_name
    return recipe.model_copy(update={"domain": domain})


def _begun_with(recipe: Recipe, folder: RunFolder) -> str:
    """The domain of the folder's run, if it is of the same sources; else ""."""
    if not is_run_folder(folder.path):
        return ""
    try:
        begun = load_recipe(str(folder.path)).recipe
    except InputError:
        return ""
    labels, begun_labels = ([one.label for one in r.sources] for r in (recipe, begun))
    return begun.domain if labels == begun_labels else ""
