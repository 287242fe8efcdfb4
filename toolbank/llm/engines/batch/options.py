"""The options of the batch engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from toolbank.config.base import Config
from toolbank.config.explain import first_problem
from toolbank.llm.engines.openai.completion import Format
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig

# Of the Batch API, for one file.
MOST_REQUESTS = 50_000
MOST_BYTES = 200 * 1000 * 1000


class BatchOptions(Config):
    """How a recipe's `options` may tell the batch engine to go about it."""

    submit: bool = Field(
        default=False, description="upload, poll and fetch by the endpoint's Batch API"
    )
    max_requests: int = Field(
        default=MOST_REQUESTS,
        ge=1,
        le=MOST_REQUESTS,
        description="requests a file; fewer where the account's queue of tokens is short",
    )
    answer_as: Format = Field(
        default="json_schema",
        description="how structured output is asked for; an endpoint may know less",
    )


def read_options(config: EngineConfig) -> BatchOptions:
    """The options of a configuration.

    Raises:
        InputError: one of them has no such value; the message names the key.
    """
    try:
        return BatchOptions.model_validate(config.options)
    except ValidationError as error:
        raise InputError(f"{config.section}.options.{first_problem(error)}.") from error
