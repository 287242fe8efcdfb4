"""Convert types as documentation writes them, "int, str or None", to JSON Schema."""

import ast
import json
import re
import warnings
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any

_MAX_LITERAL = 60
_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")


_UNREADABLE = object()
"""Stands for a text that is no JSON value (None is one)."""


def literal(text: str) -> Any:
    """Return the JSON value of a Python literal, or a value that `is_literal` refuses."""
    text = text.strip().translate(_QUOTES)
    if not text or len(text) > _MAX_LITERAL:
        return _UNREADABLE
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
        return json.loads(json.dumps(value, allow_nan=False))
    except (ValueError, SyntaxError, TypeError, MemoryError):
        return _UNREADABLE


def is_literal(value: Any) -> bool:
    """Whether a value of `literal` comes from a literal."""
    return value is not _UNREADABLE


def literal_or_none(text: str) -> Any:
    """Return the JSON value of a Python literal, or None."""
    value = literal(text)
    return value if is_literal(value) else None


_WORDS = {
    "boolean": "bool bools boolean booleans true false",
    "integer": "int ints integer integers index",
    "number": "float floats number numbers numeric real reals",
    "string": "str strs string strings",
    "null": "none nonetype",
    "array": "list lists tuple tuples sequence sequences iterable set",
    "object": "dict dicts dictionary mapping",
}
_TYPES = {word: kind for kind, words in _WORDS.items() for word in words.split()}
_LOOSE = frozenset(
    {"index", "tuple", "tuples", "sequence", "sequences", "iterable", "set", "mapping"}
)
_JSON_TYPES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}
_QUALIFIER = re.compile(
    r"(?:with|of|at|same|length|ndim|must|if|which|that|the|and|any|e\.g|i\.e)\b"
    r"|(?:of )?shape\b(?! \w)|[(\d]|.*-valued",
    re.I,
)
_SHAPE = re.compile(
    r"(?:\([^()]*\)|\{[^{}]*\}|\d+-?[dD]\b|\w+-dimensional)\s+(?P<rest>\S.*)"
    r"|\d+-(?P<word>tuple|list|sequence)s?(?P<more>[\s/].*)?",
    re.S,
)
_CONTAINER = re.compile(
    r"(?:\w+(?:[ -]|\s*/\s*))?(?:lists?|tuples?|sets?|sequences?|iterables?|ndarrays?|arrays?|(?:array|list)[-_ ]?likes?)"
    r"\s+of\s+(?P<items>.+)",
    re.I | re.S,
)
_GENERIC = re.compile(r"(?:\w+\.)*(?P<outer>\w+)\[(?P<inner>.*)\]", re.I | re.S)
_ARRAY = re.compile(
    r"(?<![\w.])(?:np\.|numpy\.)?(?:(?:array|list)[-_ ]?likes?|ndarrays?|arrays?)\b",
    re.I,
)
_OTHER = re.compile(r"callable|function|->|\N{RIGHTWARDS ARROW}|\bsub-?class", re.I)
_LAST = re.compile(r"[\w-]+ (?P<word>tuple|list|sequence|dict|dictionary)", re.I)
_CLASS = re.compile(r"\b[A-Z]+[a-z]\w*")
_BRACKETED = re.compile(r"[(\[{].*[)\]}]", re.S)
_FORMS = (
    (re.compile(r"scalars?( .*)?"), ["number", "string", "boolean"]),
    (re.compile(r"dict[-_]like|(?:dict|dictionary|mapping) of .*", re.S), "object"),
    (re.compile(r"[-+]?(?:\w+\.)?(?:inf|nan)"), "number"),
)
_BRACES = re.compile(
    r"(?:one of\s+|(?P<kind>str|string|int)\s+|(?P<quote>[\"'\u201c\u2018]))?"
    r"\{+(?P<inner>[^{}]*)\}+(?(quote)[\"'\u201d\u2019]|(?:\s+for\s+\w+)?)",
    re.I | re.S,
)
# An apostrophe within a word is no quote, and a quote may be unclosed.
_TOKEN = re.compile(
    r"(?<![^\W_])(?:'[^']*(?:'|\Z)|\"[^\"]*(?:\"|\Z))|[()\[\]{}|,;/]|\bor\b", re.I
)
_ELLIPSIS = re.compile(r"\.\.\.|\u2026")
_UNCLOSED = re.compile(r"\A['\"\u2018\u201c](\w+)\Z")


def read_types(text: str) -> dict[str, Any]:
    """Return the JSON Schema of a type text, ignoring defaults; never too strict.

    What JSON Schema can't express is in `format`, such as a whole text that is not understood.
    """
    members = _members(text)
    values = [literal(member) for member in members]
    known = [value for value in values if is_literal(value) and value is not None]
    schemas: list[dict[str, Any]] = []
    if known:
        schemas.append(_enumeration(known))
    container: tuple[str, dict[str, Any]] | None = None
    for member, value in zip(members, values, strict=True):
        if value is None:
            schemas.append({"type": "null"})
        elif not is_literal(value):
            schema = _single(member)
            follows = container and f"{container[0]} or {member}" in text
            # In "list of str or int", an item may be either.
            scalars = {"string", "number", "integer", "boolean"}
            if container and follows and scalars & set(_types_of(schema)):
                container[1]["items"] = _merged([container[1]["items"], schema])
            container = (member, schema) if "items" in schema else None
            schemas.append(schema)
    return _merged(schemas)


def allowing(schema: dict[str, Any], value: Any) -> dict[str, Any]:
    """Return the schema, extended if it does not allow this value."""
    if _allows(schema, value):
        return schema
    members = list(schema.get("anyOf", [schema]))
    listed = [item for item in members if "enum" in item]
    if listed and isinstance(value, (str, int, float)):
        members[members.index(listed[0])] = _enumeration([*listed[0]["enum"], value])
        return _merged(members)
    return _merged([*members, {"type": _JSON_TYPES[type(value)]}])


def _types_of(schema: dict[str, Any]) -> list[str]:
    """The values of a schema's `type`."""
    named = schema.get("type", [])
    return [named] if isinstance(named, str) else list(named)


def _allows(schema: dict[str, Any], value: Any) -> bool:
    if "anyOf" in schema:
        return any(_allows(item, value) for item in schema["anyOf"])
    if "enum" in schema:
        return any(_is_same(value, item) for item in schema["enum"])
    types = _types_of(schema)
    kind = _JSON_TYPES[type(value)]
    return not types or kind in types or (kind == "integer" and "number" in types)


def _is_same(value: Any, other: Any) -> bool:
    """Whether two JSON values are equal; booleans equal no numbers."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _members(text: str) -> list[str]:
    """The alternatives of "int, str or None" and "{'a', 'b'}".

    A text with a part that is no type, "array_like, at least 2-D", is one alternative.
    """
    parts = _split(text, ("or", "|", ","))
    braced = [_braced(part) for part in parts]
    is_one = bool(re.fullmatch(r"\d+-?d", parts[0], re.I)) if parts else True
    if is_one or any(
        not inner and _is_qualifier(part)
        for part, inner in zip(parts[1:], braced[1:], strict=True)
    ):
        parts, braced = [text], [[]]
    members = (
        member
        for part, inner in zip(parts, braced, strict=True)
        for member in inner or _joined(part)
    )
    stripped = (re.sub(r"^(?:one of|either)\s+", "", member) for member in members)
    return [
        re.sub(_UNCLOSED, r"'\1'", member)
        for member in stripped
        if not _ELLIPSIS.fullmatch(member)
    ]


def _joined(part: str) -> list[str]:
    """The types in "str/regex" and "tuple and dict", or the whole text."""
    words = [word.strip() for word in re.split(r"/|\band\b", part)]
    plain = [word for word in words if word.lower() in _TYPES]
    is_joined = len(words) > 1 and all(words) and bool(plain)
    return words if is_joined and not re.search(r"[(\[{'\"]|\bof\b", part) else [part]


def _is_qualifier(part: str) -> bool:
    """Whether a part qualifies the type before it and is no type itself."""
    shaped = _SHAPE.fullmatch(part)
    is_type = shaped and (shaped["word"] or _single(shaped["rest"]).get("type"))
    return bool(_QUALIFIER.match(part)) and not is_type


def _enumeration(values: list[Any]) -> dict[str, Any]:
    if all(isinstance(value, bool) for value in values) and len(set(values)) == 2:
        return {"type": "boolean"}
    schema: dict[str, Any] = {}
    if all(isinstance(value, str) for value in values):
        schema["type"] = "string"
    schema["enum"] = [
        value
        for place, value in enumerate(values)
        if not any(_is_same(value, seen) for seen in values[:place])
    ]
    return schema


def _single(text: str) -> dict[str, Any]:
    """The schema of one alternative."""
    text = re.sub(r"^(?:an?|the|input)\s+", "", text, flags=re.I)
    word = text.strip(" `").lower()
    for form, kind in _FORMS:
        if form.fullmatch(word):
            return {"type": kind, "format": text}
    if word in _TYPES and text != "Index":  # the class of pandas
        schema: dict[str, Any] = {"type": _TYPES[word]}
        if word in _LOOSE:
            schema["format"] = text
        return schema
    if generic := _GENERIC.fullmatch(text):
        return _generic(generic["outer"].lower(), generic["inner"], text)
    if container := _CONTAINER.fullmatch(text):
        return _array_of(re.sub(r"\band\b", "or", container["items"]), text)
    if _OTHER.search(text):
        return {"format": text}
    if shaped := _SHAPE.fullmatch(text):
        return {**(_single(shaped["rest"] or "list")), "format": text}
    if last := _LAST.fullmatch(text):
        return {"type": _TYPES[last["word"].lower()], "format": text}
    if _ARRAY.search(text) or re.fullmatch(r"\(.*,.*\)|\[.*,.*\]", text):
        return {"type": "array", "format": text}
    first = re.match(r"(?:(?:non-?negative|positive|python)\s+)?(\w+)(?![-\w])", word)
    if first and _names_type(first[1], text):
        return {"type": _TYPES[first[1]], "format": text}
    return {"format": text} if text else {}


def _names_type(first: str, text: str) -> bool:
    """Whether the first word is the type, which it is not in "bool Series", "index labels"."""
    words = _BRACKETED.sub(" ", text)
    is_other = re.search(r"\bor\b|/", words) or _CLASS.search(words, len(first))
    return not is_other and first != "index" and _TYPES.get(first, "null") != "null"


def _array_of(items: str, text: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array"}
    item = read_types(items)
    if "type" in item or "anyOf" in item or "enum" in item:
        schema["items"] = item
    if "items" not in schema or not text.lower().startswith("list"):
        schema["format"] = text
    return schema


def _generic(outer: str, inner: str, text: str) -> dict[str, Any]:
    if outer == "annotated":
        return read_types(_split(inner, ",")[0] if inner.strip(" ,") else "")
    if outer in ("optional", "union"):
        parts = [*_split(inner, ","), *(["None"] if outer == "optional" else [])]
        return _merged([read_types(part) for part in parts])
    if outer == "literal":
        return read_types("{" + inner + "}")
    is_array = outer in ("collection", "frozenset") or _ARRAY.fullmatch(outer)
    if _TYPES.get(outer) == "array" or is_array:
        parts = [part for part in _split(inner, ",") if part != "..."]
        return _array_of(parts[0] if len(parts) == 1 else "", text)
    if _TYPES.get(outer) == "object":
        return {"type": "object", "format": text}
    return {"format": text}


def _merged(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """One schema that allows what any of these allows."""
    unique = [s for i, s in enumerate(schemas) if s and s not in schemas[:i]]
    if len(unique) < 2:
        return dict(unique[0]) if unique else {}
    if all(schema.keys() == {"type"} for schema in unique):
        types = [kind for schema in unique for kind in _types_of(schema)]
        return {"type": list(dict.fromkeys(types))}
    if all(schema.keys() == {"format"} for schema in unique):
        return {"format": " or ".join(schema["format"] for schema in unique)}
    return {"anyOf": unique}


def _braced(text: str) -> list[str]:
    """The members of "{'a', 'b'}", or its type if it has an ellipsis; empty for other text."""
    match = _BRACES.fullmatch(text)
    if not match:
        return []
    members: list[str] = []
    for part in _split(match["inner"], ("or", "|", ",", ";", "/")):
        numbered = re.fullmatch(r"(\w+) \((\d+)\)", part)
        members += [numbered[2], f"'{numbered[1]}'"] if numbered else [part]
    if not any(map(_ELLIPSIS.match, members)):
        return members
    given = {type(literal(part)) for part in members if not _ELLIPSIS.match(part)}
    kinds = {frozenset({int}): "int", frozenset({str}): "str"}
    return [match["kind"] or kinds.get(frozenset(given), text.strip("{}"))]


def _split(text: str, separators: Container[str]) -> list[str]:
    """Split where no bracket or quote is open."""
    parts: list[str] = []
    start = depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in "([{":
            depth += 1
        elif token[0] in ")]}":
            depth = max(0, depth - 1)
        elif not depth and token[0].lower() in separators:
            parts.append(text[start : token.start()])
            start = token.end()
    return [part for text in (*parts, text[start:]) if (part := text.strip())]


_ENCLOSED = re.compile(
    r"\s*\(defaults?(?:\s*[:=]\s*|\s+is\s+|\s+)(?P<value>[^()]+)\)(?=\s*,)", re.I
)
_BRACED = re.compile(r"(?P<kept>\{)\s*default\s+(?=(?P<value>['\"\u2018\u201c]\w+\W))")
_MARKED = re.compile(r"(?P<kept>(?P<value>[^\s{,]+))\s*\(default\)")
_REMARKED = re.compile(
    r"(?P<value>'[^']*'|\"[^\"]*\"|\u2018[^\u2019]*\u2019|\u201c[^\u201d]*\u201d|[-+\w.]+)"
    r"(?:\s*\(.*\)|,.*|\s+(?P=value))",
    re.S,
)
_DEFAULT = re.compile(
    r"[,;(\s]*\bdefaults?\b(?:\s+value)?(?:\s*[:=]\s*|\s+is\s+|\s+to\s+|\s+)(?P<value>.+)",
    re.I | re.S,
)
_OPTIONAL = re.compile(r"[,;(\s]*\boptional\b(?!\[)\)?", re.I)
_KEYWORD = re.compile(r",\s*keyword[- ]only\b", re.I)
_MAX_CLASSIFIER = 400


@dataclass(frozen=True)
class Parameter:
    """One parameter of a tool, from its signature and documentation.

    `default` is that of the signature, or None if there is none or it is not JSON. If `required`
    is None, it depends on the classifier. `schema` describes a nested structure; without it the
    schema is that of the classifier.
    """

    name: str
    classifier: str = ""
    description: str = ""
    default: Any = None
    required: bool | None = None
    schema: dict[str, Any] | None = None
    is_deprecated: bool = False


def schema_of(classifier: str) -> dict[str, Any]:
    """Return the JSON Schema of a type text such as "int or None, optional".

    What JSON Schema can't express (array_like, DataFrame, callable) is in `format`, which
    validators ignore. A default that is JSON is in `default`. A text that is not understood gives
    only a `format`.
    """
    text = _KEYWORD.sub("", _shortened(classifier))
    words = ""
    for form in (_BRACED, _ENCLOSED, _DEFAULT, _MARKED):
        if stated := form.search(text):
            words = stated["value"]
            kept = stated.groupdict().get("kept", "")
            text = text[: stated.start()] + kept + text[stated.end() :]
            break
    text = re.sub(r",\s*default$", "", _OPTIONAL.sub("", text).strip(" ,;."))
    schema = read_types(text)
    value = _default(_OPTIONAL.sub("", words), schema)
    return (
        {**allowing(schema, value), "default": value} if is_literal(value) else schema
    )


def _default(text: str, schema: dict[str, Any]) -> Any:
    """The value after the word "default"; remarks may follow it."""
    text = text.strip(" .,;`")
    if text.count(")") > text.count("("):
        text = text.rstrip(")")
    value = literal(text)
    remarked = _REMARKED.fullmatch(text)
    if not is_literal(value) and remarked:
        value = literal(remarked["value"])
    return text if text in schema.get("enum", ()) else value


def is_optional(classifier: str) -> bool:
    """Whether a type text says that the parameter is optional."""
    text = _shortened(classifier)
    return bool(_OPTIONAL.search(text) or _DEFAULT.search(text))


def parameters_schema(parameters: Iterable[Parameter]) -> dict[str, Any]:
    """Return the object schema of a list of parameters, in order.

    `$defs` of the schemas are merged. If two of the same name differ, the second parameter gets
    the schema of its classifier.
    """
    properties: dict[str, Any] = {}
    shared: dict[str, Any] = {}
    required: list[str] = []
    for parameter in parameters:
        name = parameter.name.lstrip("*")
        if not name or name in properties:
            continue
        if parameter.name.startswith("*"):
            kind = "object" if parameter.name.startswith("**") else "array"
            schema: dict[str, Any] = {"type": kind}
            if parameter.classifier:
                schema["format"] = parameter.classifier
        elif parameter.schema is not None and _fits(parameter.schema, shared):
            schema = dict(parameter.schema)
            shared |= schema.pop("$defs", {})
        elif parameter.classifier:
            schema = schema_of(parameter.classifier)
        else:
            schema = {}
        if parameter.default is not None:
            schema = {key: schema[key] for key in schema if key != "default"}
            schema = schema or _type_of(parameter.default)
            schema = allowing(schema, parameter.default) | {
                "default": parameter.default
            }
        if parameter.description:
            schema["description"] = parameter.description
        if parameter.is_deprecated:
            schema["deprecated"] = True
        properties[name] = schema
        is_required = parameter.required
        if is_required is None:
            is_starred = parameter.name.startswith("*")
            is_required = not (is_starred or is_optional(parameter.classifier))
        if is_required:
            required.append(name)
    whole: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        whole["required"] = required
    if shared:
        whole["$defs"] = shared
    return whole


def _fits(schema: dict[str, Any], shared: dict[str, Any]) -> bool:
    own = schema.get("$defs", {})
    return all(shared.get(name, one) == one for name, one in own.items())


def _shortened(classifier: str) -> str:
    """A type text as one line, cut at 400 characters: the patterns are slow on long text."""
    return " ".join(classifier.split())[:_MAX_CLASSIFIER]


def _type_of(value: Any) -> dict[str, Any]:
    """The schema of a parameter of which only the default is known."""
    if not isinstance(value, str | int | float):
        return {}
    kind = _JSON_TYPES[type(value)]
    return {"type": "number" if kind == "integer" else kind}
