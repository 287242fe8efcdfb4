"""What the calls to come take: what the journal holds of them, tokens, money, time."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.llm.accounts import (
    CHARACTERS_PER_TOKEN,
    cost,
    describe_estimated,
    resolve_price,
)
from toolbank.system.numbers import about, count, dollars, duration, rate, seconds, span

if TYPE_CHECKING:
    from toolbank.commands.plan.forecast import Forecast
    from toolbank.llm.config import EngineConfig

_WIDTH = 88
_INDENT = 11
# What a call of a step is, where its name does not say it.
_CALLS = {"judge": "comparison", "ask": "call", "rank": "call", "decompose": "call"}
# What many endpoints take, where `concurrency: auto` has still to find it.
_AT_ONCE = 64


def describe_forecast(forecast: Forecast, config: EngineConfig) -> Iterator[str]:
    """Labelled paragraphs; of the time only where latencies were measured."""
    held = sum(forecast.history.held(step.step) for step in forecast.steps)
    if held:
        yield from format_paragraph(
            "journal",
            f"holds {count(held, 'reply', 'replies')} already, not asked for again",
        )
    if held and not forecast.calls(most=True):
        return
    yield from format_paragraph("tokens", _tokens(forecast))
    yield from format_paragraph("cost", _cost(forecast, config))
    if forecast.history.latency:
        time = _time(forecast, config, forecast.history.latency)
        yield from format_paragraph("time", time)


def format_share(accepted: float | None) -> str:
    """What a number of calls supposes, to stand behind it; "" where nothing is known."""
    if accepted is None:
        return ""
    return f", if {100 * accepted:.0f} % of the attempts are accepted as up to now"


def format_paragraph(label: str, text: str) -> list[str]:
    """The lines of a labelled paragraph."""
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"  {label:<{_INDENT - 2}}",
        subsequent_indent=" " * _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _tokens(forecast: Forecast) -> str:
    low, high = (forecast.tokens(most=most) for most in (False, True))
    each = "; ".join(
        f"a {_CALLS.get(step.step, step.step)} about {about(step.prompt_tokens)} in and "
        f"{about(step.completion_tokens)} out"
        for step in forecast.steps
    )
    prompts = count(forecast.prompts, "prompt")
    counted = (
        f"Counted on {prompts}, by the tokens that the journal reports{_estimated(forecast)}"
        if forecast.history.characters_per_token
        else f"Counted on {prompts} and on answers as long as the examples', at "
        f"{CHARACTERS_PER_TOKEN} characters a token; models that think first write more"
    )
    return (
        f"about {span(about(low[0]), about(high[0]))} in, "
        f"{span(about(low[1]), about(high[1]))} out: {each}. {counted}."
    )


def _estimated(forecast: Forecast) -> str:
    """How many of the journal's tokens no endpoint reported."""
    rows = forecast.history.usage.values()
    estimated = describe_estimated(sum(row.estimated for row in rows))
    return f", which are {estimated}" if estimated else ""


def _cost(forecast: Forecast, config: EngineConfig) -> str:
    price = resolve_price(config)
    if price is None and isinstance(config.price, Path):
        return f"unknown: {config.price.name} has no price of {config.model}"
    if price is None:
        return (
            f"unknown: set {config.section}.price to dollars a million tokens, such as "
            "{input: 0.15, output: 0.6}, or to a YAML file of prices by model"
        )
    low, high = (cost(price, *forecast.tokens(most=most)) for most in (False, True))
    return (
        f"about {span(dollars(low), dollars(high))}, at {rate(price.input)} a million tokens "
        f"in and {rate(price.output)} out"
    )


def _time(forecast: Forecast, config: EngineConfig, latency: float) -> str:
    at_once = _AT_ONCE if config.concurrency == "auto" else config.concurrency
    doubts = " (auto may find more or fewer)" if config.concurrency == "auto" else ""

    def wait(*, most: bool) -> str:
        calls, tokens = forecast.calls(most=most), sum(forecast.tokens(most=most))
        per_minute = (calls, config.rpm), (tokens, config.tpm)
        minutes = max((n / limit for n, limit in per_minute if limit), default=0)
        return duration(max(calls * latency / at_once, 60 * minutes))

    calls = count(at_once, "call")
    return (
        f"about {span(wait(most=False), wait(most=True))} with {calls} at once{doubts} of "
        f"{seconds(latency)} each, as in the journal"
    )
