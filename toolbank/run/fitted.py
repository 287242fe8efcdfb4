"""A fitted retriever, with the settings that shape nothing as the recipe has them now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolbank.bank.files import read_column, read_tools
from toolbank.config.base import shape

if TYPE_CHECKING:
    from pathlib import Path

    from toolbank.recipe import Recipe
    from toolbank.retrievers.base import Retriever
    from toolbank.retrievers.kind import RetrieverConfig
    from toolbank.run.folder import RunFolder


def load_fitted(recipe: Recipe, folder: RunFolder, label: str) -> Retriever:
    """Load a retriever of a run.

    How a model is reached, and its budget, may have changed since it was fitted: that is no
    reason to fit it again, and counts all the same. It finds the tools that the bank has now, in
    their order: those that came since by their descriptions.

    Raises:
        InputError: a file is missing or damaged.
    """
    from toolbank.retrievers import load_retriever

    retriever = load_retriever(folder.models / label)
    _renew(retriever, {config.label: config for config in recipe.retrievers})
    return _follow(retriever, folder.bank / "tools.parquet")


def _follow(retriever: Retriever, path: Path) -> Retriever:
    """The retriever with the tools of a tools.parquet."""
    names = tuple(read_column(path, "name"))
    known = set(retriever.tools)
    if retriever.tools == names:
        return retriever
    if new := [tool for tool in read_tools(path) if tool.name not in known]:
        retriever = retriever.add_tools(new)
    places = {name: place for place, name in enumerate(retriever.tools)}
    return retriever.pick_tools([places[name] for name in names])


def _renew(retriever: Retriever, configs: Mapping[str, RetrieverConfig]) -> None:
    now = configs.get(retriever.name)
    if now is not None and shape(now) == shape(retriever.config):
        retriever.config = now
    for one in retriever.built_on.values():
        _renew(one, configs)
