"""Tools that others list, each name once, with their schemas repaired."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolbank.bank.bank import LeftOut
from toolbank.bank.records import Tool
from toolbank.sources.checks import SchemaCheck
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line


def repair_parameters(schema: Any, check: SchemaCheck) -> tuple[dict[str, Any], str]:
    """The parameters of a tool as a JSON Schema of an object, and what was mended, or "".

    A property of which there is prose instead of a schema has that as its description; one whose
    schema is none keeps the keywords that are right, at any depth. `required: true` within a
    property makes it required.
    """
    if isinstance(schema, dict) and not check.explain(schema):
        return schema, ""
    if schema is None:
        return _nothing(), "no schema"
    if not isinstance(schema, dict):
        return _nothing(), "a schema that is no object"
    kind, properties = schema.get("type", "object"), schema.get("properties")
    properties = {} if properties is None else properties
    if not isinstance(properties, dict) or (kind != "object" and not properties):
        return _nothing(), "a schema that describes no object"
    schema = _with_required(schema)
    mended = {
        **schema,
        "type": "object",
        "properties": {n: _repair_property(p, check) for n, p in properties.items()},
    }
    if not check.explain(mended):
        return mended, "a schema that is no JSON Schema in parts"
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    bare = {
        **_nothing(),
        "properties": mended["properties"],
        "required": [n for n in dict.fromkeys(map(str, names)) if n in properties],
    }
    trouble = "a schema that is no JSON Schema in parts"
    return (_nothing() if check.explain(bare) else bare), trouble


def _repair_property(schema: Any, check: SchemaCheck) -> dict[str, Any]:
    if isinstance(schema, str):
        return {"description": schema}
    if not isinstance(schema, dict):
        return {}
    if not check.explain_schema(schema):
        return schema
    nested = {**schema}
    if isinstance(schema.get("properties"), dict):
        nested = _with_required(schema)
        nested["properties"] = {
            n: _repair_property(p, check) for n, p in schema["properties"].items()
        }
    if isinstance(schema.get("items"), dict):
        nested["items"] = _repair_property(schema["items"], check)
    return {
        key: part
        for key, part in nested.items()
        if not check.explain_schema({key: part})
    }


def _with_required(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object, with properties that say `required: true` listed as required."""
    asked = [
        name
        for name, one in (schema.get("properties") or {}).items()
        if isinstance(one, dict) and one.get("required") is True
    ]
    listed = schema.get("required")
    listed = listed if isinstance(listed, list) else []
    if not asked:
        return {**schema}
    return {**schema, "required": [*listed, *(n for n in asked if n not in listed)]}


def _nothing() -> dict[str, Any]:
    return {"type": "object", "properties": {}}


_EXAMPLES = 3
_LONGEST_NAME = 60


class ToolList:
    """The tools of a list by name, `left_out` what became none, `check` that of their schemas.

    A schema that is none is mended where that can be. Of two of one name the first counts.
    """

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}
        self.left_out = LeftOut()
        self._mended: dict[str, list[str]] = {}
        self.check = SchemaCheck()

    def add(self, tool: Tool, parameters: Any, output: Any, place: str) -> None:
        """Take a tool with its schemas as the list has them; `place` says where it stands there."""
        sound, trouble = repair_parameters(parameters, self.check)
        troubles = [trouble] if trouble else []
        if output is not None and not self._is_schema(output):
            output = None
            troubles.append("an output schema that is no JSON Schema")
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
            self._mended.setdefault(trouble, []).append(tool.name)

    def describe_repairs(self, label: str) -> Iterator[str]:
        """Lines for people on the schemas that were mended, after a label."""
        for trouble, names in self._mended.items():
            shown = (one_line(name, _LONGEST_NAME) for name in names[:_EXAMPLES])
            yield (
                f"{label}: {count(len(names), 'tool')} with {trouble}, such as "
                f"{', '.join(shown)}; mended"
            )

    def _is_schema(self, value: Any) -> bool:
        return isinstance(value, dict) and not self.check.explain_schema(value)
