"""The base of every stage's configuration: frozen, and strict about unknown keys."""

from pydantic import BaseModel, ConfigDict


class Config(BaseModel):
    """A part of a recipe. Unknown keys are errors; values can't be changed after reading."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def renamed(**keys: str) -> ConfigDict:
    """For a subclass's `model_config`: what keys of an earlier version are called now."""
    return ConfigDict(json_schema_extra={"renamed": dict(keys)})
