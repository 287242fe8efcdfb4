"""What a run was made from, which no output of a command may be written over."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.recipe import RESOLVED
from toolbank.run.stages import make_stages
from toolbank.system.errors import InputError
from toolbank.system.files import sha256_file

if TYPE_CHECKING:
    from toolbank.recipe import Recipe
    from toolbank.run.folder import RunFolder


def list_inputs(recipe: Recipe, folder: RunFolder, out: Path) -> list[Path]:
    """The files that a recipe names, there or not, and `out` if it is the recipe itself."""
    found = [out] if _is_recipe(out, folder) else []
    for stage in make_stages(recipe, folder):
        # Of a dataset that is gone, nothing can be written over.
        with suppress(InputError):
            found += stage.files()
    return found


def _is_recipe(path: Path, folder: RunFolder) -> bool:
    """Whether a file is the recipe that a run has resolved, or has its name."""
    head = folder.recipe.read_text(encoding="utf-8").partition("\n")[0]
    name, _, sha256 = head.removeprefix(RESOLVED).rpartition(", sha256 ")
    return path.is_file() and (path.name == name or sha256_file(path) == sha256)
