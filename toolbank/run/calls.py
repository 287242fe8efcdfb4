"""The accounts of stages and retrievers that ask a model: their calls, as files have them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.system.files import read_json, write_json

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig
    from toolbank.recipe import Recipe
    from toolbank.run.folder import RunFolder


def refresh_calls(
    path: Path, config: EngineConfig, folder: RunFolder
) -> tuple[Path, ...]:
    """Write the calls of a done stage as the journal and the prices have them now.

    They stand in the JSON file at `path` under "calls". Gives the file if it was changed.
    """
    from toolbank.llm.accounts import describe_calls
    from toolbank.llm.journal import Journal

    if not folder.journal.is_file():
        return ()
    info = read_json(path)
    with Journal(folder.journal) as journal:
        calls = describe_calls(journal.usage(), config)
    if info.get("calls") == calls:
        return ()
    write_json(path, {**info, "calls": calls})
    return (path,)


def write_searches(recipe: Recipe, folder: RunFolder) -> tuple[Path, ...]:
    """Write what retrievers have asked of models, as their journals and the prices have it now.

    Gives the file if it was changed; without such retrievers there is none.
    """
    found = describe_searches(recipe)
    path = folder.searches
    if not found:
        path.unlink(missing_ok=True)
        return ()
    if path.is_file() and read_json(path) == found:
        return ()
    write_json(path, found)
    return (path,)


def describe_searches(recipe: Recipe) -> dict[str, Any]:
    """`SearchCalls` as JSON, by the labels of retrievers; those of one journal stand together."""
    from toolbank.llm.accounts import describe_calls
    from toolbank.llm.journal import Journal

    labels: dict[tuple[Path, tuple[str, ...]], list[str]] = {}
    configs = {config.label: config.asks for config in recipe.retrievers if config.asks}
    for label, asks in configs.items():
        labels.setdefault((asks.known_replies, asks.call_steps), []).append(label)
    found = {}
    for (replies, _), together in labels.items():
        asks = configs[together[0]]
        if not replies.is_file():
            continue
        with Journal(replies, read_only=True) as journal:
            calls = describe_calls(journal.usage(), asks)
        if calls:
            found[", ".join(together)] = {"section": asks.section, "calls": calls}
    return found
