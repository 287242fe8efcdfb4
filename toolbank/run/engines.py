"""Whether the engines of a recipe can be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbank.generate.writers import find_writer
from toolbank.judge.engine import find_judge

if TYPE_CHECKING:
    from toolbank.recipe import Recipe


def check_engine(recipe: Recipe, stage: str) -> None:
    """Refuse an engine that can't be made, where a stage has one.

    Raises:
        InputError: there is no such engine, or a setting of it is wrong.
    """
    if stage == "generate":
        find_writer(recipe.generate).check(recipe.generate)
    elif stage == "judge" and (judge := find_judge(recipe.judge)):
        judge.check(recipe.judge)


def check_access(recipe: Recipe, stage: str) -> None:
    """Refuse an engine whose key or package isn't there, where a stage has one.

    Raises:
        InputError: it isn't.
    """
    if stage == "generate":
        find_writer(recipe.generate).check_access(recipe.generate)
    elif stage == "judge" and (judge := find_judge(recipe.judge)):
        judge.check_access(recipe.judge)
