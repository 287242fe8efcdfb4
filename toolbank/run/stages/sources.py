"""The stage that reads the tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbank.config.shape import shape
from toolbank.run.stage import Outcome, Stage
from toolbank.system.errors import ToolbankError
from toolbank.system.files import read_json
from toolbank.system.numbers import count
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from toolbank.config.assets import Asset
    from toolbank.recipe import Recipe
    from toolbank.run.folder import RunFolder
    from toolbank.sources.kind import Collected


class SourcesStage(Stage):
    """Collects the tools of all sources into bank/tools.parquet."""

    kind = "sources"

    @property
    def keeps(self) -> str:
        """What its sources keep."""
        from toolbank.sources.collect import describe_keeps

        return describe_keeps(self.recipe.sources)

    def depends(self) -> dict[str, Any]:
        """The sources, and what stands for their content."""
        from toolbank.sources.collect import source_versions

        return {
            "sources": [shape(source) for source in self.recipe.sources],
            "versions": source_versions(self.recipe.sources),
            "toolbank": __version__,
        }

    def work(self) -> Outcome:
        """Read every source; where anything was asked of the tools before, as another version.

        Raises:
            InputError: a source can't be read.
            ToolbankError: one gives under half of its former tools.
        """
        from toolbank.run.catalogue import has_begun
        from toolbank.run.keeping import explain_loss, keep_tools
        from toolbank.sources.collect import collect_tools

        collected = collect_tools(self.recipe.sources, self.folder.cache)
        # What was never asked about may go: a recipe is changed until it reads what it should.
        if has_begun(self.folder) and (loss := explain_loss(self.folder, collected)):
            raise ToolbankError(loss)
        files = keep_tools(self.recipe, self.folder, collected)
        return Outcome(
            count(len(collected.tools), "tool"),
            files,
            lacks="" if collected.complete else "some of the sources",
            problems=(*collected.notes, *collected.problems),
        )

    def read_ahead(self) -> None:
        """Read every source; the pages of a crawl stay."""
        from toolbank.sources.collect import collect_tools

        collect_tools(self.recipe.sources, self.folder.cache)

    def places(self) -> tuple[Path, ...]:
        """Where packages lie."""
        from toolbank.sources.collect import source_places

        return source_places(self.recipe.sources)

    def assets(self) -> tuple[Asset, ...]:
        """The files in crawlers/ that say what is read, and which tools are twins."""
        from toolbank.sources.collect import source_files

        return source_files(self.recipe.sources)


def current_tools(recipe: Recipe, folder: RunFolder) -> Collected:
    """The tools of a recipe: from the run folder if they are up to date, else read anew.

    A crawl keeps its pages in the run folder's cache, so that they are not fetched again.

    Raises:
        InputError: a source can't be read, or not without that a command is started.
    """
    from toolbank.sources.collect import collect_tools, refuse_to_start

    if SourcesStage(recipe, folder).is_done:
        return kept_tools(folder)
    refuse_to_start(recipe.sources, "toolbank run RECIPE --until sources")
    return collect_tools(recipe.sources, folder.cache)


def kept_tools(folder: RunFolder) -> Collected:
    """The tools as they were read last, and what was said of them.

    Raises:
        InputError: a file can't be read.
    """
    from toolbank.bank.files import read_tools
    from toolbank.sources.kind import Collected

    info = folder.bank / "sources.json"
    noted = read_json(info) if info.is_file() else {}
    tools = read_tools(folder.bank / "tools.parquet")
    return Collected(
        tools,
        noted,
        problems=tuple(noted.get("problems", ())),
        notes=tuple(noted.get("notes", ())),
    )
