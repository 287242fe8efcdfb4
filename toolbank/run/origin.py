"""Which recipe a run folder belongs to: that of the name, seed, sources and dataset it was made by.

Another number of queries, another model or one retriever more is the same recipe, gone on with.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.config.base import paths_in, shape
from toolbank.recipe import Recipe, load_recipe, read_recipe
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, sha256_file, write_json

if TYPE_CHECKING:
    from toolbank.run.folder import RunFolder
    from toolbank.run.stage import Stage

_INPUTS = "inputs"


def write_origin(
    folder: RunFolder, recipe: Recipe, inputs: Iterable[Path] = ()
) -> None:
    """Note in origin.json whose the folder is, how its recipe.yaml was left, and what is read.

    The `inputs` of earlier runs stay.
    """
    data = recipe.model_dump(mode="json")
    content = {key: data[key] for key in ("name", "seed", "sources", "dataset")}
    noted = {
        "recipe_sha256": sha256_file(folder.recipe),
        _INPUTS: sorted({os.path.realpath(p) for p in (*read_noted(folder), *inputs)}),
    }
    write_json(folder.origin, {**content, **noted})


def read_noted(folder: RunFolder) -> list[Path]:
    """The recipe and what else the runs in a folder have read; none of earlier versions."""
    try:
        noted: Any = read_json(folder.origin)[_INPUTS]
        return [Path(path) for path in noted]
    except (InputError, KeyError, TypeError):
        return []


def is_edited(folder: RunFolder) -> bool:
    """Whether recipe.yaml is not as the last run left it."""
    try:
        left: Any = read_json(folder.origin)["recipe_sha256"]
    except (InputError, KeyError, TypeError):
        return False
    return folder.recipe.is_file() and sha256_file(folder.recipe) != left


def find_differences(recipe: Recipe, stages: Sequence[Stage]) -> list[str]:
    """How another recipe differs from the one whose results a folder holds, a line each.

    None where it is the same one, or where nothing was made yet.
    """
    folder = stages[0].folder
    if not any(path.exists() for path in folder.of_worth):
        return []
    try:
        earlier = _read_earlier(folder)
    except InputError:
        return ["the recipe that made it can't be read any more"]
    return list(_compare_recipes(earlier, recipe, stages))


def _read_earlier(folder: RunFolder) -> Recipe:
    """The recipe that a folder belongs to, as far as it says so; of older folders, all of it."""
    content = read_json(folder.origin) if folder.origin.is_file() else None
    if not isinstance(content, dict):
        return load_recipe(str(folder.recipe)).recipe
    unused = (
        "recipe_sha256",
        _INPUTS,
        "sources" if content.get("dataset") else "dataset",
    )
    return read_recipe({k: v for k, v in content.items() if k not in unused})


def _compare_recipes(
    old: Recipe, new: Recipe, stages: Sequence[Stage]
) -> Iterator[str]:
    for key in ("name", "seed"):
        before, now = getattr(old, key), getattr(new, key)
        if before != now:
            yield f"{key}: {before} there, {now} in this recipe"
    for key in ("sources", "dataset"):
        before, now = getattr(old, key), getattr(new, key)
        if _shapes(before) != _shapes(now):
            yield f"{key}: {_name(before)} there, {_name(now)} in this recipe"
        # A file may have been moved; it is another where what is in it is another, too.
        elif paths_in(before) != paths_in(now) and any(
            stage.kind == key and not stage.is_done for stage in stages
        ):
            yield (
                f"{key}: {', '.join(map(str, paths_in(before)))} there, "
                f"{', '.join(map(str, paths_in(now)))} in this recipe"
            )


def _shapes(value: Any) -> list[Any]:
    return [shape(one) for one in _parts(value)]


def _name(value: Any) -> str:
    """The settings that were given, such as "{type: python, package: numpy}"."""
    named = []
    for part in _parts(value):
        given = part.model_dump(mode="json", exclude_defaults=True)
        pairs = {"type": part.type, **given}.items()
        named.append(", ".join(f"{key}: {one}" for key, one in pairs))
    return "; ".join(f"{{{one}}}" for one in named) or "none"


def _parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else () if value is None else (value,)
