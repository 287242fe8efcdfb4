"""Relative paths in a configuration that is still to be checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, JsonValue

from toolbank.config.schema import Schema, kinds_of, resolve
from toolbank.system.errors import InputError

NAME_OR_PATH: dict[str, JsonValue] = {"format": "name-or-path"}
"""For a field's `json_schema_extra`: a name, or a path where it begins with a dot or `~`."""

ADDRESS_OR_PATH: dict[str, JsonValue] = {"format": "address-or-path"}
"""For a field's `json_schema_extra`: an address such as https://..., or else a path."""


PATH_IN_RUN: dict[str, JsonValue] = {"format": "path-in-run"}
"""For a field's `json_schema_extra`: a file that a run writes, relative to the run folder."""


def anchor_paths(data: Any, schema: Schema, folder: Path) -> Any:
    """The data with relative paths made to start at `folder`.

    What is a path follows from the model's JSON Schema: its fields of type `Path`.

    Raises:
        InputError: a text can't be the path of a file.
    """
    return _anchor(data, schema, schema, folder)


def _anchor(value: Any, schema: Schema, root: Schema, folder: Path) -> Any:
    schema = resolve(schema, root)
    if kinds := kinds_of(schema, value):
        if not any(kind.get("const") == value for kind in kinds):
            for kind in kinds:
                value = _anchor(value, kind, root, folder)
    elif isinstance(value, dict):
        named, rest = schema.get("properties", {}), schema.get("additionalProperties")
        parts = {key: named.get(key) or rest or {} for key in value}
        value = {k: _anchor(v, parts[k], root, folder) for k, v in value.items()}
    elif isinstance(value, list) and "items" in schema:
        value = [_anchor(item, schema["items"], root, folder) for item in value]
    elif isinstance(value, str):
        value = _anchor_text(value, schema.get("format"), folder)
    return value


def _anchor_text(text: str, form: str | None, folder: Path) -> str:
    if form == "name-or-path" and text.startswith((".", "~")):
        form = "path"
    if form == "address-or-path" and "://" not in text:
        form = "path"
    if form != "path":
        return text
    try:
        return str((folder / Path(text).expanduser()).resolve())
    except (ValueError, RuntimeError) as error:
        raise InputError(f"{text!r} can't be the path of a file ({error}).") from error


def paths_in(value: Any) -> list[Path]:
    """The paths among the settings of a model, at any depth."""
    if isinstance(value, Path):
        return [value]
    if isinstance(value, BaseModel):
        return paths_in([inner for _, inner in value])
    if isinstance(value, dict):
        return paths_in(list(value.values()))
    if isinstance(value, list | tuple):
        return [path for inner in value for path in paths_in(inner)]
    return []
