"""A look at what is asked for single tools, and what comes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from toolbank.commands.preview.exchanges import advise_endpoint, carry, format_exchanges
from toolbank.commands.show.asks import format_answered
from toolbank.commands.show.transcript import format_prompt
from toolbank.requests.asks.write import Asker
from toolbank.requests.asks.writers import find_ask_writer

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.llm.journal import Journal
    from toolbank.requests.asks.config import AsksConfig
    from toolbank.requests.asks.prompts import Answered
    from toolbank.run.recipe import Recipe


def preview_asks(
    recipe: Recipe,
    config: AsksConfig,
    tools: Sequence[Tool],
    count: int,
    journal: Journal,
) -> Iterator[str]:
    """Ask for `count` tools, evenly spread over the bank, and show all of it.

    Of an engine that answers in rounds, only the prompts.

    Raises:
        ToolbankError: the endpoint refuses, or it was interrupted; what there was is shown before.
    """
    asker = Asker(tools, config, recipe.domain_name, recipe.seed, journal)
    total = len(asker.groups)
    numbers = sorted({place * total // count for place in range(count)})
    titles = {n: f"asks for {asker.groups[n][0].name}" for n in numbers}
    if find_ask_writer(config).in_rounds:
        advice = advise_endpoint(asker.engine.name, config)
        for number, title in titles.items():
            yield format_prompt(title, asker.request(number), advice)
        return
    answered: dict[int, Answered] = {}

    async def ask(number: int) -> None:
        answered[number] = await asker.ask(number)

    stopped = carry(asker.pool, ask, numbers)
    for number, title in titles.items():
        ending = format_answered(answered[number]) if number in answered else ""
        attempt = asker.request(number).attempt
        yield from format_exchanges(title, attempt, journal, ending)
    if stopped is not None:
        raise stopped
