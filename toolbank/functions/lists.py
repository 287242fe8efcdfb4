"""Lists of functions, in whatever they are wrapped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolbank.bank.records import Tool
from toolbank.functions.read import describe_tool, make_parameters, parse_tool
from toolbank.system.text import escape, replace_surrogates

_WRAPS = ("tools", "functions", "functionDeclarations", "function_declarations")


def find_functions(content: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """The entries of a list of functions, each with the JSON Pointer to it.

    A list of them; an object that has one at `tools`, `functions` or Gemini's
    `functionDeclarations`, or an entry that does; BFCL's lines, which have one at `function`; a
    ToolBench tool, with its `api_list`; or an object of functions, or descriptions, by name. None
    where it is nothing of this kind.
    """
    if isinstance(content, list):
        for number, entry in enumerate(content):
            here = f"{pointer}/{number}"
            yield from _find_inside(entry, here) or [(here, entry)]
    elif isinstance(content, dict):
        found = _find_inside(content, pointer)
        if found is not None:
            yield from found
        elif is_function(content):
            yield pointer, content
        elif _is_by_name(content):
            for name, one in content.items():
                said = {"description": one} if isinstance(one, str) else one
                yield (
                    f"{pointer}/{escape(replace_surrogates(name))}",
                    {"name": name, **said},
                )


def is_function(content: dict[str, Any]) -> bool:
    """Whether an object is one function in one of the forms."""
    inner = content.get("function")
    row = inner if isinstance(inner, dict) else content
    return isinstance(row.get("name"), str) and any(
        key in row
        for key in ("description", "parameters", "inputSchema", "input_schema")
    )


def _is_by_name(content: dict[str, Any]) -> bool:
    """Whether an object describes functions by their names, some in a text alone."""
    described = [one for one in content.values() if not isinstance(one, str)]
    return bool(described) and all(
        isinstance(one, dict) and ("description" in one or "parameters" in one)
        for one in described
    )


def read_entry(entry: Any) -> Tool:
    """A tool from an entry of `find_functions`.

    Raises:
        ValueError: what is wrong with it.
    """
    if not isinstance(entry, dict):
        raise ValueError("no object with name and description")
    if "api_name" in entry or "required_parameters" in entry:
        return read_api(entry)
    tool = parse_tool(entry)
    if not tool.name.strip():
        raise ValueError('"name" is empty')
    return tool


def _find_inside(entry: Any, pointer: str) -> Iterator[tuple[str, Any]] | None:
    """The entries of a list that an object wraps."""
    if not isinstance(entry, dict):
        return None
    for key in _WRAPS:
        if isinstance(entry.get(key), list | dict):
            return find_functions(entry[key], f"{pointer}/{key}")
    if isinstance(entry.get("function"), list):
        return find_functions(entry["function"], f"{pointer}/function")
    if isinstance(entry.get("api_list"), list):
        own = {
            "tool_name": entry.get("tool_name") or entry.get("title") or "",
            "category_name": entry.get("category") or "",
        }
        return (
            (
                f"{pointer}/api_list/{number}",
                {**own, **api, "api_name": api.get("name")},
            )
            for number, api in enumerate(entry["api_list"])
            if isinstance(api, dict)
        )
    return None


def read_api(api: dict[str, Any]) -> Tool:
    """A tool of ToolBench's, named TOOL::API (arXiv 2307.16789)."""
    names = [_text(api, "tool_name"), _text(api, "api_name")]
    name = "::".join(filter(None, names))
    if not name:
        raise ValueError("neither tool_name nor api_name")
    category = _text(api, "category_name")
    described = _text(api, "api_description") or _text(api, "description")
    return describe_tool(
        name,
        f"{described}\n\nCategory: {category}." if category else described,
        "operation",
        parameters=make_parameters(
            api.get("required_parameters"), api.get("optional_parameters")
        ),
        tags=(category,) if category else (),
    )


def _text(api: dict[str, Any], key: str) -> str:
    value = api.get(key)
    return "" if value is None else replace_surrogates(str(value).strip())
