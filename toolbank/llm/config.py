"""Configuration of the engines: who writes, and how it is reached."""

import re
from typing import Any, Literal

from pydantic import Field, field_validator

from toolbank.config import Config

_VARIABLE = r"^[A-Z_][A-Z0-9_]*$"


class EngineConfig(Config):
    """What it takes to reach a writing model. The key itself is read from the environment."""

    engine: Literal["openai", "recorded", "rules"] = "openai"
    base_url: str = Field(
        default="https://api.openai.com/v1",
        pattern=r"^https?://[^@?#]+$",
        description="of an OpenAI-compatible endpoint; no key or password in it",
    )
    model: str = Field(default="", description="as the endpoint names it")
    api_key_env: str = Field(
        default="OPENAI_API_KEY",
        pattern=_VARIABLE,
        description="NAME of the environment variable that holds the key",
    )
    temperature: float = Field(default=0.9, ge=0, le=2)
    max_tokens: int = Field(default=4096, ge=1)
    timeout: float = Field(default=120, gt=0, description="seconds a call may take")
    retries: int = Field(default=5, ge=0, description="further tries of a failed call")
    concurrency: int = Field(default=16, ge=1, le=4096, description="calls in flight")

    @field_validator("api_key_env", mode="before")
    @classmethod
    def _check_name(cls, value: Any) -> Any:
        if isinstance(value, str) and not re.fullmatch(_VARIABLE, value):
            raise ValueError(
                "should be the NAME of an environment variable in capitals, such as "
                "OPENAI_API_KEY, and never the key itself"
            )
        return value
