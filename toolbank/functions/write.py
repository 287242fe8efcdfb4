"""Tools in the forms of the APIs that call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolbank.bank.function_names import function_name
from toolbank.bank.records import Tool
from toolbank.functions.combine import as_object
from toolbank.functions.gemini import as_gemini, gemini_name
from toolbank.functions.inline import inline_references, is_circular
from toolbank.functions.rename import rename_properties


def write_function(tool: Tool, form: str, name: str = "") -> tuple[dict[str, Any], str]:
    """A tool in one of `FORMS`, and what of its schemas was cut or renamed to fit, "" for nothing.

    Its name there is `name`, or else as of `function_name`. `toolbank.functions.read.parse_tool`
    reads each again. What a form can't hold:

    - openai, anthropic: title, hints and what the tool gives; a schema that refers to itself is
      written out three levels deep, and one that is combined at the top is one object
    - anthropic: names of parameters with signs other than letters, digits and _.-, or over 64;
      `toolbank.functions.rename.restore_arguments` has those of a call
    - gemini: as openai; all references are written out, types are in capitals, and of JSON Schema
      only what Gemini's `Schema` has is kept
    - mcp: nothing of these; a schema keeps its references
    """
    return FORMS[form](tool, name or function_name(tool.name))


def _openai(tool: Tool, name: str) -> tuple[dict[str, Any], str]:
    parameters, cut = _straighten(tool.parameters)
    function = tool.as_function(name)
    function["function"]["parameters"] = parameters
    return function, cut


def _anthropic(tool: Tool, name: str) -> tuple[dict[str, Any], str]:
    parameters, cut = _straighten(tool.parameters)
    parameters, renamed = rename_properties(parameters)
    return {
        "name": name,
        "description": tool.full_description,
        "input_schema": parameters,
    }, _join(cut, renamed)


def _gemini(tool: Tool, name: str) -> tuple[dict[str, Any], str]:
    whole, top = as_object(tool.parameters)
    inlined, deep = inline_references(whole)
    lost: set[str] = set()
    schema = as_gemini(inlined, lost)
    keys = f"keys of JSON Schema: {', '.join(sorted(lost))}" if lost else ""
    declared: dict[str, Any] = {
        "name": gemini_name(name),
        "description": tool.full_description,
    }
    # An object without properties is refused there.
    if schema.get("properties"):
        declared["parameters"] = schema
    return declared, _join(top, deep, keys)


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


def _straighten(schema: dict[str, Any]) -> tuple[dict[str, Any], str]:
    whole, top = as_object(schema)
    inlined, deep = inline_references(whole) if is_circular(whole) else (whole, "")
    return inlined, _join(top, deep)


def _join(*said: str) -> str:
    return "; ".join(filter(None, said))
