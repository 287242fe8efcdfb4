"""Tools in the forms of the APIs that call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolbank.bank.function_names import function_name
from toolbank.bank.records import Tool
from toolbank.functions.inline import inline_references, is_circular

_GEMINI_KEYS = frozenset(
    {
        *("type", "format", "title", "description", "nullable", "enum", "default"),
        *("items", "minItems", "maxItems", "properties", "required", "anyOf"),
        *("minProperties", "maxProperties", "minLength", "maxLength", "pattern"),
        *("minimum", "maximum", "example"),
    }
)


def write_function(tool: Tool, form: str, name: str = "") -> tuple[dict[str, Any], str]:
    """A tool in one of `FORMS`, and what of its schemas was cut to fit, "" for nothing.

    Its name there is `name`, or else as of `function_name`. `toolbank.functions.read.parse_tool`
    reads each again. What a form can't hold:

    - openai, anthropic: title, hints and what the tool gives; a schema that refers to itself is
      written out three levels deep
    - gemini: the same; all references are written out, types are in capitals, and of JSON Schema
      only what Gemini's `Schema` has is kept
    - mcp: nothing of these; a schema keeps its references
    """
    return FORMS[form](tool, name or function_name(tool.name))


def _openai(tool: Tool, name: str) -> tuple[dict[str, Any], str]:
    parameters, cut = _uncircle(tool.parameters)
    function = tool.as_function(name)
    function["function"]["parameters"] = parameters
    return function, cut


def _anthropic(tool: Tool, name: str) -> tuple[dict[str, Any], str]:
    parameters, cut = _uncircle(tool.parameters)
    return {
        "name": name,
        "description": tool.full_description,
        "input_schema": parameters,
    }, cut


def _gemini(tool: Tool, name: str) -> tuple[dict[str, Any], str]:
    inlined, cut = inline_references(tool.parameters)
    lost: set[str] = set()
    schema = _as_gemini(inlined, lost)
    said = [cut] if cut else []
    if lost:
        said.append(f"keys of JSON Schema: {', '.join(sorted(lost))}")
    declared: dict[str, Any] = {"name": name, "description": tool.full_description}
    # An object without properties is refused there.
    if schema.get("properties"):
        declared["parameters"] = schema
    return declared, "; ".join(said)


def _mcp(tool: Tool, name: str) -> tuple[dict[str, Any], str]:
    listed: dict[str, Any] = {"name": name}
    if tool.title:
        listed["title"] = tool.title
    listed |= {"description": tool.full_description, "inputSchema": tool.parameters}
    if tool.output_schema is not None:
        listed["outputSchema"] = tool.output_schema
    if tool.annotations:
        listed["annotations"] = tool.annotations
    return listed, ""


FORMS: dict[str, Callable[[Tool, str], tuple[dict[str, Any], str]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "mcp": _mcp,
}


def wrap_functions(functions: list[dict[str, Any]], form: str) -> list[dict[str, Any]]:
    """Functions as the `tools` of a request: Gemini has them in one object, others as they are."""
    return [{"functionDeclarations": functions}] if form == "gemini" else functions


def _uncircle(schema: dict[str, Any]) -> tuple[dict[str, Any], str]:
    return inline_references(schema) if is_circular(schema) else (schema, "")


def _as_gemini(schema: Any, lost: set[str]) -> dict[str, Any]:
    """A schema without references as Gemini has it; keys that it has not are added to `lost`."""
    if not isinstance(schema, dict):
        return {"type": "STRING"}
    written: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            written[key] = {name: _as_gemini(one, lost) for name, one in value.items()}
        elif key == "items":
            written[key] = _as_gemini(value, lost)
        elif key in ("anyOf", "oneOf") and isinstance(value, list):
            written["anyOf"] = [_as_gemini(one, lost) for one in value]
        elif key == "const":
            written["enum"] = [str(value)]
        elif key == "enum" and isinstance(value, list):
            written["enum"] = [str(one) for one in value if one is not None]
        elif key in _GEMINI_KEYS:
            written[key] = value
        else:
            lost.add(key)
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    named = [kind for kind in kinds if isinstance(kind, str) and kind != "null"]
    if "null" in kinds:
        written["nullable"] = True
    if named:
        written["type"] = named[0].upper()
    elif "properties" in written:
        written["type"] = "OBJECT"
    elif "anyOf" not in written:
        written["type"] = "STRING"
    if "enum" in written:
        # Its enum is of texts alone.
        written["type"] = "STRING"
    return written
