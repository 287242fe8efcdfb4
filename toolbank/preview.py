"""A look at what the writer is asked and answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from toolbank import aio
from toolbank.folder import RunFolder
from toolbank.generate.attempt import Writer
from toolbank.generate.fold import Attempt
from toolbank.journal import Entry, Journal
from toolbank.recipe import Recipe
from toolbank.stages import current_tools


def preview_attempts(recipe: Recipe, out: Path, count: int) -> list[str]:
    """Make the first `count` attempts of a recipe and tell all of each.

    Nothing is kept but the pages of a crawl, which are in the run folder's cache.

    Raises:
        InputError: the recipe asks for what can't be.
        ToolbankError: the endpoint refuses.
    """
    tools = current_tools(recipe, RunFolder(out))
    with TemporaryDirectory() as name, Journal(Path(name, "journal.sqlite")) as journal:
        writer = Writer(
            tools, recipe.generate, recipe.domain_name, recipe.seed, journal
        )
        attempts = aio.run(_attempt(writer, count))
        entries = list(journal.entries())
    return [
        "\n".join(_tell(attempt, [e for e in entries if e.attempt == attempt.number]))
        for attempt in attempts
    ]


async def _attempt(writer: Writer, count: int) -> list[Attempt]:
    try:
        numbers = [n for n in range(count) if writer.offer(n) is not None]
        return await asyncio.gather(*(writer.attempt(n) for n in numbers))
    finally:
        await writer.engine.close()


def _tell(attempt: Attempt, entries: list[Entry]) -> Iterator[str]:
    yield f"{'=' * 30} attempt {attempt.number} {'=' * 30}"
    for entry in entries:
        for message in entry.messages:
            yield f"--- {entry.stage}: {message['role']}\n{message['content'].strip()}\n"
        yield f"--- {entry.stage}: reply of {entry.reply.model}\n{entry.reply.text.strip()}\n"
    if attempt.query is not None:
        yield f">>> accepted: {attempt.query.query}"
    else:
        detail = f" ({attempt.detail})" if attempt.detail else ""
        yield f">>> {attempt.outcome}: {attempt.reason or 'nothing belongs together'}{detail}"
