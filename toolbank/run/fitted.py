"""A fitted retriever, with the settings that shape nothing as the recipe has them now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolbank.config.shape import shape

if TYPE_CHECKING:
    from toolbank.recipe import Recipe
    from toolbank.retrievers.base import Retriever
    from toolbank.retrievers.kind import RetrieverConfig
    from toolbank.run.folder import RunFolder


def load_fitted(recipe: Recipe, folder: RunFolder, label: str) -> Retriever:
    """Load a retriever of a run.

    How a model is reached, and its budget, may have changed since it was fitted: that is no
    reason to fit it again, and counts all the same.

    Raises:
        InputError: a file is missing or damaged.
    """
    from toolbank.retrievers import load_retriever

    retriever = load_retriever(folder.models / label)
    _renew(retriever, {config.label: config for config in recipe.retrievers})
    return retriever


def _renew(retriever: Retriever, configs: Mapping[str, RetrieverConfig]) -> None:
    now = configs.get(retriever.name)
    if now is not None and shape(now) == shape(retriever.config):
        retriever.config = now
    for one in retriever.built_on.values():
        _renew(one, configs)
