"""Keys of an earlier version, in data that the program itself left."""

from __future__ import annotations

from typing import Any

from toolbank.config.schema import Schema, kinds_of, resolve


def with_new_names(data: Any, schema: Schema) -> Any:
    """The data with every key that was renamed under its new name.

    What a key was called before stands in the model's JSON Schema, by `renamed`.
    """
    return _rename(data, schema, schema)


def _rename(value: Any, schema: Schema, root: Schema) -> Any:
    schema = resolve(schema, root)
    if kinds := kinds_of(schema, value):
        for kind in kinds:
            value = _rename(value, kind, root)
    elif isinstance(value, dict):
        names, parts = schema.get("renamed", {}), schema.get("properties", {})
        value = {names.get(key, key): inner for key, inner in value.items()}
        value = {k: _rename(v, parts.get(k, {}), root) for k, v in value.items()}
    elif isinstance(value, list) and "items" in schema:
        value = [_rename(item, schema["items"], root) for item in value]
    return value
