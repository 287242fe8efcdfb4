"""A look at what the writer of requests for several tools is asked and answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from toolbank.commands.preview.exchanges import advise_endpoint, carry, format_exchanges
from toolbank.commands.show.transcript import format_ending, format_prompt
from toolbank.requests.write.attempts import Attempt, AttemptMaker
from toolbank.requests.write.writers import find_writer

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.llm.journal import Journal
    from toolbank.run.recipe import Recipe


def preview_generation(
    recipe: Recipe, tools: Sequence[Tool], count: int, journal: Journal
) -> Iterator[str]:
    """Make the first `count` attempts and show all of each.

    Of an engine that answers in rounds, only the first prompt of each.

    Raises:
        ToolbankError: the endpoint refuses, or it was interrupted; what there was is shown before.
    """
    config = recipe.generate
    maker = AttemptMaker(tools, config, recipe.domain_name, recipe.seed, journal)
    numbers = [number for number in range(count) if maker.offer(number) is not None]
    if find_writer(config).in_rounds:
        for number in numbers:
            if request := maker.write_request(number):
                advice = advise_endpoint(maker.engine.name, config)
                yield format_prompt(f"attempt {number}", request, advice)
        return
    attempts: dict[int, Attempt] = {}

    async def make(number: int) -> None:
        attempts[number] = await maker.attempt(number)

    stopped = carry(maker.pool, make, numbers)
    for number in numbers:
        ending = _end(attempts.get(number))
        yield from format_exchanges(f"attempt {number}", number, journal, ending)
    if stopped is not None:
        raise stopped


def _end(attempt: Attempt | None) -> str:
    if attempt is None:
        return ""
    if attempt.query is not None:
        return f"accepted: {attempt.query.query}"
    return format_ending(attempt.outcome, attempt.reason, attempt.detail)
