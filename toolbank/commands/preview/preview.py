"""A look at what writers are asked and answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from toolbank.commands.preview.asks import preview_asks
from toolbank.commands.preview.generation import preview_generation
from toolbank.llm.journal import Journal
from toolbank.requests.asks.writers import find_ask_writer
from toolbank.requests.write.writers import find_writer
from toolbank.run.catalogue import keep_domain
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import Recipe
from toolbank.run.stages.dataset import read_split
from toolbank.run.stages.sources import current_tools
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.outputs import check_run_folder
from toolbank.system.trust import demand

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.engines.kind import EngineKind


class PreviewStoppedError(ToolbankError):
    """A preview that was stopped by `error`; `shown` is what there was before."""

    def __init__(self, error: ToolbankError, shown: list[str]) -> None:
        super().__init__(str(error))
        self.error = error
        self.shown = shown


def preview_attempts(
    recipe: Recipe, out: Path, count: int, path: Path | None = None
) -> list[str]:
    """Make the first `count` attempts of a recipe, and ask for `count` tools; show all of it.

    Of an engine that answers in rounds, such as `batch`, only the first prompt of each. Nothing
    is kept but the pages of a crawl, which are in the run folder's cache. `path` is the recipe's file,
    which advice names.

    Raises:
        InputError: the recipe asks for what can't be.
        PreviewStoppedError: the endpoint refuses, or it was interrupted.
    """
    if recipe.dataset is not None and recipe.asks is None:
        raise InputError(
            f"{recipe.name}: its queries come from a dataset; nothing is written that could "
            "be looked at before."
        )
    check_run_folder(out)
    recipe = keep_domain(recipe, RunFolder(out))
    if recipe.dataset is None:
        _check(find_writer(recipe.generate), recipe.generate)
    if recipe.asks is not None:
        _check(find_ask_writer(recipe.asks), recipe.asks)
    tools = (
        current_tools(recipe, RunFolder(out), path or Path(recipe.name)).tools
        if recipe.dataset is None
        else read_split(recipe).tools
    )
    shown: list[str] = []
    with TemporaryDirectory() as name, Journal(Path(name, "journal.sqlite")) as journal:
        try:
            # What came before an error stays in the list.
            shown.extend(_preview(recipe, tools, count, journal))
        except InputError:
            raise
        except ToolbankError as error:
            raise PreviewStoppedError(error, shown) from error
    return shown


def _check(kind: EngineKind[Any], config: EngineConfig) -> None:
    kind.check(config)
    demand(kind.sends(config), config.section)
    kind.check_access(config)


def _preview(
    recipe: Recipe, tools: Sequence[Tool], count: int, journal: Journal
) -> Iterator[str]:
    if recipe.dataset is None:
        yield from preview_generation(recipe, tools, count, journal)
    if recipe.asks is not None:
        yield from preview_asks(recipe, recipe.asks, tools, count, journal)
