"""The stage that reads the tools."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.bank.files import read_tools
from toolbank.config.base import shape
from toolbank.run.catalogue import (
    advise_to_refresh,
    explain_loss,
    former_tools,
    has_begun,
    keep_labels,
    keep_tools,
)
from toolbank.run.recipe import Recipe, load_recipe
from toolbank.run.stage import Outcome, Stage
from toolbank.sources.collect import (
    collect_tools,
    describe_keeps,
    name_sources,
    refuse_to_start,
    source_files,
    source_places,
    source_versions,
)
from toolbank.sources.kind import ToolCollection
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import read_json
from toolbank.system.folders import RUN, claim_folder, is_run_folder
from toolbank.system.numbers import count
from toolbank.system.terminal import command
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.config.assets import Asset
    from toolbank.run.folder import RunFolder


class SourcesStage(Stage):
    """Collects the tools of all sources into bank/tools.parquet."""

    kind = "sources"

    @property
    def keeps(self) -> str:
        """What its sources keep."""
        return describe_keeps(self.recipe.sources)

    def depends(self) -> dict[str, Any]:
        """The sources, and what stands for their content."""
        return {
            "sources": [shape(source) for source in self.recipe.sources],
            "versions": source_versions(self.recipe.sources),
            "toolbank": __version__,
        }

    def check(self) -> None:
        """Refuse two sources that the user calls the same."""
        name_sources(self.recipe.sources)

    def work(self) -> Outcome:
        """Read every source; where anything was asked of the tools before, as another version.

        What can't be read of a source, such as one server of a file, keeps the tools that it had.
        The stage is done all the same, and a refresh reads it again.

        Raises:
            InputError: a source can't be read.
            ToolbankError: one gives under half of its former tools.
        """
        # What was never asked about may go: a recipe is changed until it reads what it should.
        begun = has_begun(self.folder)
        former = former_tools(self.folder) if begun else ()
        read = collect_tools(self.recipe.sources, self.folder.cache, former)
        collected = keep_labels(self.folder, read)
        if begun and (loss := explain_loss(self.folder, collected)):
            raise ToolbankError(loss)
        files = keep_tools(self.recipe, self.folder, collected)
        return Outcome(
            count(len(collected.tools), "tool"),
            files,
            problems=(
                *collected.notes,
                *collected.problems,
                *advise_to_refresh(self.folder.path, collected),
            ),
        )

    def read_ahead(self) -> None:
        """Read every source; the pages of a crawl stay."""
        collect_tools(self.recipe.sources, self.folder.cache)

    def places(self) -> tuple[Path, ...]:
        """Where packages lie."""
        return source_places(self.recipe.sources)

    def assets(self) -> tuple[Asset, ...]:
        """The files in crawlers/ that say what is read, and which tools are twins."""
        return source_files(self.recipe.sources)


def current_tools(recipe: Recipe, folder: RunFolder, path: Path) -> ToolCollection:
    """The tools of a recipe: from the run folder if they are up to date, else read anew.

    Where reading them starts commands, those count that were read of the same sources before.
    A crawl keeps its pages in the run folder's cache, so that they are not fetched again; the
    folder is marked as that of a run. `path` is the recipe's file.

    Raises:
        ToolbankError: the folder can't be written to.
        InputError: a source can't be read, or not without that a command is started.
    """
    if SourcesStage(recipe, folder).is_done:
        return kept_tools(folder)
    try:
        refuse_to_start(recipe.sources, _command_to_read(recipe, folder, path))
    except InputError:
        if has_same_sources(recipe, folder):
            return kept_tools(folder)
        raise
    if describe_keeps(recipe.sources):
        claim_folder(folder.path, RUN)
    return collect_tools(recipe.sources, folder.cache)


def has_same_sources(recipe: Recipe, folder: RunFolder) -> bool:
    """Whether a folder has tools that were read of the sources of a recipe, be they up to date or not."""
    if not (folder.bank / "tools.parquet").is_file() or not is_run_folder(folder.path):
        return False
    try:
        return load_recipe(str(folder.path)).recipe.sources == recipe.sources
    except InputError:
        return False


def _command_to_read(recipe: Recipe, folder: RunFolder, path: Path) -> str:
    if path.resolve() == folder.recipe.resolve():
        return f"{command('run', folder.path)} --until sources"
    is_own = folder.path != Path("runs") / recipe.name
    out = f" --out {shlex.quote(str(folder.path))}" if is_own else ""
    return f"{command('run', path)}{out} --until sources"


def kept_tools(folder: RunFolder) -> ToolCollection:
    """The tools as they were read last, and what was said of them.

    Raises:
        InputError: a file can't be read.
    """
    info = folder.bank / "sources.json"
    noted = read_json(info) if info.is_file() else {}
    tools = read_tools(folder.bank / "tools.parquet")
    return ToolCollection(
        tools,
        noted,
        problems=tuple(noted.get("problems", ())),
        notes=tuple(noted.get("notes", ())),
    )
