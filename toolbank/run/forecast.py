"""Forecast the calls of a step: what the journal already holds, and what the rest will cost."""

from __future__ import annotations

import json
import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from toolbank.llm.accounts import (
    CHARACTERS_PER_TOKEN,
    cost,
    count_characters,
    describe_estimated,
    resolve_price,
)
from toolbank.llm.engines import ENGINES
from toolbank.llm.journal import Journal, StepUsage
from toolbank.llm.step import SAMPLE_SIZE
from toolbank.system.numbers import about, count, dollars, duration, rate, seconds, span

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.engines.kind import EngineKind
    from toolbank.llm.step import SampleCalls, StepSample

# The 90th percentile of the standard normal distribution.
_Z90 = 1.2815515655446004


@dataclass(frozen=True)
class History:
    """What a run folder's journal has of calls like those to come.

    `usage` are the replies of the same model and settings by step; `is_of_prompts` says that
    they answer this recipe's prompts, so that none is asked for again. `answered` is how many
    of the requests to come have a reply, where all of them were looked up. `characters_per_token`,
    by step, has those whose replies gave their tokens.
    """

    usage: Mapping[str, StepUsage] = field(default_factory=dict)
    is_of_prompts: bool = False
    answered: int | None = None
    characters_per_token: Mapping[str, float] = field(default_factory=dict)

    @property
    def latency(self) -> float | None:
        """Mean seconds of a call, by a lognormal through p50 and p90; None if not measured."""
        rows = [row for row in self.usage.values() if row.latency and row.replies]
        if not rows:
            return None
        seconds = sum(row.replies * _mean(row.latency) for row in rows)
        return seconds / sum(row.replies for row in rows)

    def held(self, step: str) -> int:
        """Replies of a step that are not asked for again."""
        if self.answered is not None:
            return self.answered
        row = self.usage.get(step)
        return row.replies if row and self.is_of_prompts else 0


def read_history(
    path: Path, config: EngineConfig, seed: int, sample: StepSample
) -> History:
    """Read what the journal at `path` holds of this model's replies; nothing if there is none.

    Where none of the first requests has a reply, prompts have changed.

    Raises:
        ToolbankError: the journal is damaged.
    """
    if not path.is_file():
        return History()
    kind: EngineKind[Any] = ENGINES.find(config.engine, f"{config.section}.engine")
    with Journal(path, read_only=True) as journal:
        rows = journal.usage()
        likely = max(rows, key=lambda row: row.replies, default=None)
        # Where a kind doesn't know it, that of most replies is taken.
        identity = kind.identity(config, seed) or (likely.identity if likely else "")
        keys = (request.key(identity) for request in sample.first)
        known = (journal.get(key) is not None for key in keys)
        attempts = {one.attempt for one in sample.first[:SAMPLE_SIZE]} or range(
            SAMPLE_SIZE
        )
        return History(
            usage={row.step: row for row in rows if row.identity == identity},
            is_of_prompts=sample.is_same or (not sample.is_all and any(known)),
            answered=sum(known) if sample.is_all else None,
            characters_per_token=_calibrate(journal, identity, attempts),
        )


def _calibrate(
    journal: Journal, identity: str, attempts: Iterable[int]
) -> dict[str, float]:
    """Characters of a prompt per token of it, by step, over some attempts of the journal."""
    characters: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for attempt in attempts:
        for entry in journal.entries(attempt):
            if entry.identity == identity and entry.reply.prompt_tokens:
                texts = [message["content"] for message in entry.messages]
                characters[entry.step] += sum(map(len, texts))
                tokens[entry.step] += entry.reply.prompt_tokens
    return {step: characters[step] / tokens[step] for step in tokens}


def _mean(latency: Mapping[str, float]) -> float:
    p50, p90 = latency["p50"], latency["p90"]
    if not 0 < p50 <= p90:
        return p50
    sigma = math.log(p90 / p50) / _Z90
    return p50 * math.exp(sigma**2 / 2)


@dataclass(frozen=True)
class StepForecast:
    """The calls of one step that are still to be made, and the tokens of one of them.

    `fewest` and `most` differ where it isn't known how many attempts are turned away.
    """

    step: str
    noun: str
    fewest: int
    most: int
    prompt_tokens: float
    completion_tokens: float


@dataclass(frozen=True)
class Forecast:
    """All calls of a stage, step by step, and what they are reckoned from.

    `prompts` is how many of each step were rendered.
    """

    steps: tuple[StepForecast, ...]
    history: History
    prompts: int

    def calls(self, *, most: bool) -> int:
        """The fewest calls, or the most."""
        return sum(s.most if most else s.fewest for s in self.steps)

    def tokens(self, *, most: bool) -> tuple[float, float]:
        """Tokens in and out of the fewest calls, or of the most."""
        counts = [(s.most if most else s.fewest, s) for s in self.steps]
        return (
            sum(n * s.prompt_tokens for n, s in counts),
            sum(n * s.completion_tokens for n, s in counts),
        )


def forecast_calls(
    sample: StepSample, history: History, numbers: Sequence[tuple[float, float]] = ()
) -> Forecast:
    """Reckon the calls that the journal doesn't hold, as long as those of a sample.

    `numbers` are the fewest and the most calls of each kind, where an attempt does not make one.
    """
    numbers = numbers or [(sample.total, sample.total)]
    steps = [
        _forecast_step(calls, number, history)
        for calls, number in zip(sample.calls, numbers, strict=True)
    ]
    return Forecast(tuple(steps), history, len(sample.calls[0].requests))


def _forecast_step(
    sample: SampleCalls, numbers: tuple[float, float], history: History
) -> StepForecast:
    step = sample.step
    held, used = history.held(step), history.usage.get(step)
    fewest, most = (max(0, math.ceil(n) - held) for n in numbers)
    per_token = history.characters_per_token.get(step, CHARACTERS_PER_TOKEN)
    if used and used.replies and used.completion_tokens:
        completion = used.completion_tokens / used.replies
    else:
        completion = fmean(len(json.dumps(one)) for one in sample.answers) / per_token
    prompt = fmean(map(count_characters, sample.requests)) / per_token
    return StepForecast(step, sample.noun, fewest, most, prompt, completion)


_WIDTH = 88
_INDENT = 11
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
        f"a {step.noun} about {about(step.prompt_tokens)} in and "
        f"{about(step.completion_tokens)} out"
        for step in forecast.steps
    )
    counted = f"Counted on {count(forecast.prompts, 'prompt')}"
    history = forecast.history
    if history.characters_per_token:
        counted += ", by the tokens that the journal reports"
        if note := describe_estimated(sum(r.estimated for r in history.usage.values())):
            counted += f", which are {note}"
    else:
        counted += (
            f" and on answers as long as the examples', at {CHARACTERS_PER_TOKEN} characters a "
            "token; models that think first write more"
        )
    return (
        f"about {span(about(low[0]), about(high[0]))} in, "
        f"{span(about(low[1]), about(high[1]))} out: {each}. {counted}."
    )


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
