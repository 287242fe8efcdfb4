"""What calls came to: replies, tokens, dollars, failed tries and latencies, by step."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from toolbank.llm.prices import cost, known_prices
from toolbank.system.numbers import count

if TYPE_CHECKING:
    from toolbank.journal import StepUsage
    from toolbank.llm.config import EngineConfig, Price

_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class StepCalls:
    """The calls of one step, as bank.json and judge.json have them; times in seconds.

    Of `estimated` replies and failed tries, the endpoint did not report the tokens.
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
        """What of the tokens and dollars is estimated; "" where nothing is."""
        return describe_estimated(self.estimated)


@dataclass(frozen=True)
class SearchCalls:
    """The calls of retrievers that ask a model, by step, and the part of a recipe they are of."""

    section: str
    calls: dict[str, StepCalls]


def describe_calls(
    usage: Iterable[StepUsage], config: EngineConfig
) -> dict[str, dict[str, Any]]:
    """The calls of a run folder by step, as bank.json and judge.json have them.

    Each step has `replies`, `prompt_tokens`, `completion_tokens`, `dollars` (None where a price
    is not known or the endpoint told no tokens), `failed_tries` by reason and `latency_s` (p50,
    p90, p99 and max in seconds; empty where none was measured), and `estimated` where tokens of
    any reply were not reported by the endpoint: of how many. Replies of other models and
    settings that the folder was used with count too, each at its own model's price; of the
    latencies, those of the model and settings with most replies are given.

    Raises:
        InputError: the file of prices can't be read.
    """
    rows = own_usage(usage, config)
    price_of = find_prices(config)
    by_step = {
        step: [row for row in rows if row.step == step] for step in config.call_steps
    }
    added = {
        step: asdict(add_up_calls(_price(row, price_of) for row in same))
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
    """Calls together, with the latencies of the part with most replies.

    Their dollars are unknown (None) where those of any part with replies are.
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
    """The model that an engine's identity names; `default` where it names none."""
    try:
        settings = json.loads(identity)
    except ValueError:
        return default
    return (
        str(settings.get("model", default)) if isinstance(settings, dict) else default
    )


def own_usage(usage: Iterable[StepUsage], config: EngineConfig) -> list[StepUsage]:
    """Those of the steps that calls by this configuration are made in."""
    return [row for row in usage if row.step in config.call_steps]


def find_prices(config: EngineConfig) -> Callable[[str], Price | None]:
    """The price of a model by its identity.

    Raises:
        InputError: the file of prices can't be read.
    """
    known = known_prices(config)
    return lambda identity: known.get(model_of(identity, config.model))


def _price(row: StepUsage, price_of: Callable[[str], Price | None]) -> StepCalls:
    return StepCalls(
        row.replies,
        row.prompt_tokens,
        row.completion_tokens,
        cost_of(row, price_of(row.identity)),
        dict(row.failed_tries),
        dict(row.latency),
        row.estimated,
    )


def cost_of(row: StepUsage, price: Price | None) -> float | None:
    """Dollars, or None where the price is not known or the endpoint told no tokens."""
    if price is None or not (row.prompt_tokens or row.completion_tokens):
        return None
    return cost(price, row.prompt_tokens, row.completion_tokens)
