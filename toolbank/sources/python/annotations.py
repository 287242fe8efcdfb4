"""What annotations of a package say of values: choices of enumerations, properties of models."""

import dataclasses
import enum
import inspect
import json
import warnings
from typing import Any, get_args, is_typeddict

from pydantic import BaseModel, TypeAdapter

_MOST_CHARACTERS = 20_000


def read_annotations(value: Any) -> dict[str, dict[str, Any]]:
    """JSON Schemas by name of the parameters that take an enumeration, a model or a record.

    Classes that a schema refers to stand in its own `$defs`. What can't be said in JSON Schema, or
    takes over 20,000 characters, has none.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            parameters = inspect.signature(value, eval_str=True).parameters
        except Exception:  # an annotation may be any expression
            return {}
        found = {
            name: _schema_of(parameter.annotation)
            for name, parameter in parameters.items()
            if _is_described(parameter.annotation)
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        }
    return {name: schema for name, schema in found.items() if schema}


def _is_described(annotation: Any) -> bool:
    if inspect.isclass(annotation) and not get_args(annotation):
        is_record = dataclasses.is_dataclass(annotation) or is_typeddict(annotation)
        return is_record or issubclass(annotation, enum.Enum | BaseModel)
    return any(map(_is_described, get_args(annotation)))


def _schema_of(annotation: Any) -> dict[str, Any]:
    try:
        schema = TypeAdapter(annotation).json_schema()
        text = json.dumps(schema, allow_nan=False)
    except Exception:  # classes of any package may raise anything here
        return {}
    return schema if len(text) <= _MOST_CHARACTERS else {}
