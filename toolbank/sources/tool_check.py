"""What has to hold of the tools of every source, whoever brings it."""

import json
from collections.abc import Iterable
from typing import Any

from toolbank.bank.records import Record, Tool
from toolbank.sources.schema_check import explain_unsound
from toolbank.system.errors import InputError

_SHOWN = 200
_HOLDERS = ("properties", "$defs")
_EXAMPLE = '{"type": "object", "properties": {"city": {"type": "string"}}}'


def check_tools(
    tools: Iterable[Tool], label: str, check: "SchemaCheck | None" = None
) -> None:
    """Refuse a tool without a name, or that no file holds, or whose parameters describe no object.

    All that is said of a tool is JSON that can be written as UTF-8; its parameters are a JSON
    Schema of an object. Those that `check` has found sound are not looked at again.

    Raises:
        InputError: names the source by its label, the tool, and what is wrong with it.
    """
    check = check or SchemaCheck()
    writer = _Writer()
    for tool in tools:
        if not tool.name.strip():
            said = (tool.summary or tool.description or "nothing is said of it")[
                :_SHOWN
            ]
            raise InputError(
                f"sources: {label}: a tool has no name ({said}). Give each its full name, such as "
                "weather.forecast."
            )
        if trouble := writer.explain(tool):
            raise InputError(
                f"sources: {label}: what is said of {tool.name[:_SHOWN]!a} can't be written as "
                f"JSON ({trouble}). Leave out what JSON in UTF-8 doesn't have, such as NaN or half "
                "a surrogate pair."
            )
        if trouble := check.explain(tool.parameters):
            raise InputError(
                f"sources: {label}: the parameters of {tool.name[:_SHOWN]} are no JSON Schema of "
                f"an object ({trouble}). They should look like {_EXAMPLE}."
            )


class SchemaCheck:
    """Holds each schema against the metaschema once: tools share them as the same objects."""

    def __init__(self) -> None:
        # By identity; what was seen is kept here so that no other object gets it.
        self._sound: dict[int, dict[str, Any]] = {}
        self._objects: dict[int, dict[str, Any]] = {}

    def explain(self, parameters: dict[str, Any]) -> str:
        """What is wrong with a schema of parameters, or ""."""
        if id(parameters) in self._objects:
            return ""
        if parameters.get("type") != "object":
            return 'its type is not "object"'
        properties, shared = (parameters.get(key, {}) for key in _HOLDERS)
        if not isinstance(properties, dict):
            return "properties: not an object"
        rest = {key: parameters[key] for key in parameters if key != "properties"}
        new: dict[str, Any] = {}
        if isinstance(shared, dict):
            new = {k: v for k, v in shared.items() if id(v) not in self._sound}
            rest["$defs"] = new
        if trouble := explain_unsound(rest):
            return trouble[:_SHOWN].lstrip(".: ")
        for name, schema in properties.items():
            if not isinstance(schema, dict):
                return f"properties.{name}: not an object"[:_SHOWN]
            if trouble := self.explain_schema(schema):
                return f"properties.{name}{trouble}"[:_SHOWN]
        self._sound |= {id(schema): schema for schema in new.values()}
        self._objects[id(parameters)] = parameters
        return ""

    def explain_schema(self, schema: dict[str, Any]) -> str:
        """What is wrong with any JSON Schema, or ""; begins with the place."""
        if id(schema) in self._sound:
            return ""
        trouble = explain_unsound(schema)[:_SHOWN]
        if not trouble:
            self._sound[id(schema)] = schema
        return trouble


class _Writer:
    """Writes all that is said of tools; once what they share as the same object."""

    def __init__(self) -> None:
        self._written: dict[int, Any] = {}

    def explain(self, tool: Tool) -> str:
        """Why no file of a bank or an export could hold it, or ""; begins with the field."""
        for field in Tool.model_fields:
            value = getattr(tool, field)
            try:
                if isinstance(value, dict):
                    _write(self._new_parts(value))
                elif value:
                    _write(_plain(value))
            except (TypeError, ValueError, RecursionError) as error:
                return f"{field}: {error}"[:_SHOWN]
        return ""

    def _new_parts(self, value: dict[str, Any]) -> list[Any]:
        """What of a value was not written yet; of those that hold others, each by itself."""
        parts: list[Any] = []
        for key, part in value.items():
            if not isinstance(part, dict) or key not in _HOLDERS:
                parts.append({key: part})
                continue
            parts.append([*part])
            for inner in part.values():
                if id(inner) not in self._written:
                    self._written[id(inner)] = inner
                    parts.append(inner)
        return parts


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.model_dump()
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _write(value: Any) -> None:
    """Write a value as a file would hold it.

    Raises:
        TypeError, ValueError: JSON in UTF-8 can't.
    """
    if isinstance(value, str) and value.isascii():
        return
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
