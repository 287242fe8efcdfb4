"""Read tools from the function formats of APIs and datasets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, get_args

from pydantic import ValidationError

from toolbank.bank.records import Tool, ToolKind
from toolbank.config.explain import first_problem
from toolbank.system.files import get_text, get_texts
from toolbank.system.text import decode_json, escape, replace_surrogates

_SCHEMAS = (
    *("parametersJsonSchema", "parameters_json_schema", "parameters"),
    *("inputSchema", "input_schema", "arguments"),
)
# Of LangChain, LlamaIndex, Cohere, Semantic Kernel and smolagents; other lists use these names, too.
_OTHER_SCHEMAS = (
    *("args_schema", "fn_schema", "parameter_definitions", "input_variables"),
    *("args", "inputs"),
)
_LOOKS_LIKE_PARAMETERS = re.compile(
    r"(?!.*(example|return|output|response)).*(param|arg|input|schema|propert)",
    re.IGNORECASE,
)
# Keys of an object that is a function although it has no parameters.
_TEXT_KEYS = {
    *("name", "title", "summary", "description"),
    *("annotations", "tags", "type", "strict"),
}
_OUTPUTS = ("outputSchema", "output_schema", "responseJsonSchema", "response")
_ENVELOPES = ("function", "toolSpec", "data", "metadata")
_MAPS = frozenset({"properties", "$defs", "definitions", "patternProperties"})
_PARAMETER_KEYS = {
    **dict.fromkeys(("is_required", "isRequired"), "required"),
    **dict.fromkeys(("default_value", "defaultValue"), "default"),
    "type_": "type",
}
_INNER = frozenset(
    {"items", "anyOf", "oneOf", "allOf", "not", "additionalProperties", "prefixItems"}
)
_OBJECTS = ("object", "OBJECT", "dict")
_TYPES = ("string", "number", "boolean", "integer", "array", "object")
_TYPE_NAMES = {name: name for name in (*_TYPES, "null")} | {
    **dict.fromkeys(("dict", "map"), "object"),
    **dict.fromkeys(("float", "double"), "number"),
    **dict.fromkeys(("int", "long"), "integer"),
    **dict.fromkeys(("list", "tuple", "set"), "array"),
    **dict.fromkeys(("str", "any"), "string"),
    "bool": "boolean",
    "none": "null",
}
_LIST_OF = re.compile(rf"list\[({'|'.join(_TYPE_NAMES)})\]", re.IGNORECASE)


def describe_tool(
    name: str, description: str, kind: ToolKind = "function", **fields: Any
) -> Tool:
    """Make a tool whose summary is the first paragraph, and the rest its description."""
    summary, _, rest = description.strip().partition("\n\n")
    return Tool(
        name=name,
        kind=kind,
        summary=" ".join(summary.split()),
        description=rest.strip(),
        **fields,
    )


def parse_tool(row: dict[str, Any]) -> Tool:
    """Read a tool of a bank (by its `kind` and other keys) or a function, as `parse_function`.

    The function may be at `function`, as in chat-completions APIs, or in another envelope.

    Raises:
        ValueError: it is invalid.
    """
    if _is_of_bank(row):
        get_text(row, "name")
        _schema(row)
        known = {key: row[key] for key in row if key in Tool.model_fields}
        try:
            return Tool.model_validate(known)
        except ValidationError as error:
            raise ValueError(first_problem(error)) from error
    return parse_function(_unwrap(row))


def _is_of_bank(row: dict[str, Any]) -> bool:
    """Whether it is a tool of a bank; others, such as pydantic-ai, have a `kind` as well."""
    of_lists = {*_SCHEMAS, *_OTHER_SCHEMAS} - {"parameters"}
    if "kind" not in row or any(row.get(key) for key in of_lists):
        return False
    return row["kind"] in get_args(ToolKind) or "summary" in row


def _unwrap(row: dict[str, Any]) -> dict[str, Any]:
    """The function in an envelope, such as that of Bedrock, or the row."""
    if "name" in row:
        return row
    found = (row[key] for key in _ENVELOPES if isinstance(row.get(key), dict))
    return next(found, row)


def has_parameters(entry: Any) -> bool:
    """Whether an entry of `find_functions` has a key of parameters."""
    keys = {*_SCHEMAS, *_OTHER_SCHEMAS, "required_parameters"}
    return isinstance(entry, dict) and bool(keys & _unwrap(entry).keys())


def find_unread_parameters(row: dict[str, Any]) -> list[str]:
    """List the keys of a function that look like parameters and are not read."""
    row = _unwrap(row)
    read = {"required_parameters", "optional_parameters", *_SCHEMAS, *_OUTPUTS}
    if _schema(row, _SCHEMAS) or _other_schema(row):
        read |= {*_OTHER_SCHEMAS}
    return [
        key
        for key, value in row.items()
        if value and key not in read and _LOOKS_LIKE_PARAMETERS.match(key)
        if isinstance(value, dict | list) or key in _OTHER_SCHEMAS
    ]


def parse_function(row: dict[str, Any]) -> Tool:
    """Read a function of OpenAI, Anthropic, Gemini, MCP, Bedrock or an agent library.

    Parameters are a JSON Schema of an object, its properties (each may be only a type or a text),
    or a list of named parameters, also as JSON in a string, at one of the keys `_SCHEMAS` and
    `_OTHER_SCHEMAS`; the output is a schema at one of `_OUTPUTS`. Without a `summary`, the first
    paragraph of the description is it.
    `aliases`, `twins`, `title` (or that of the annotations), `annotations` and `tags` are copied.
    Other keys are ignored.

    Raises:
        ValueError: it is invalid.
    """
    name = get_text(row, "name")
    texts = {key: row.get(key) or "" for key in ("title", "summary", "description")}
    hints = row.get("annotations")
    hints = hints if isinstance(hints, dict) else {}
    for key, text in texts.items():
        if not isinstance(text, str):
            raise ValueError(f'"{key}" is not a string')
    title, summary, description = texts.values()
    if not summary:
        # Joined again, they are the same text.
        summary, _, description = description.strip().partition("\n\n")
    tool = Tool(name=name, summary=summary, description=description)
    said: dict[str, Any] = {
        key: get_texts(row, key) for key in ("aliases", "twins", "tags") if key in row
    }
    if title or isinstance(hints.get("title"), str):
        said["title"] = title or hints["title"]
    if hints:
        said["annotations"] = hints
    if parameters := _schema(row, _SCHEMAS) or _other_schema(row):
        said["parameters"] = _lower_types(parameters)
    if output := _read_output(row):
        said["output_schema"] = _lower_types(output)
    return tool.model_copy(update=said)


def _read_output(row: dict[str, Any]) -> dict[str, Any] | None:
    for key in _OUTPUTS:
        if row.get(key):
            if not isinstance(row[key], dict):
                raise ValueError(f'"{key}" is not a JSON Schema; remove it')
            return dict(row[key])
    kind = row.get("output_type")
    return {"type": kind} if isinstance(kind, str) else None


def make_parameters(required: Any, optional: Any) -> dict[str, Any]:
    """Make a JSON Schema of two lists of {name, type, description, default, enum}."""
    properties: dict[str, dict[str, Any]] = {}
    for entry in (*_entries(required), *_entries(optional)):
        name, kind = _name(entry), str(entry.get("type", "")).lower()
        properties[name] = {
            "type": kind if kind in _TYPES else "string",
            "description": replace_surrogates(str(entry.get("description") or "")),
        }
        for key in ("default", "enum"):
            if entry.get(key) not in (None, ""):  # an empty text is no default
                properties[name][key] = entry[key]
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    names = [_name(entry) for entry in _entries(required)]
    return {**schema, "required": names} if names else schema


def _schema(
    row: dict[str, Any], keys: tuple[str, ...] = _SCHEMAS
) -> dict[str, Any] | None:
    """The JSON Schema of an object at the first of the keys with a value.

    With properties, the type may be another one: published data have "dict". Properties may also
    be without a schema around them, or be a list of parameters with names.
    """
    key = next((key for key in keys if row.get(key)), None)
    if key is None:
        return None
    schema = row[key]
    if isinstance(schema, str):
        with suppress(ValueError):
            schema = decode_json(schema)
    if isinstance(schema, list) and len(_entries(schema)) == len(schema):
        schema = {_name(entry): _read_parameter(entry) for entry in schema}
    if isinstance(schema, dict):
        # Of Bedrock, and of Vercel's AI SDK, which has functions beside it.
        held = "json" if key == "inputSchema" and "json" in schema else "jsonSchema"
        inner = schema.get(held)
        if isinstance(inner, dict) and inner.get("type") in _OBJECTS:
            schema = inner
        schema = _write_out(schema)
        if _are_properties(schema):
            return _wrap_properties(schema, whole=key in ("args", "inputs"))
        if isinstance(schema.get("properties"), dict):
            return schema
        if "properties" not in schema and schema.get("type", "object") in _OBJECTS:
            return schema
    raise ValueError(
        f'"{key}" is not a schema of an object; remove it, or write it as '
        '{"type": "object", "properties": {"city": {"type": "string"}}}'
    )


def _other_schema(row: dict[str, Any]) -> dict[str, Any] | None:
    """The schema at the first of the keys that may also hold something else."""
    for key in _OTHER_SCHEMAS:
        with suppress(ValueError):
            if schema := _schema(row, (key,)):
                return schema
    return None


def _read_parameter(entry: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter in a list, as Semantic Kernel and others write it."""
    schema: dict[str, Any] = {}
    for key, value in entry.items():
        if key in ("schema", "schema_data", "json_schema"):
            schema |= value if isinstance(value, dict) else {}
        elif key != "name" and value not in (None, ""):
            schema[_PARAMETER_KEYS.get(key, key)] = value
    return schema


def _wrap_properties(properties: dict[str, Any], *, whole: bool) -> dict[str, Any]:
    """Make a schema of properties without one.

    Each may say whether it is `required`. Otherwise, if any of them has a default, may be null or
    is called optional, the others are required (xLAM); of a `whole` function they always are.
    """
    flags = {name: one.get("required") for name, one in properties.items()}
    if any(isinstance(flag, bool) for flag in flags.values()):
        required = [name for name, flag in flags.items() if flag is True]
    else:
        optional = {
            name
            for name, one in properties.items()
            if "default" in one
            or one.get("nullable") is True
            or "optional" in str(one.get("type")).lower()
        }
        required = [n for n in properties if n not in optional and (whole or optional)]
    bare = {
        name: {k: v for k, v in one.items() if k != "required" or isinstance(v, list)}
        for name, one in properties.items()
    }
    schema: dict[str, Any] = {"type": "object", "properties": bare}
    return {**schema, "required": required} if required else schema


def _write_out(schema: dict[str, Any]) -> dict[str, Any]:
    """Write out properties such as {"city": "string", "day": "The day to look up"}."""
    is_schema = schema.get("type") in _OBJECTS or schema.keys() <= _TEXT_KEYS
    if is_schema or any(n.startswith("$") or n in _MAPS | _INNER for n in schema):
        return schema
    written = dict(schema)
    for name, one in schema.items():
        if isinstance(one, str) and _lower_name(one) in _TYPE_NAMES.values():
            written[name] = {"type": one}
        elif isinstance(one, str) and name not in _TEXT_KEYS:
            written[name] = {"description": one}
        elif not isinstance(one, dict):
            return schema
    return written


def _are_properties(schema: dict[str, Any]) -> bool:
    """Whether this is an object of properties, not a schema."""
    return all(isinstance(one, dict) for one in schema.values()) and not (
        schema.keys() & (_MAPS | _INNER)
    )


def _lower_types(schema: Any) -> Any:
    """Replace names of types of Gemini, BFCL and programming languages by those of JSON Schema."""
    if isinstance(schema, list):
        return [_lower_types(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "type_" in schema and "type" not in schema:
        # As the client of Vertex AI writes it.
        schema = {"type" if key == "type_" else key: schema[key] for key in schema}
    lowered = {
        key: {name: _lower_types(one) for name, one in value.items()}
        if key in _MAPS and isinstance(value, dict)
        else _lower_types(value)
        if key in _INNER
        else value
        for key, value in schema.items()
    }
    kind = schema.get("type")
    if isinstance(kind, str) and (inner := _LIST_OF.match(kind)):
        lowered.setdefault("items", {"type": _TYPE_NAMES[inner[1].lower()]})
    if isinstance(kind, list):
        lowered["type"] = [_lower_name(one) for one in kind]
    elif kind is not None:
        lowered["type"] = _lower_name(kind)
    return lowered


def _lower_name(kind: Any) -> Any:
    """A type of JSON Schema for a name such as "STRING", "List[int]" or "float, optional"."""
    if not isinstance(kind, str):
        return kind
    bare = kind.lower().removeprefix("optional[").partition(",")[0].partition("[")[0]
    return _TYPE_NAMES.get(bare.strip(" ]"), kind)


def _name(entry: dict[str, Any]) -> str:
    return replace_surrogates(str(entry["name"]))


def _entries(value: Any) -> list[dict[str, Any]]:
    rows = value if isinstance(value, list) else ()
    return [row for row in rows if isinstance(row, dict) and row.get("name")]


_WRAPS = ("tools", "functions", "functionDeclarations", "function_declarations")
_OUTER = ("result", "toolConfig", "functionSchema", "body", "session")


def find_functions(content: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """Iterate over the functions of a document, each after its JSON Pointer.

    Accepts a list of functions; an object or entry with a list at `tools`, `functions` or Gemini's
    `functionDeclarations`, also as JSON in a string or in the answer of a server; lines of BFCL,
    with a list at `function`; a tool of ToolBench, with its `api_list`; and an object of functions
    or descriptions by name. Anything else has none.
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
                place = escape(replace_surrogates(name))
                yield f"{pointer}/{place}", {"name": name, **said}


def is_function(content: dict[str, Any]) -> bool:
    """Whether an object is a function, with parameters or with nothing but texts."""
    row = _unwrap(content)
    has_texts = _is_of_bank(row) or ("description" in row and row.keys() <= _TEXT_KEYS)
    return isinstance(row.get("name"), str) and (has_texts or has_parameters(row))


def _is_by_name(content: dict[str, Any]) -> bool:
    """Whether an object has functions by name; some may be only a description."""
    described = [one for one in content.values() if not isinstance(one, str)]
    return bool(described) and all(
        isinstance(one, dict) and ("description" in one or "parameters" in one)
        for one in described
    )


def read_entry(entry: Any) -> Tool:
    """Read an entry of `find_functions`.

    Raises:
        ValueError: it is invalid.
    """
    if not isinstance(entry, dict):
        raise ValueError("it is not an object with name and description")
    if "api_name" in entry or "required_parameters" in entry:
        return read_api(entry)
    tool = parse_tool(entry)
    if not tool.name.strip():
        raise ValueError('"name" is empty')
    return tool


def _find_inside(entry: Any, pointer: str) -> Iterator[tuple[str, Any]] | None:
    """The functions of a list in an object, or None."""
    if not isinstance(entry, dict):
        return None
    for key in (*_WRAPS, "function"):
        inner = _decode(entry.get(key))
        if isinstance(inner, list) or (isinstance(inner, dict) and key != "function"):
            return find_functions(inner, f"{pointer}/{key}")
    for key in _OUTER:
        found = _find_inside(entry.get(key), f"{pointer}/{key}")
        if found is not None:
            return found
    if isinstance(entry.get("api_list"), list):
        name = entry.get("tool_name") or entry.get("title")
        own = {"tool_name": name, "category_name": entry.get("category")}
        return (
            (f"{pointer}/api_list/{n}", {**own, **api, "api_name": api.get("name")})
            for n, api in enumerate(entry["api_list"])
            if isinstance(api, dict)
        )
    return None


def _decode(value: Any) -> Any:
    """A value that may be JSON in a string; text that is no JSON is one entry, which has no name."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    with suppress(ValueError):
        return decode_json(value)
    return [value]


def read_api(api: dict[str, Any]) -> Tool:
    """Read an API of ToolBench as the tool TOOL::API (arXiv 2307.16789)."""
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
