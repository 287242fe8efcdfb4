"""Write tools in the function formats of APIs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from toolbank.bank.records import Tool, function_name
from toolbank.system.text import unescape

_DEEPEST = 3
_MOST = 20_000
"""Objects in an expanded schema; forty properties that refer to forty each, three levels deep,
would be 71 MB."""
_DATA = ("default", "enum", "const", "examples")
_HELD = ("$defs", "definitions")


def is_circular(schema: dict[str, Any]) -> bool:
    """Whether a schema refers to itself, directly or not."""
    refers: dict[str, set[str]] = {}
    waiting = list(_references(schema))
    while waiting:
        pointer = waiting.pop()
        if pointer not in refers:
            refers[pointer] = set(_references(find_target(schema, pointer)))
            waiting += refers[pointer]
    free: set[str] = set()
    while True:
        more = {p for p, others in refers.items() if p not in free and others <= free}
        if not more:
            return len(free) < len(refers)
        free |= more


def inline_references(schema: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Replace references by their targets, three levels deep, and remove `$defs`.

    Deeper references, those past 20,000 objects and broken ones become any object. The second value
    lists them, or is "".
    """
    cut: set[str] = set()
    left = iter(range(_MOST))
    top = {key: value for key, value in schema.items() if key not in _HELD}
    inlined = _inline(top, schema, 0, cut, left)
    names = ", ".join(sorted(pointer.rpartition("/")[2] for pointer in cut))
    return inlined, (
        f"schemas below three levels, or past {_MOST:,} objects: {names}" if cut else ""
    )


def _inline(
    value: Any, root: dict[str, Any], depth: int, cut: set[str], left: Iterator[int]
) -> Any:
    if isinstance(value, list):
        return [_inline(one, root, depth, cut, left) for one in value]
    if not isinstance(value, dict):
        return value
    is_full = next(left, None) is None
    rest = {
        key: {
            name: _inline(inner, root, depth, cut, left) for name, inner in one.items()
        }
        if key == "properties" and isinstance(one, dict)
        else one
        if key in _DATA
        else _inline(one, root, depth, cut, left)
        for key, one in value.items()
        if key not in _HELD
    }
    pointer = value.get("$ref")
    if not isinstance(pointer, str):
        return rest
    del rest["$ref"]
    target = find_target(root, pointer)
    if not isinstance(target, dict) or depth >= _DEEPEST or is_full:
        cut.add(pointer)
        return {"type": "object", **rest}
    return {**_inline(target, root, depth + 1, cut, left), **rest}


def find_target(root: dict[str, Any], pointer: str) -> Any:
    """Follow a JSON Pointer (RFC 6901) in a schema; None if it leads nowhere."""
    found: Any = root
    path, _, names = pointer.partition("#")
    for name in [] if path else names.split("/")[1:]:
        key = unescape(unquote(name))
        found = found.get(key) if isinstance(found, dict) else None
    return None if path else found


def _references(value: Any) -> Iterator[str]:
    """The pointers of the references in a schema."""
    waiting = [(value, True)]
    while waiting:
        one, is_schema = waiting.pop()
        if isinstance(one, list):
            waiting += [(inner, True) for inner in one]
        elif isinstance(one, dict):
            # A property may be named like a keyword.
            if is_schema and isinstance(one.get("$ref"), str):
                yield one["$ref"]
            waiting += [
                (inner, key not in ("properties", *_HELD))
                for key, inner in one.items()
                if not (is_schema and key in _DATA)
            ]


_COMBINED = ("allOf", "anyOf", "oneOf")
_REFUSED = (*_COMBINED, "not", "enum", "const", "if", "then", "else")


def as_object(schema: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Make the top of a schema of parameters an object; also return what was removed, or "".

    APIs refuse combinations at the top. The properties of their parts become properties of the
    object; those that the object or a part of `allOf` requires stay required.
    """
    said = [key for key in _REFUSED if key in schema]
    seen: set[str] = set()
    parts = {
        key: [_resolve(part, schema, seen) for part in schema[key]]
        for key in _COMBINED
        if isinstance(schema.get(key), list)
    }
    whole = {k: v for k, v in schema.items() if k not in (*_REFUSED, "$ref")}
    if "$ref" in schema:
        target = _resolve({"$ref": schema["$ref"]}, schema, seen)
        parts.setdefault("allOf", []).append(target)
    whole = merge_all({**whole, "allOf": parts.get("allOf", [])})
    for key in (*_REFUSED, "$ref"):
        whole.pop(key, None)
    if not isinstance(whole.get("properties", {}), dict):
        del whole["properties"]
    choices: dict[str, list[Any]] = {}
    for part in (*parts.get("anyOf", ()), *parts.get("oneOf", ())):
        found = as_object(part)[0]["properties"] if isinstance(part, dict) else {}
        for name, one in found.items():
            if one not in choices.setdefault(name, []):
                choices[name].append(one)
    properties = {
        name: few[0] if len(few) == 1 else {"anyOf": few}
        for name, few in choices.items()
    }
    properties |= whole.get("properties", {})
    whole = {**whole, "type": "object", "properties": properties}
    return whole, f"at the top: {', '.join(said)}" if said else ""


def merge_all(schema: dict[str, Any]) -> dict[str, Any]:
    """Merge the parts of `allOf` into a schema; its own keywords win."""
    parts = schema.get("allOf")
    merged = {key: value for key, value in schema.items() if key != "allOf"}
    for part in parts if isinstance(parts, list) else ():
        if not isinstance(part, dict):
            continue
        for key, value in merge_all(part).items():
            known = merged.setdefault(key, value)
            if not isinstance(value, type(known)):
                continue
            if key == "properties" and isinstance(known, dict):
                merged[key] = {**value, **known}
            elif key == "required" and isinstance(known, list):
                merged[key] = [*known, *(name for name in value if name not in known)]
    return merged


def _resolve(part: Any, root: dict[str, Any], seen: set[str]) -> Any:
    """Merge the targets of references into a part and its own parts, each target once."""
    while isinstance(part, dict) and isinstance(part.get("$ref"), str):
        pointer = part["$ref"]
        target = None if pointer in seen else find_target(root, pointer)
        seen.add(pointer)
        own = {key: value for key, value in part.items() if key != "$ref"}
        part = {**target, **own} if isinstance(target, dict) else own
    if not isinstance(part, dict):
        return part
    inner = {key: part[key] for key in _COMBINED if isinstance(part.get(key), list)}
    return part | {
        key: [_resolve(one, root, seen) for one in parts]
        for key, parts in inner.items()
    }


_LONGEST_PARAMETER = 64
_TAKEN = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_OTHERS = re.compile(r"[^a-zA-Z0-9_.-]+")


def rename_properties(schema: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Rename properties that Anthropic refuses; also return what was renamed, or "".

    Anthropic does not check names within a parameter.
    """
    names = _name_all(schema["properties"])
    renamed = [f"{old} as {new}" for old, new in names.items() if old != new]
    if not renamed:
        return schema, ""
    written = {
        **schema,
        "properties": {names[k]: v for k, v in schema["properties"].items()},
    }
    if "required" in schema:
        written["required"] = [names.get(k, k) for k in schema["required"]]
    for key in ("dependentRequired", "dependentSchemas"):
        if key in schema:
            written[key] = {names.get(k, k): v for k, v in schema[key].items()}
    for one, others in written.get("dependentRequired", {}).items():
        written["dependentRequired"][one] = [names.get(k, k) for k in others]
    return written, f"renamed: {', '.join(renamed)}"


def restore_arguments(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the arguments of a call by Anthropic back to the tool's own names."""
    whole, _ = as_object(tool.parameters)
    names = {new: old for old, new in _name_all(whole["properties"]).items()}
    return {names.get(name, name): value for name, value in arguments.items()}


def _name_all(names: Iterable[str]) -> dict[str, str]:
    """Map names to unique accepted names; other characters become underscores."""
    found = {name: name for name in names if _TAKEN.fullmatch(name)}
    taken = set(found)
    for name in names:
        if name not in found:
            plain = _OTHERS.sub("_", name).strip("_")[:_LONGEST_PARAMETER] or "_"
            numbered = (
                f"{plain[: _LONGEST_PARAMETER - 1 - len(str(n))]}_{n}"
                for n in itertools.count(2)
            )
            found[name] = next(
                one for one in itertools.chain((plain,), numbered) if one not in taken
            )
            taken.add(found[name])
    return found


_KEYS = (
    *("format", "title", "description", "nullable", "default", "pattern", "example"),
    *("minItems", "maxItems", "minProperties", "maxProperties"),
    *("minLength", "maxLength", "minimum", "maximum"),
)
_LONGEST_NAME = 64
_FORMATS = ("float", "double", "int32", "int64", "date-time")
_TYPES = {
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}


def gemini_name(name: str) -> str:
    """Make a function name that begins with a letter or an underscore, as Gemini requires."""
    return name if re.match("[a-zA-Z_]", name) else f"_{name}"[:_LONGEST_NAME]


def as_gemini(schema: Any, lost: set[str]) -> dict[str, Any]:
    """Write a schema without references for Gemini; keys that it lacks are added to `lost`.

    There, a union has no other keys, so its description moves into each part; an enumeration has
    only non-empty texts.
    """
    if not isinstance(schema, dict):
        return {"type": "STRING"}
    schema = merge_all(schema)
    union, kinds = _union(schema), _kinds(schema)
    if len(kinds) > 1 and not union:
        union = [{**schema, "type": kind} for kind in kinds]
    parts = [part for part in union if part.get("type") != "null"]
    nullable = _is_nullable(schema) or len(parts) < len(union)
    own = {k: v for k, v in schema.items() if k not in ("anyOf", "oneOf", "nullable")}
    if parts and "properties" in schema:
        lost.update(schema.keys() & {"anyOf", "oneOf"})
    elif len(parts) == 1:
        own |= {"nullable": True} if nullable else {}
        return as_gemini({**parts[0], **own}, lost)
    elif parts:
        lost.update(own.keys() - {"type", "description"} if _union(schema) else ())
        shared = {k: own[k] for k in ("description",) if k in own}
        shared |= {"nullable": True} if nullable else {}
        return {"anyOf": [as_gemini({**shared, **part}, lost) for part in parts]}
    written = _write(own, kinds[0] if kinds else "", lost)
    return {**written, "nullable": True} if nullable else written


def _write(schema: dict[str, Any], kind: str, lost: set[str]) -> dict[str, Any]:
    """Write a schema that is not a union."""
    written: dict[str, Any] = {"type": (kind or _guess(schema)).upper()}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            if written["type"] == "OBJECT":
                written[key] = {
                    name: as_gemini(one, lost) for name, one in value.items()
                }
        elif key == "items" and written["type"] == "ARRAY":
            written[key] = as_gemini(value, lost)
        elif key == "required" and isinstance(value, list):
            known = schema.get("properties")
            names = [n for n in value if isinstance(known, dict) and n in known]
            if names and written["type"] == "OBJECT":
                written[key] = names
        elif key in ("enum", "const"):
            values = value if isinstance(value, list) and key == "enum" else [value]
            texts = [one for one in values if isinstance(one, str) and one]
            if texts and written["type"] == "STRING":
                written["enum"] = texts
            if len(texts) < len([one for one in values if one is not None]):
                lost.add(key)
        elif key in _KEYS and (key != "format" or value in _FORMATS):
            written[key] = value
        elif key not in ("type", "items", "properties", "required"):
            lost.add(key)
    if written["type"] == "ARRAY":
        # Gemini refuses an array without items.
        written.setdefault("items", {"type": "STRING"})
    return written


def _union(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts of `anyOf` or `oneOf`."""
    parts = schema.get("anyOf") or schema.get("oneOf")
    return [p for p in parts if isinstance(p, dict)] if isinstance(parts, list) else []


def _kinds(schema: dict[str, Any]) -> list[str]:
    kinds = schema.get("type")
    listed = kinds if isinstance(kinds, list) else [kinds]
    return [kind for kind in listed if isinstance(kind, str) and kind != "null"]


def _is_nullable(schema: dict[str, Any]) -> bool:
    kinds = schema.get("type")
    values = schema.get("enum")
    return bool(
        schema.get("nullable") is True
        or (isinstance(kinds, list) and "null" in kinds)
        or (isinstance(values, list) and None in values)
    )


def _guess(schema: dict[str, Any]) -> str:
    """The type of a schema that says none."""
    if "properties" in schema:
        return "object"
    if "items" in schema:
        return "array"
    values = schema.get("enum")
    first = values[0] if isinstance(values, list) and values else schema.get("const")
    return _TYPES.get(type(first), "string")


def write_function(tool: Tool, form: str, name: str = "") -> tuple[dict[str, Any], str]:
    """Write a tool in one of `FORMS`; also return what was removed or renamed, or "".

    The name is `name`, or that of `function_name`. `toolbank.bank.function_reader.parse_tool` reads
    all forms. What they lose:

    - openai, anthropic: title, hints and output; a schema that refers to itself is expanded three
      levels deep, and a combination at the top becomes one object
    - anthropic: names of parameters with characters other than letters, digits and _.-, or over 64;
      `toolbank.bank.function_writer.restore_arguments` restores them in a call
    - gemini: as openai; all references are expanded, and keys that Gemini's `Schema` lacks are
      removed
    - mcp: nothing
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
    # Gemini refuses an object without properties.
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
    """Wrap functions as the `tools` of a request: Gemini has them in one object."""
    return [{"functionDeclarations": functions}] if form == "gemini" else functions


def _straighten(schema: dict[str, Any]) -> tuple[dict[str, Any], str]:
    whole, top = as_object(schema)
    inlined, deep = inline_references(whole) if is_circular(whole) else (whole, "")
    return inlined, _join(top, deep)


def _join(*said: str) -> str:
    return "; ".join(filter(None, said))
