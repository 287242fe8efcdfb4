"""The tools of a recipe, of a run, or of an API as it is."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from toolbank.commands.options import find_folder
from toolbank.config.assets import has_asset
from toolbank.sources.collect import collect_tools
from toolbank.sources.kind import Collected, SourceConfig
from toolbank.sources.recognise import recognise
from toolbank.system.outputs import is_run_folder
from toolbank.system.trust import command_of

_RECIPE = re.compile(r"^(sources|dataset)\s*:", re.MULTILINE)


def read_given(text: str) -> Collected:
    """What is kept of a run, what a recipe's sources give now, or what an API does.

    Raises:
        InputError: it is none of these, or can't be read.
        ToolbankError: it can't be read now.
    """
    path = Path(text)
    if is_run_folder(path):
        from toolbank.run.folder import RunFolder
        from toolbank.run.stages.sources import kept_tools

        return kept_tools(RunFolder(path))
    if _is_recipe(path, text):
        return _read_recipe(text)
    return read_source(recognise(text))


def read_source(source: SourceConfig) -> Collected:
    """The tools of one source; what it keeps beside them is kept nowhere.

    Raises:
        InputError, ToolbankError: as `collect_tools`.
    """
    with command_of(source.label, ()), tempfile.TemporaryDirectory() as cache:
        return collect_tools([source], Path(cache))


def _is_recipe(path: Path, text: str) -> bool:
    if path.is_file():
        if path.suffix.lower() not in (".yaml", ".yml"):
            return False
        with path.open(encoding="utf-8", errors="replace") as file:
            return bool(_RECIPE.search(file.read(1024 * 1024)))
    return path.parent == Path() and has_asset("recipes", f"{text}.yaml")


def _read_recipe(text: str) -> Collected:
    from toolbank.datasets import DATASETS
    from toolbank.run.folder import RunFolder
    from toolbank.run.recipe import load_recipe
    from toolbank.run.stages.sources import SourcesStage, kept_tools

    loaded = load_recipe(text)
    recipe = loaded.recipe
    if recipe.dataset is not None:
        kind = DATASETS.find(recipe.dataset.type, "dataset")
        read = kind.read(recipe.dataset)
        source = {"source": recipe.dataset.place, **read.left_out.as_info()}
        return Collected(read.tools, {"sources": [source]})
    folder = RunFolder(find_folder(text, None, recipe.name))
    with loaded.at_work(), tempfile.TemporaryDirectory() as cache:
        if SourcesStage(recipe, folder).is_done:
            return kept_tools(folder)
        return collect_tools(recipe.sources, Path(cache))
