"""Tools that a file or a server lists: each name once, with repaired schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolbank.bank.bank import SkipCounter
from toolbank.bank.function_writer import as_object
from toolbank.bank.records import Tool
from toolbank.sources.checks import SchemaCheck, is_too_deep
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line

_DEEPEST = 60
"""Levels of a schema that is repaired: the time grows with their square."""


def repair_parameters(schema: Any, check: SchemaCheck) -> tuple[dict[str, Any], str]:
    """Make a JSON Schema of an object from parameters; also return what was wrong, or "".

    A text in place of a property's schema becomes its description. Keywords of older versions of
    JSON Schema are translated. An unsound schema keeps its sound keywords, at any depth.
    `required: true` within a property makes it required.
    """
    if isinstance(schema, dict):
        schema = _list_properties(schema)
    if isinstance(schema, dict) and not check.explain(schema):
        return schema, ""
    if schema is None:
        return _nothing(), "no schema"
    if not isinstance(schema, dict):
        return _nothing(), "a schema that is not an object"
    if is_too_deep(schema, _DEEPEST):
        return _nothing(), "an unsound schema that is nested too deep"
    kind, properties = schema.get("type", "object"), schema.get("properties") or {}
    if not isinstance(properties, dict) or (kind != "object" and not properties):
        return _nothing(), "a schema that describes no object"
    whole = {**schema, "type": "object", "properties": properties}
    repaired = _repair(whole, check)
    trouble = "a partly unsound schema"
    return (_nothing() if check.explain(repaired) else repaired), trouble


_RULES = ("anyOf", "oneOf", "not", "if", "then", "else")
_INNER = ("items", "prefixItems", "additionalProperties", "allOf", "anyOf", "oneOf")


def _list_properties(schema: dict[str, Any]) -> dict[str, Any]:
    """List the properties of references and combinations at the top of parameters.

    Other rules at the top stay.
    """
    if not schema.keys() & {"$ref", "allOf", "anyOf", "oneOf"}:
        return schema
    if is_too_deep(schema, _DEEPEST):
        return schema
    whole, own = as_object(schema)[0], schema.get("properties")
    if whole["properties"].keys() <= {*(own if isinstance(own, dict) else ())}:
        return schema
    parts = schema.get("allOf")
    rest = [
        part
        for part in (parts if isinstance(parts, list) else ())
        if isinstance(part, dict) and part.keys() & {*_RULES}
    ]
    rules = {key: schema[key] for key in _RULES if key in schema}
    return whole | rules | ({"allOf": rest} if rest else {})


def _modernise(schema: dict[str, Any]) -> dict[str, Any]:
    """Translate keywords of JSON Schema draft 4 to 7 that later ones read differently."""
    new = dict(schema)
    for bound in ("minimum", "maximum"):
        exclusive = f"exclusive{bound.title()}"
        if isinstance(new.get(exclusive), bool):
            is_exclusive = new.pop(exclusive)
            if is_exclusive and bound in new:
                new[exclusive] = new.pop(bound)
    if isinstance(new.get("items"), list):
        new["prefixItems"] = new.pop("items")
        if "additionalItems" in new:
            new["items"] = new.pop("additionalItems")
    return new


def _repair(schema: Any, check: SchemaCheck) -> dict[str, Any]:
    """Keep the sound keywords of a schema."""
    if isinstance(schema, str):
        return {"description": schema}
    if schema is False:
        return {"not": {}}
    if not isinstance(schema, dict):
        return {}
    if not check.explain_schema(schema):
        return schema
    nested = _modernise(schema)
    properties = schema.get("properties")
    if isinstance(properties, dict):
        if required := _list_required(schema.get("required"), properties):
            nested["required"] = required
        nested["properties"] = {n: _repair(p, check) for n, p in properties.items()}
    for key in nested.keys() & {*_INNER}:
        if isinstance(nested[key], dict):
            nested[key] = _repair(nested[key], check)
        elif isinstance(nested[key], list):
            nested[key] = [_repair(part, check) for part in nested[key]]
    return {
        key: part
        for key, part in nested.items()
        if not check.explain_schema({key: part})
    }


def _list_required(listed: Any, properties: dict[str, Any]) -> list[str]:
    """The listed names, and those of properties with `required: true`."""
    listed = listed if isinstance(listed, list) else []
    names = [name for name in listed if isinstance(name, str)]
    for name, one in properties.items():
        if isinstance(one, dict) and one.get("required") is True:
            names.append(name)
    return list(dict.fromkeys(names))


def _nothing() -> dict[str, Any]:
    return {"type": "object", "properties": {}}


_EXAMPLES = 3
_LONGEST_NAME = 60


class ToolList:
    """The tools of a list by name; of two tools with one name the first counts.

    Unsound schemas are repaired. `left_out` counts entries that became no tool, and `check` knows
    the schemas.
    """

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}
        self.left_out = SkipCounter()
        self._repaired: dict[str, list[str]] = {}
        self.check = SchemaCheck()

    def add(self, tool: Tool, parameters: Any, output: Any, place: str) -> None:
        """Add a tool with its schemas as listed; `place` is its place in the list."""
        sound, trouble = repair_parameters(parameters, self.check)
        troubles = [trouble] if trouble else []
        is_schema = isinstance(output, dict) and not self.check.explain_schema(output)
        if output is not None and not is_schema:
            output = None
            troubles.append("an unsound output schema")
        tool = tool.model_copy(update={"parameters": sound, "output_schema": output})
        known = self.tools.get(tool.name)
        if known is not None:
            which = (
                "the same text" if tool == known else "another text; the first counts"
            )
            self.left_out.add(f"it is listed twice, with {which}", place)
            return
        self.tools[tool.name] = tool
        for trouble in troubles:
            self._repaired.setdefault(trouble, []).append(tool.name)

    def describe_repairs(self, label: str) -> Iterator[str]:
        """Describe the repaired schemas, a line per problem, after a label."""
        for trouble, names in self._repaired.items():
            shown = (one_line(name, _LONGEST_NAME) for name in names[:_EXAMPLES])
            yield (
                f"{label}: {count(len(names), 'tool')} with {trouble}, such as "
                f"{', '.join(shown)}; repaired"
            )
