"""What calls cost, by prices that the user gives: none comes along, since prices age."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.system.errors import InputError
from toolbank.system.files import read_text

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig, Price

_MILLION = 1_000_000


def resolve_price(config: EngineConfig) -> Price | None:
    """The price of the configured model, or None where it isn't known.

    Raises:
        InputError: as of `known_prices`.
    """
    return known_prices(config).get(config.model)


def known_prices(config: EngineConfig) -> dict[str, Price]:
    """Prices by model: that of the configuration, or those of the YAML file that it names.

    Such a file has a line for each model, such as `some-model: {input: 0.15, output: 0.6}`.

    Raises:
        InputError: the file is missing or not one of prices; the message names line and key.
    """
    if isinstance(config.price, Path):
        return _read(config.price)
    return {} if config.price is None else {config.model: config.price}


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
    """Dollars for so many tokens in and out."""
    dollars = price.input * prompt_tokens + price.output * completion_tokens
    return dollars / _MILLION
