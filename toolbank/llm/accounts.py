"""What calls came to: replies, tokens, dollars, failed tries and latencies, by step."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from toolbank.llm.prices import cost, known_prices

if TYPE_CHECKING:
    from toolbank.journal import StepUsage
    from toolbank.llm.config import EngineConfig, Price


def describe_calls(
    usage: Iterable[StepUsage], config: EngineConfig
) -> dict[str, dict[str, Any]]:
    """The calls of a run folder by step, as bank.json and judge.json have them.

    Each step has `replies`, `prompt_tokens`, `completion_tokens`, `dollars` (None where a price
    is not known or the endpoint told no tokens), `failed_tries` by reason and `latency_s` (p50,
    p90, p99 and max in seconds; empty where none was measured). Replies of other models and
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
    return {step: _add_up(same, price_of) for step, same in by_step.items() if same}


def _model_of(identity: str, default: str) -> str:
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
    return lambda identity: known.get(_model_of(identity, config.model))


def _add_up(
    rows: Sequence[StepUsage], price_of: Callable[[str], Price | None]
) -> dict[str, Any]:
    failed: Counter[str] = Counter()
    for row in rows:
        failed.update(row.failed_tries)
    costs = [cost_of(row, price_of(row.identity)) for row in rows if row.replies]
    known = [dollars for dollars in costs if dollars is not None]
    return {
        "replies": sum(row.replies for row in rows),
        "prompt_tokens": sum(row.prompt_tokens for row in rows),
        "completion_tokens": sum(row.completion_tokens for row in rows),
        "dollars": round(sum(known), 6) if len(known) == len(costs) else None,
        "failed_tries": dict(sorted(failed.items())),
        "latency_s": dict(max(rows, key=lambda row: row.replies).latency),
    }


def cost_of(row: StepUsage, price: Price | None) -> float | None:
    """Dollars, or None where the price is not known or the endpoint told no tokens."""
    if price is None or not (row.prompt_tokens or row.completion_tokens):
        return None
    return cost(price, row.prompt_tokens, row.completion_tokens)
