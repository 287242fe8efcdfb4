"""Count the calls of a run: replies, tokens, dollars, failed tries and latencies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from toolbank.system.errors import InputError
from toolbank.system.files import read_text
from toolbank.system.numbers import count

if TYPE_CHECKING:
    from toolbank.llm.chat import ChatReply, ChatRequest, EngineError
    from toolbank.llm.config import EngineConfig, Price
    from toolbank.llm.journal import StepUsage


_MILLION = 1_000_000


def resolve_price(config: EngineConfig) -> Price | None:
    """Find the price of the configured model; None if it is unknown.

    Raises:
        InputError: as of `known_prices`.
    """
    return known_prices(config).get(config.model)


def known_prices(config: EngineConfig) -> dict[str, Price]:
    """Find prices by model, from the configuration or from the YAML file that it names.

    The file has a line for each model, such as `some-model: {input: 0.15, output: 0.6}`.

    Raises:
        InputError: the file is missing or has no valid prices; the message names line and key.
    """
    prices: dict[str, Price] = {}
    for one in config.panel:
        if isinstance(one.price, Path):
            prices |= _read(one.price)
        elif one.price is not None:
            prices[one.model] = one.price
    return prices


def _read(path: Path) -> dict[str, Price]:
    from pydantic import TypeAdapter, ValidationError

    from toolbank.config.explain import explain
    from toolbank.config.yaml import parse_mapping
    from toolbank.llm.config import Price

    data, lines = parse_mapping(read_text(path), str(path))
    prices = TypeAdapter(dict[str, Price])
    try:
        return prices.validate_python(data)
    except ValidationError as error:
        message = explain(error, prices.json_schema(), str(path), lines, ())
        raise InputError(message) from error


def cost(price: Price, prompt_tokens: float, completion_tokens: float) -> float:
    """Compute the dollars for so many tokens in and out."""
    dollars = price.input * prompt_tokens + price.output * completion_tokens
    return dollars / _MILLION


_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class StepCalls:
    """The calls of one step, as in bank.json and judge.json; times in seconds.

    For `estimated` replies and failed tries, the endpoint did not report the tokens.
    """

    replies: _Count
    prompt_tokens: _Count
    completion_tokens: _Count
    dollars: _Amount | None
    failed_tries: dict[str, _Count]
    latency_s: dict[str, _Amount]
    estimated: _Count = 0

    @property
    def note(self) -> str:
        """Which tokens are estimated; "" if none are."""
        return describe_estimated(self.estimated)


@dataclass(frozen=True)
class SearchCalls:
    """The calls of retrievers to a model, by step, and their recipe section."""

    section: str
    calls: dict[str, StepCalls]


def describe_calls(
    usage: Iterable[StepUsage], config: EngineConfig
) -> dict[str, dict[str, Any]]:
    """Sum up the calls of a run folder by step, as in bank.json and judge.json.

    Each step has `replies`, `prompt_tokens`, `completion_tokens`, `dollars` (None if a price or
    the tokens are unknown), `failed_tries` by reason, `latency_s` (p50, p90, p99 and max; empty
    if none was measured), and `estimated`, the number of replies whose tokens were not reported,
    if there are any. Replies of other models and settings in the folder count too, each at its own
    model's price; the latencies are those of the model and settings with most replies.

    Raises:
        InputError: the price file can't be read.
    """
    rows = own_usage(usage, config)
    prices = known_prices(config)
    by_step = {
        step: [row for row in rows if row.step == step] for step in config.call_steps
    }
    added = {
        step: asdict(add_up_calls(_price(row, prices, config.model) for row in same))
        for step, same in by_step.items()
        if same
    }
    for calls in added.values():
        if not calls["estimated"]:
            del calls["estimated"]
    return added


def describe_estimated(estimated: int) -> str:
    """Say for how many calls the tokens are estimated, such as "estimated for 3 calls"."""
    return f"estimated for {count(estimated, 'call')}" if estimated else ""


def add_up_calls(parts: Iterable[StepCalls]) -> StepCalls:
    """Add up calls, with the latencies of the part with most replies.

    The dollars are unknown (None) if those of any part with replies are.
    """
    parts = list(parts)
    costs = [one.dollars for one in parts if one.replies]
    known = [dollars for dollars in costs if dollars is not None]
    failed: Counter[str] = Counter()
    for one in parts:
        failed.update(one.failed_tries)
    return StepCalls(
        sum(one.replies for one in parts),
        sum(one.prompt_tokens for one in parts),
        sum(one.completion_tokens for one in parts),
        round(sum(known), 6) if len(known) == len(costs) else None,
        dict(sorted(failed.items())),
        dict(max(parts, key=lambda one: one.replies).latency_s),
        sum(one.estimated for one in parts),
    )


def model_of(identity: str, default: str) -> str:
    """Find the model that an engine's identity names, or `default`."""
    try:
        settings = json.loads(identity)
    except ValueError:
        return default
    return (
        str(settings.get("model", default)) if isinstance(settings, dict) else default
    )


def own_usage(usage: Iterable[StepUsage], config: EngineConfig) -> list[StepUsage]:
    """Select the steps of this configuration's calls."""
    return [row for row in usage if row.step in config.call_steps]


def _price(row: StepUsage, prices: Mapping[str, Price], model: str) -> StepCalls:
    return StepCalls(
        row.replies,
        row.prompt_tokens,
        row.completion_tokens,
        cost_of(row, prices, model),
        dict(row.failed_tries),
        dict(row.latency),
        row.estimated,
    )


def cost_of(row: StepUsage, prices: Mapping[str, Price], model: str) -> float | None:
    """Compute the dollars; None if the price or the tokens are unknown.

    The price is that of the model that the row's identity names, or of `model`.
    """
    price = prices.get(model_of(row.identity, model))
    if price is None or not (row.prompt_tokens or row.completion_tokens):
        return None
    return cost(price, row.prompt_tokens, row.completion_tokens)


@dataclass
class CallCounts:
    """The number of calls and tokens in a run; `retries` and `failures` by reason.

    For `estimated` replies and failed tries, the endpoint did not report the tokens.
    """

    asked: int = 0
    from_journal: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: int = 0
    retries: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)

    def add(self, reply: ChatReply) -> None:
        """Count a reply of a call."""
        self.asked += 1
        self.charge(reply)

    def charge(self, call: ChatReply | EngineError) -> None:
        """Count the tokens of a reply, or of a failed try that was charged for."""
        self.prompt_tokens += call.prompt_tokens
        self.completion_tokens += call.completion_tokens
        self.estimated += call.estimated

    def summary(self) -> str:
        """Summarize the counts in a line.

        Such as "27 replies asked for (41,210 tokens in, 9,300 out; 3 retries: http-429 2,
        timeout 1), 12 from the journal".
        """
        details = []
        if self.prompt_tokens or self.completion_tokens:
            estimated = describe_estimated(self.estimated)
            details.append(
                f"{self.prompt_tokens:,} tokens in, {self.completion_tokens:,} out"
                f"{estimated and ', ' + estimated}"
            )
        if self.retries:
            retries = count(self.retries.total(), "retry", "retries")
            details.append(f"{retries}: {join_reasons(self.retries)}")
        if self.failures:
            failures = count(self.failures.total(), "failed call")
            details.append(f"{failures}: {join_reasons(self.failures)}")
        asked = count(self.asked, "reply", "replies")
        particulars = f" ({'; '.join(details)})" if details else ""
        return f"{asked} asked for{particulars}, {self.from_journal:,} from the journal"


def join_reasons(reasons: Counter[str]) -> str:
    """List reasons, such as "http-429 2, timeout 1", the most common first."""
    return ", ".join(f"{reason} {n:,}" for reason, n in rank_reasons(reasons))


def rank_reasons(reasons: Counter[str]) -> list[tuple[str, int]]:
    """Sort reasons with their counts, the most common first, then by name."""
    return sorted(reasons.items(), key=lambda item: (-item[1], item[0]))


# In English.
CHARACTERS_PER_TOKEN = 4
# The estimated tokens of a completion before the first one.
FIRST_COMPLETION = 300.0


def estimate_prompt(request: ChatRequest) -> float:
    """Estimate the tokens of a request's messages from their characters."""
    return count_characters(request) / CHARACTERS_PER_TOKEN


def count_characters(request: ChatRequest) -> int:
    """Count the characters of a request's messages."""
    return sum(len(message.content) for message in request.messages)
