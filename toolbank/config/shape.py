"""Which settings shape a result, so that a change of one makes it stale."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel

T = TypeVar("T")


class _Transport:
    """Marks a field whose value says how a result is come by, and not what it is."""


Transport = Annotated[T, _Transport()]
"""Type of a setting that shapes nothing, such as `timeout: Transport[float] = 120`."""


def shape(config: BaseModel) -> dict[str, Any]:
    """The settings that shape a result, as JSON.

    Left out at any depth are fields of type `Transport`, and paths: a file counts by its content,
    wherever it lies.
    """
    settings = config.model_dump(mode="json")
    return {
        name: _shape(value, settings[name])
        for name, value in config
        if not _is_transport(config, name) and not isinstance(value, Path)
    }


def _shape(value: Any, as_json: Any) -> Any:
    if isinstance(value, BaseModel):
        return shape(value)
    if isinstance(value, tuple | list):
        pairs = zip(value, as_json, strict=True)
        return [_shape(*pair) for pair in pairs if not isinstance(pair[0], Path)]
    return as_json


def _is_transport(config: BaseModel, name: str) -> bool:
    metadata = type(config).model_fields[name].metadata
    return any(isinstance(mark, _Transport) for mark in metadata)
