"""What a run was made from, which no output of a command may be written over."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.config.assets import own_folders
from toolbank.config.base import paths_in
from toolbank.recipe import RESOLVED, SCHEMA_FILE
from toolbank.run.origin import read_noted
from toolbank.run.stages import make_stages
from toolbank.system.errors import InputError
from toolbank.system.files import sha256_file

if TYPE_CHECKING:
    from toolbank.recipe import Recipe
    from toolbank.run.folder import RunFolder
    from toolbank.run.stage import Stage


def list_inputs(recipe: Recipe, folder: RunFolder, out: Path) -> list[Path]:
    """The files and folders that a run reads, there or not, and `out` if it is the recipe itself.

    Where the run was begun, other files may be found by the same names than here: both count.
    """
    head = folder.recipe.read_text(encoding="utf-8").partition("\n")[0]
    name, _, sha256 = head.removeprefix(RESOLVED).rpartition(", sha256 ")
    found = [out] if out.is_file() and sha256_file(out) == sha256 else []
    given = Path(name) if name else folder.recipe
    stages = make_stages(recipe, folder)
    # The name alone counts here: a project may have moved since, or be of an earlier version.
    found += [*read_noted(folder), *inputs_here(stages, given)]
    for stage in stages:
        with suppress(InputError):
            found += stage.files()
    return [*found, *(path for path in paths_in(recipe) if not path.is_dir())]


def inputs_here(stages: Iterable[Stage], recipe: Path) -> list[Path]:
    """A recipe with what lies beside it, and what stages find by name from the current folder."""
    found = [recipe, recipe.with_name(SCHEMA_FILE), *own_folders()]
    for stage in stages:
        # Of what is gone, nothing can be written over.
        with suppress(InputError):
            found += stage.places()
    return found
