"""The type text of a documented parameter, read into JSON Schema."""

import ast
import json
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_TYPES = {
    "bool": "boolean",
    "bools": "boolean",
    "boolean": "boolean",
    "booleans": "boolean",
    "true": "boolean",
    "false": "boolean",
    "int": "integer",
    "ints": "integer",
    "integer": "integer",
    "integers": "integer",
    "index": "integer",
    "float": "number",
    "floats": "number",
    "number": "number",
    "numbers": "number",
    "scalar": "number",
    "scalars": "number",
    "numeric": "number",
    "real": "number",
    "reals": "number",
    "str": "string",
    "strs": "string",
    "string": "string",
    "strings": "string",
    "none": "null",
    "nonetype": "null",
    "list": "array",
    "lists": "array",
    "tuple": "array",
    "tuples": "array",
    "sequence": "array",
    "sequences": "array",
    "iterable": "array",
    "set": "array",
    "dict": "object",
    "dicts": "object",
    "dictionary": "object",
    "mapping": "object",
}
_LOOSE = frozenset(
    {
        "scalar",
        "scalars",
        "index",
        "tuple",
        "tuples",
        "sequence",
        "sequences",
        "iterable",
    }
    | {"set", "mapping"}
)
_QUALIFIER = re.compile(
    r"(?:with|of|at|same|length|ndim|must|if|which|that|the|and|any|e\.g|i\.e)\b"
    r"|(?:of )?shape\b(?! \w)|[(\d]|.*-valued",
    re.I,
)
_SHAPE = re.compile(r"(?:\([^()]*\)|\{[^{}]*\}|\d+-?[dD])\s+(?P<rest>\S.*)", re.S)
_CONTAINER = re.compile(
    r"(?:\w+[ -])?(?:lists?|tuples?|sets?|sequences?|iterables?|ndarrays?|arrays?|(?:array|list)[-_ ]?likes?)"
    r"\s+of\s+(?P<items>.+)",
    re.I | re.S,
)
_GENERIC = re.compile(r"(?:\w+\.)*(?P<outer>\w+)\[(?P<inner>.*)\]", re.I | re.S)
_ARRAY = re.compile(r"\b(?:(?:array|list)[-_ ]?likes?|ndarrays?|arrays?)\b", re.I)
_DEFAULT = re.compile(
    r"[,;(\s]*\bdefaults?\b(?:\s+value)?(?:\s*[:=]\s*|\s+is\s+|\s+to\s+|\s+)(?P<value>.+)",
    re.I | re.S,
)
_OPTIONAL = re.compile(r"[,;(\s]*\boptional\b(?!\[)\)?", re.I)
_BRACES = re.compile(
    r"(?:one of\s+|(?:str|string|int)\s+)?\{+(?P<inner>[^{}]*)\}+", re.I | re.S
)
_ELLIPSES = frozenset({"...", "\u2026"})
_MAX_LITERAL = 60
_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")
_MAX_CLASSIFIER = 400


@dataclass(frozen=True)
class Parameter:
    """One parameter of a tool as its documentation and signature tell it.

    `default` is the signature's, as JSON; None where there is none or it is not JSON.
    `required` is None where only the classifier can tell. `schema` is what the documentation
    tells of a nested structure; without it the classifier tells.
    """

    name: str
    classifier: str = ""
    description: str = ""
    default: Any = None
    required: bool | None = None
    schema: dict[str, Any] | None = None
    is_deprecated: bool = False


def schema_of(classifier: str) -> dict[str, Any]:
    """The JSON Schema that a type text such as "int or None, optional" describes.

    What JSON Schema can't say (array_like, DataFrame, callable) stands in `format`, which
    validators ignore. A stated default that is JSON stands in `default`. Any text gives a
    schema; one that is not understood gives only its `format`.
    """
    text = _shortened(classifier)
    default = _DEFAULT.search(text)
    if default:
        text = text[: default.start()]
    marked = re.search(r"(?P<value>[^\s{,]+)\s*\(default\)", text)
    if marked:
        text = text.replace("(default)", "")
    text = _OPTIONAL.sub("", text).strip(" ,;.")
    schema = _union(text)
    default = default or marked
    if default:
        value = literal(_OPTIONAL.sub("", default["value"]).strip(" .,;)`"))
        if value is not _UNREADABLE:
            schema["default"] = value
    return schema


def is_optional(classifier: str) -> bool:
    """Whether the type text says that the parameter may be left out."""
    text = _shortened(classifier)
    return bool(_OPTIONAL.search(text) or _DEFAULT.search(text))


def parameters_schema(parameters: Iterable[Parameter]) -> dict[str, Any]:
    """The object schema of a parameter list: properties in the order given, `required`."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in parameters:
        name = parameter.name.lstrip("*")
        if not name or name in properties:
            continue
        if parameter.schema is not None:
            schema = dict(parameter.schema)
        elif parameter.classifier:
            schema = schema_of(parameter.classifier)
        elif parameter.name.startswith("*"):
            kind = "object" if parameter.name.startswith("**") else "array"
            schema = {"type": kind}
        else:
            schema = {}
        if parameter.default is not None:
            schema = schema or _type_of(parameter.default)
            schema["default"] = parameter.default
        if parameter.description:
            schema["description"] = parameter.description
        if parameter.is_deprecated:
            schema["deprecated"] = True
        properties[name] = schema
        needed = parameter.required
        if needed is None:
            needed = not (
                is_optional(parameter.classifier) or parameter.name.startswith("*")
            )
        if needed:
            required.append(name)
    schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return schema


def _shortened(classifier: str) -> str:
    """A type text as one line, cut where it can be none: the patterns are slow on long ones."""
    return " ".join(classifier.split())[:_MAX_CLASSIFIER]


def _type_of(value: Any) -> dict[str, Any]:
    """What a default says of a parameter that nothing else is said of."""
    types = {bool: "boolean", int: "number", float: "number", str: "string"}
    return {"type": types[type(value)]} if type(value) in types else {}


class _Unreadable:
    """The type of the mark for a text that is no JSON value (None is one)."""


_UNREADABLE = _Unreadable()


def literal(text: str) -> Any:
    """The JSON value that a Python literal writes, or a mark that is no JSON value."""
    text = text.strip().translate(_QUOTES)
    if not text or len(text) > _MAX_LITERAL:
        return _UNREADABLE
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
        return json.loads(json.dumps(value, allow_nan=False))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return _UNREADABLE


def is_literal(value: Any) -> bool:
    """Whether `literal` could read its text."""
    return value is not _UNREADABLE


def _union(text: str) -> dict[str, Any]:
    members = _members(text)
    values = [literal(member) for member in members]
    known = [value for value in values if is_literal(value) and value is not None]
    schemas: list[dict[str, Any]] = []
    if known:
        schemas.append(_enumeration(known))
    for member, value in zip(members, values, strict=True):
        if value is None:
            schemas.append({"type": "null"})
        elif not is_literal(value):
            schemas.append(_single(member))
    return _merged(schemas)


def _members(text: str) -> list[str]:
    """The alternatives of "int, str or None" and "{'a', 'b'}".

    A part that is no type of its own ("array_like, at least 2-D") makes the text one alternative.
    """
    parts = _split(text, r"\bor\b|\||,")
    braced = [_braced(part) for part in parts]
    if len(parts) > 1 and any(
        not inner and _is_qualifier(part)
        for part, inner in zip(parts, braced, strict=True)
    ):
        parts = [text]
        braced = [[]]
    members: list[str] = []
    for part, inner in zip(parts, braced, strict=True):
        members.extend(inner or [part])
    stripped = (re.sub(r"^(?:one of|either)\s+", "", member) for member in members)
    return [member for member in stripped if member not in _ELLIPSES]


def _is_qualifier(part: str) -> bool:
    """Whether a part says more of the type before it, and is none itself."""
    is_shaped_array = _SHAPE.fullmatch(part) and _ARRAY.search(part)
    return bool(_QUALIFIER.match(part)) and not is_shaped_array


def _enumeration(values: list[Any]) -> dict[str, Any]:
    if all(isinstance(value, bool) for value in values) and len(set(values)) == 2:
        return {"type": "boolean"}
    schema: dict[str, Any] = {}
    if all(isinstance(value, str) for value in values):
        schema["type"] = "string"
    unique: list[Any] = []
    for value in values:
        if not any(value == seen and type(value) is type(seen) for seen in unique):
            unique.append(value)
    schema["enum"] = unique
    return schema


def _single(text: str) -> dict[str, Any]:
    """The schema of one alternative."""
    text = re.sub(r"^(?:an?|the)\s+", "", text, flags=re.I)
    word = text.strip(" `").lower()
    if word in ("dict-like", "dict_like"):
        return {"type": "object", "format": text}
    if text == "Index":  # the class of pandas
        return {"format": text}
    if word in _TYPES:
        schema: dict[str, Any] = {"type": _TYPES[word]}
        if word in _LOOSE:
            schema["format"] = text
        return schema
    if re.fullmatch(r"[-+]?(?:\w+\.)?(?:inf|nan)", word):
        return {"type": "number", "format": text}
    generic = _GENERIC.fullmatch(text)
    if generic:
        return _generic(generic["outer"].lower(), generic["inner"], text)
    container = _CONTAINER.fullmatch(text)
    if container:
        return _array_of(re.sub(r"\band\b", "or", container["items"]), text)
    shaped = _SHAPE.fullmatch(text)
    if shaped:
        return {**_single(shaped["rest"]), "format": text}
    if _ARRAY.search(text) or re.fullmatch(r"\(.*,.*\)", text):
        return {"type": "array", "format": text}
    first = re.match(r"(?:(?:non-?negative|positive|python)\s+)?(\w+)(?![-\w])", word)
    is_one = not re.search(r"\bor\b", word)
    if first and is_one and _TYPES.get(first[1], "null") != "null":
        return {"type": _TYPES[first[1]], "format": text}
    return {"format": text} if text else {}


def _array_of(items: str, text: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array"}
    item = _union(items)
    if "type" in item or "anyOf" in item or "enum" in item:
        schema["items"] = item
    if "items" not in schema or not text.lower().startswith("list"):
        schema["format"] = text
    return schema


def _generic(outer: str, inner: str, text: str) -> dict[str, Any]:
    if outer == "optional":
        return _merged([_union(inner), {"type": "null"}])
    if outer in ("union", "annotated"):
        return _merged([_union(part) for part in _split(inner, r",")])
    if outer == "literal":
        return _union("{" + inner + "}")
    if _TYPES.get(outer) == "array" or outer in ("collection", "frozenset"):
        parts = [part for part in _split(inner, r",") if part != "..."]
        return _array_of(parts[0] if len(parts) == 1 else "", text)
    if _TYPES.get(outer) == "object":
        return {"type": "object", "format": text}
    return {"format": text}


def _merged(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """One schema that allows what any of these allows."""
    unique: list[dict[str, Any]] = []
    for schema in schemas:
        if schema and schema not in unique:
            unique.append(schema)
    if not unique:
        return {}
    if len(unique) == 1:
        return dict(unique[0])
    if all(
        schema.keys() == {"type"} and isinstance(schema["type"], str)
        for schema in unique
    ):
        return {"type": [schema["type"] for schema in unique]}
    if all(schema.keys() == {"format"} for schema in unique):
        return {"format": " or ".join(schema["format"] for schema in unique)}
    return {"anyOf": unique}


def _braced(text: str) -> list[str]:
    """The members of "{'a', 'b'}"; empty where the text is no such set."""
    match = _BRACES.fullmatch(text)
    if not match:
        return []
    members: list[str] = []
    for part in _split(match["inner"], r",|;|\bor\b|\||/"):
        numbered = re.fullmatch(r"(\w+) \((\d+)\)", part)
        members += [numbered[2], f"'{numbered[1]}'"] if numbered else [part]
    return members


def _split(text: str, separator: str) -> list[str]:
    """Split where no bracket or quote is open."""
    pattern = re.compile(separator, re.I)
    parts: list[str] = []
    start = position = depth = 0
    quote = ""
    while position < len(text):
        character = text[position]
        match = None if depth or quote else pattern.match(text, position)
        if match and match.end() > position and _stands_alone(text, match):
            parts.append(text[start:position])
            start = position = match.end()
            continue
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"" and not text[position - 1 : position].isalnum():
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth = max(0, depth - 1)
        position += 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def _stands_alone(text: str, match: re.Match[str]) -> bool:
    return not match[0].isalpha() or (
        not text[match.start() - 1 : match.start()].isalnum()
        and not text[match.end() : match.end() + 1].isalnum()
    )
