"""How many tools an attempt is offered, and its query may use."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from toolbank.bank.records import Tool
from toolbank.generate.config import GenerateConfig
from toolbank.generate.families import Families
from toolbank.system.errors import InputError
from toolbank.system.numbers import count


def fit_to_tools(config: GenerateConfig, tools: Sequence[Tool]) -> GenerateConfig:
    """The settings for a bank of these tools: no more are offered, or asked for, than there are.

    A family counts as one tool where it is dealt as one.

    Raises:
        InputError: the bank has fewer than any query uses.
    """
    dealt = _count_dealt(config, tools)
    if dealt < config.fewest_tools:
        key = "tools_per_query" if config.tools_per_query else "min_tools"
        raise InputError(
            f"generate.{key}: a query uses {count(config.fewest_tools, 'tool')} at least, and "
            f"the bank has {dealt} to offer. Add sources, or ask for fewer."
        )
    shares = config.tools_per_query and {
        number: share
        for number, share in config.tools_per_query.items()
        if number <= dealt
    }
    return config.model_copy(
        update={
            "offered": min(config.offered, dealt),
            "max_tools": min(config.most_tools, dealt),
            "tools_per_query": shares,
        }
    )


def describe_fit(config: GenerateConfig, tools: Sequence[Tool]) -> str:
    """What `fit_to_tools` changes, for people; "" if nothing."""
    dealt = _count_dealt(config, tools)
    if config.offered <= dealt:
        return ""
    held = count(dealt, "tool")
    if dealt < len(tools):
        held += " (siblings count as one)"
    said = f"offered: the bank has {held}, so that {dealt} and not {config.offered} "
    said += f"{'is' if dealt == 1 else 'are'} offered in an attempt"
    if config.most_tools > dealt:
        said += f", and a query uses at most {dealt}"
    return said


def _count_dealt(config: GenerateConfig, tools: Sequence[Tool]) -> int:
    return len(Families(tools, together=config.families))


def draw_numbers(config: GenerateConfig, seed: int, attempt: int) -> tuple[int, int]:
    """The most and the fewest tools that the query of this attempt may use."""
    random = Random(f"{seed}:{attempt}")
    if shares := config.tools_per_query:
        numbers = sorted(shares)
        [number] = random.choices(numbers, [shares[number] for number in numbers])
        return number, number
    return random.randint(config.fewest_tools, config.most_tools), config.fewest_tools
