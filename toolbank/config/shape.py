"""Which settings shape a result, so that a change of one makes it stale."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel

T = TypeVar("T")


class _Transport:
    """Marks a field whose value says how a result is come by, and not what it is."""


Transport = Annotated[T, _Transport()]
"""Type of a setting that shapes nothing, such as `timeout: Transport[float] = 120`."""


def shape(config: BaseModel) -> dict[str, Any]:
    """The settings that shape a result, as JSON.

    Left out at any depth of models, lists and dicts are fields of type `Transport`, and paths: a
    file counts by its content, wherever it lies.

    Raises:
        TypeError: a field's type has `Transport` within it, where it would say nothing.
    """
    settings = config.model_dump(mode="json")
    return {
        name: _shape(value, settings[name])
        for name, value in config
        if not is_transport(config, name) and not isinstance(value, Path)
    }


def _shape(value: Any, as_json: Any) -> Any:
    if isinstance(value, BaseModel):
        return shape(value)
    if isinstance(value, tuple | list):
        pairs = zip(value, as_json, strict=True)
        return [_shape(*pair) for pair in pairs if not isinstance(pair[0], Path)]
    if isinstance(value, dict):
        entries = zip(value.values(), as_json.items(), strict=True)
        return {
            key: _shape(entry, entry_as_json)
            for entry, (key, entry_as_json) in entries
            if not isinstance(entry, Path)
        }
    return as_json


def is_transport(config: BaseModel, name: str) -> bool:
    """Whether a setting says how a result is come by, and not what it is."""
    field = type(config).model_fields[name]
    if _has_mark(field.annotation):
        raise TypeError(
            f"{type(config).__name__}.{name}: Transport has to be around the whole type, such as "
            "Transport[int | None]."
        )
    return any(isinstance(mark, _Transport) for mark in field.metadata)


def _has_mark(annotation: Any) -> bool:
    return isinstance(annotation, _Transport) or any(
        _has_mark(part) for part in get_args(annotation)
    )
