"""The base of every stage's configuration: frozen, and strict about unknown keys."""

from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, model_validator


class Config(BaseModel):
    """A part of a recipe. Unknown keys are errors; values can't be changed after reading."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _take_no_truth_for_a_number(cls, data: Any) -> Any:
        """Have true and false be words where a number belongs: they would count as 1 and 0."""
        if not isinstance(data, dict):
            return data
        numbers = {
            name for name, field in cls.model_fields.items() if _is_number(field)
        }
        return {k: _as_word(v) if k in numbers else v for k, v in data.items()}


def renamed(**keys: str) -> ConfigDict:
    """For a subclass's `model_config`: what keys of an earlier version are called now."""
    return ConfigDict(json_schema_extra={"renamed": dict(keys)})


def _is_number(field: Any) -> bool:
    types = _types(field.annotation)
    return bool(types & {int, float}) and not types & {bool, str, Path, Any}


def _types(annotation: Any) -> set[Any]:
    inner = [one for one in get_args(annotation) if one is not ...]
    return set().union(*map(_types, inner)) if inner else {annotation}


def _as_word(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return [_as_word(one) for one in value] if isinstance(value, list) else value
